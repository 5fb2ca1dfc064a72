import { describe, expect, it } from "vitest";
import { splitText } from "../delivery/split.ts";
import type {
  Channel,
  OutgoingMessage,
  ReceivedMessage,
  SendResult,
  TypingPlace,
  SentMessage,
} from "../contract/channel.ts";
import { testAsking } from "./channel-asking.ts";
import {
  createHost,
  expectResult,
  getResult,
  MARK,
  SEND_MS,
  testFaults,
  type ChannelHarness,
} from "./channel-harness.ts";
import {
  expectNoSecret,
  expectText,
  openForEachTest,
  until,
  within,
  type Open,
} from "./harness.ts";

/** Declares the tests of a channel whose messages can be changed while a turn runs. */
function testStreaming(harness: () => ChannelHarness): void {
  it("changes a message and deletes it, each as often as it is asked", async () => {
    const { channel, to, sent } = harness();
    if (!channel.streaming) return;
    const signal = (): AbortSignal => AbortSignal.timeout(SEND_MS);
    const result = await channel.send({ to, text: "…", idempotencyKey: "dlv_test.live" }, signal());
    const messageId = (result.status === "sent" && result.messageIds?.[0]) || "";
    expect(messageId).not.toBe("");
    const message: SentMessage = { to, messageId };
    for (let times = 0; times < 2; times++)
      expect(
        (await channel.streaming.edit({ ...message, text: "The **first** words." }, signal()))
          .status,
      ).toBe("sent");
    expect(sent()).toHaveLength(1);
    expect(sent()[0]?.text).toMatch(/first.{0,4} words/);
    expect(sent()[0]?.text).not.toContain("…");
    for (let times = 0; times < 2; times++)
      expect((await channel.streaming.remove(message, signal())).status).toBe("sent");
    expect(sent()).toEqual([]);
    const late = await channel.streaming.edit({ ...message, text: "Too late." }, signal());
    expectResult(late);
    expect(late.status).toBe("failed");
    expect(channel.streaming.everyMs).toBeGreaterThanOrEqual(1_000);
  });
}

/** Declares the tests of the typing sign, for a channel that has one and whose far side can tell of it. */
function testTyping(harness: () => ChannelHarness): void {
  const show = (ms = SEND_MS): Promise<SendResult> | undefined => {
    const { channel, to, typing } = harness();
    const { typing: sign } = channel;
    if (!sign || !typing) return undefined;
    const place: TypingPlace = { to, ...typing.place };
    return getResult("typing.show", ms, async (signal) => sign.show(place, signal));
  };

  it("shows that the agent is typing, and sends no message by that", async () => {
    const { channel, typing, sent } = harness();
    const before = sent().length;
    const result = await show();
    if (!result) return;
    expect(result.status).toBe("sent");
    expect(typing?.signs()).toHaveLength(1);
    expect(sent()).toHaveLength(before);
    expect(channel.typing?.everyMs).toBeGreaterThanOrEqual(1_000);
  });

  testFaults(harness, " the typing sign and", show, ["rate-limited", "unavailable", "hang"]);
}

export type { ChannelHarness, Fault } from "./channel-harness.ts";

/**
 * Declares the tests that every channel passes: what `send` answers, that no text is lost, recipients, and for a channel
 * that receives, how messages reach the gateway.
 */
export function testChannel(name: string, open: Open<ChannelHarness>): void {
  describe(`channel ${name}`, () => {
    const harness = openForEachTest(open);
    let count = 0;
    const message = (text: string): OutgoingMessage => ({
      to: harness().to,
      text,
      idempotencyKey: `dlv_test.${count++}`,
    });
    const sendOnce = (sent: OutgoingMessage, ms = SEND_MS): Promise<SendResult> =>
      getResult("send", ms, async (signal) => harness().channel.send(sent, signal));
    const send = (text: string): Promise<SendResult> => sendOnce(message(text));

    testTexts(harness, send);
    testRecipients(harness);
    testFaults(harness, "", (ms) =>
      sendOnce(message(`The text ${MARK} stays out of reasons.`), ms),
    );
    testReceiving(harness);
    testSendingFiles(harness);
    testAsking(harness);
    testTyping(harness);
    testStreaming(harness);

    it("passes the same idempotency key in each try at a message", async () => {
      const same = message("Once.");
      for (let tries = 0; tries < 2; tries++) expect((await sendOnce(same)).status).toBe("sent");
      const keys = harness()
        .sent()
        .map(({ key }) => key);
      // Without a key the vendor cannot know a repeat; with one it may leave the repeat out.
      expect(new Set(keys).size).toBe(1);
    });

    it("says whether it can be reached", async () => {
      const { channel, fail } = harness();
      if (!channel.probe) return;
      expect(await channel.probe(AbortSignal.timeout(SEND_MS))).toEqual({ ok: true });
      if (!fail) return;
      fail("bad-credential");
      expect(
        await channel.probe(AbortSignal.timeout(SEND_MS)).catch(() => ({ ok: false })),
      ).toMatchObject({ ok: false });
    });
  });
}

/** For a channel that sends files, if its far side can show them. */
function testSendingFiles(harness: () => ChannelHarness): void {
  it("sends a file whole, with its name", async () => {
    const { channel, to, files } = harness();
    if (!channel.sendFile || !files) return;
    const data = new Uint8Array(Buffer.from("a,b\n1,2\n"));
    const file = {
      to,
      name: "table.csv",
      mediaType: "text/csv",
      data,
      idempotencyKey: "dlv_test.file",
    };
    const result = await channel.sendFile(file, AbortSignal.timeout(SEND_MS));
    if (result.status === "unsupported") return expectText(result.reason);
    expect(result.status).toBe("sent");
    expect(files().map(({ name, bytes }) => [name, Buffer.from(bytes).toString()])).toEqual([
      ["table.csv", "a,b\n1,2\n"],
    ]);
  });
}

type Send = (text: string) => Promise<SendResult>;

function testTexts(harness: () => ChannelHarness, send: Send): void {
  it("sends a text and says so", async () => {
    expect((await send("Hello, this is the reply.")).status).toBe("sent");
    const sent = harness().sent();
    expect(sent).toHaveLength(1);
    expect(sent[0]?.to).toBe(harness().to);
    expect(sent[0]?.text).toContain("Hello, this is the reply.");
  });

  it("loses no text to its dialect", async () => {
    const words = [
      "1 < 2 && 3 > 2",
      "a_b*c",
      "\\o/",
      "`x = 1`",
      "👩‍👩‍👧‍👦",
      "שלום",
      "日本語",
      "100%",
      "#5",
      "[x]",
    ];
    expect((await send(words.join("\n\n"))).status).toBe("sent");
    const arrived = (harness().sent()[0]?.text ?? "")
      .replaceAll("&lt;", "<")
      .replaceAll("&gt;", ">")
      .replaceAll("&amp;", "&")
      .replace(/\\(?=[^\w\s])|<\/?code>|`/g, "");
    for (const word of words) expect(arrived).toContain(word.replace(/\\(?=[^\w\s])|`/g, ""));
  });

  it("takes a piece of exactly its limit, and all pieces of a long text in order", async () => {
    const { limit } = harness().channel;
    if (limit === undefined) return;
    expect((await send("x".repeat(limit))).status).toBe("sent");
    const whole = harness()
      .sent()
      .map((entry) => entry.text)
      .join("");
    expect(whole.match(/x/g)?.length).toBeGreaterThanOrEqual(limit);
    const text = Array.from(
      { length: Math.ceil((limit * 1.5) / 60) },
      (_, index) => `Line ${index}: <b> & some words to fill it up, as replies do.`,
    ).join("\n");
    for (const piece of splitText(text, limit)) expect((await send(piece)).status).toBe("sent");
    const arrived = harness()
      .sent()
      .map((entry) => entry.text)
      .join("\n");
    const order = [...arrived.matchAll(/Line (\d+):/g)].map((match) => Number(match[1]));
    expect(order).toEqual(text.split("\n").map((_, index) => index));
    expect(arrived.match(/as replies do/g)).toHaveLength(order.length);
  });
}

function testRecipients(harness: () => ChannelHarness): void {
  it("normalises a recipient once and for all, and refuses what is none", () => {
    const { channel, to, spellings = [], malformed = [] } = harness();
    const parse = channel.parseRecipient?.bind(channel);
    if (!parse) return;
    for (const spelling of [to, ...spellings]) expect(parse(spelling)).toEqual({ ok: true, to });
    for (const wrong of malformed)
      expect(parse(wrong)).toMatchObject({
        ok: false,
        message: expect.stringMatching(/\S/) as unknown,
      });
    if (channel.defaultTo !== undefined) expect(parse(channel.defaultTo).ok).toBe(true);
  });
}

/** Expects a message for the agent with this text, which `send` can answer. */
function expectMessage(message: ReceivedMessage | undefined, text: string, channel: Channel): void {
  expect(message).toMatchObject({
    parts: [{ kind: "own", text: expect.stringContaining(text) as unknown }],
  });
  if (message === undefined || "skipped" in message) return;
  expectText(message.id);
  expectText(message.from);
  expect(message.direct).toEqual(expect.any(Boolean));
  expect(channel.parseRecipient?.(message.to) ?? { ok: true, to: message.to }).toEqual({
    ok: true,
    to: message.to,
  });
}

function testReceiving(harness: () => ChannelHarness): void {
  it("hands a message over that was written to the agent, once, and stops when its signal aborts", async () => {
    const { channel, write, secrets = [] } = harness();
    if (!write) return;
    const { host, received, reports } = createHost();
    const ending = new AbortController();
    const listening = channel.listen?.(ending.signal, host);
    for (const text of ["first words", "second words"]) {
      const before = received.length;
      const request = await write(text);
      if (request) expect((await channel.request?.(request, host))?.status).toBeLessThan(300);
      await until(() => received.length > before);
      expectMessage(received[before], text, channel);
    }
    expect(received).toHaveLength(2);
    ending.abort();
    await within(SEND_MS, "the end of `listen`", listening);
    expectNoSecret(reports.join("\n"), secrets);
  });

  it("answers 4xx to a webhook of somebody else, and hands nothing over", async () => {
    const { channel, forged } = harness();
    if (!forged) return;
    const { host, received } = createHost();
    const answer = await channel.request?.(await forged(), host);
    expect([Math.floor((answer?.status ?? 0) / 100), received]).toEqual([4, []]);
  });
}
