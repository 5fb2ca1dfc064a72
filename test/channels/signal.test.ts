import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { testHost, type TestHost } from "./gateway.ts";
import { openChannel } from "./open.ts";
import { ACCOUNT, signalServer, type SignalServer } from "./signal-server.ts";

const OWNER = "+15551234567";
const OWNER_ID = "11111111-2222-4333-8444-555555555555";
const GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI=";

async function open(
  config: Record<string, unknown> = {},
): Promise<{ channel: Channel; server: SignalServer; logged: string[] }> {
  const server = await signalServer();
  const section = {
    url: server.url,
    account: ACCOUNT,
    allowFrom: [OWNER],
    defaultTo: OWNER,
    ...config,
  };
  return { ...(await openChannel("signal", section)), server };
}

describe("sending on signal", () => {
  let channel: Channel;
  let server: SignalServer;
  beforeEach(async () => {
    ({ channel, server } = await open());
  });
  afterEach(() => server.close());
  const send = (to: string, text: string, more: object = {}): Promise<SendResult> =>
    channel.send({ to, text, idempotencyKey: "dlv_1.0", ...more }, AbortSignal.timeout(5000));

  it("writes each kind of recipient as the daemon takes it", async () => {
    for (const to of [OWNER, `uuid:${OWNER_ID}`, "u:name.01", `group:${GROUP}`])
      expect((await send(to, "x")).status).toBe("sent");
    expect(server.sent.map(({ recipient, groupId }) => recipient ?? groupId)).toEqual([
      [OWNER],
      [OWNER_ID],
      ["u:name.01"],
      GROUP,
    ]);
  });

  it("gives the message's time as its id, and quotes what it answers", async () => {
    expect(await send(OWNER, "x", { replyTo: `1631458508784:${OWNER_ID}` })).toEqual({
      status: "sent",
      messageIds: ["1700000000001"],
    });
    expect(server.sent[0]).toMatchObject({ quoteTimestamp: 1631458508784, quoteAuthor: OWNER_ID });
    await send(OWNER, "x", { replyTo: "not one of ours" });
    expect(server.sent[1]).not.toHaveProperty("quoteTimestamp");
  });

  it.each([
    ["captcha", "retry", 3_600_000],
    ["untrusted-key", "failed", undefined],
    ["network", "retry", undefined],
    ["internal", "unknown", undefined],
    ["not-json", "unknown", undefined],
    ["cut-connection", "unknown", undefined],
    ["hang", "unknown", undefined],
  ] as const)("answers %s with %s", async (fault, status, afterMs) => {
    server.fail(fault);
    const result = await channel.send(
      { to: OWNER, text: "mark-1", idempotencyKey: "k" },
      AbortSignal.timeout(300),
    );
    expect(result).toMatchObject({ status, ...(afterMs === undefined ? {} : { afterMs }) });
    expect(JSON.stringify(result)).not.toMatch(/mark-1|challenge-token|\+1555/);
  });

  it.each([
    ["no-such-recipient", "the recipient is not on Signal"],
    ["untrusted-key", "the recipient's key has changed: check it and run `signal-cli trust`"],
    ["bad-credential", "the daemon does not have the account of channels.signal.account"],
  ] as const)("says of %s what to do", async (fault, reason) => {
    server.fail(fault);
    expect(await send(OWNER, "x")).toEqual({ status: "failed", reason });
  });

  it("says of an account that the daemon does not have what to change", async () => {
    const other = await open({ account: "+15550001111" });
    expect(await other.channel.probe?.(AbortSignal.timeout(5000))).toEqual({
      ok: false,
      message: "the daemon does not have the account of channels.signal.account",
    });
    await other.server.close();
  });

  it("counts bytes, so that no piece is longer than Signal's apps take", async () => {
    const { limit = 0, lengthOf: measure } = channel;
    expect(measure?.("**日本** 👍")).toBe(11);
    const text = Array.from(
      { length: 400 },
      (_, index) => `${index} 日本語のテキスト、**太字**と👩‍👩‍👧‍👦。`,
    ).join("\n");
    // Three bytes a letter at most, but for what stands in pairs: a third of the limit always fits.
    for (const piece of splitText(text, Math.floor(limit / 3))) {
      expect(measure?.(piece)).toBeLessThanOrEqual(limit);
      expect((await send(OWNER, piece)).status).toBe("sent");
    }
    const arrived = server.sent.map(({ message = "" }) => message).join("\n");
    expect(arrived).toBe(text.replaceAll("**", ""));
  });
});

let clock = 1_000_000;
const text = (message: string, more: object = {}, envelope: object = {}): object => {
  const timestamp = ++clock;
  return {
    envelope: {
      sourceNumber: OWNER,
      sourceUuid: OWNER_ID,
      sourceName: "Ada",
      sourceDevice: 1,
      timestamp,
      serverReceivedTimestamp: timestamp,
      dataMessage: { timestamp, message, expiresInSeconds: 0, viewOnce: false, ...more },
      ...envelope,
    },
  };
};

describe("receiving on signal", () => {
  let channel: Channel;
  let server: SignalServer;
  let logged: string[];
  let stop: AbortController;
  let host: TestHost;
  let done: Promise<void> | undefined;
  beforeEach(async () => {
    ({ channel, server, logged } = await open());
    host = testHost({}, { once: true });
  });
  afterEach(async () => {
    stop.abort();
    await done;
    await server.close();
  });
  const listen = async (): Promise<void> => {
    stop = new AbortController();
    done = channel.listen?.(stop.signal, host);
    await vi.waitFor(() => expect(server.streams()).toBe(1));
  };
  const texts = (): string[] => host.received.map((message) => message.text);
  const arrived = (...expected: string[]): Promise<void> =>
    vi.waitFor(() => expect(texts()).toEqual(expected));

  it("says which messages the daemon could not read, and quotes nothing of them", async () => {
    await listen();
    const exception = { type: "UntrustedIdentityException", message: "key of secret-77" };
    server.emit({ envelope: { sourceUuid: OWNER_ID, timestamp: 1 }, exception });
    const skipped = "the daemon could not read the message (UntrustedIdentityException)";
    await vi.waitFor(() => expect(host.skipped).toEqual([{ id: `1:${OWNER_ID}`, skipped }]));
    expect(logged.join("")).toContain("UntrustedIdentityException");
    expect(logged.join("")).not.toContain("secret-77");
  });

  it("a long text: the whole of it is the message, though Signal sends the rest as a file", async () => {
    const long = `${"日本語 ".repeat(20)}the end`;
    const { id } = server.shelf.put({
      name: "long.txt",
      mime: "text/x-signal-plain",
      bytes: Buffer.from(long),
    });
    const photo = { id: "F0PHOTO", contentType: "image/png", filename: "a.png", size: 9 };
    const rest = (file: string): object => ({ id: file, contentType: "text/x-signal-plain" });
    await listen();
    server.emit(text(long.slice(0, 50), { attachments: [rest(id), photo] }));
    const dataMessage = { timestamp: ++clock, message: "日本", attachments: [rest(id)] };
    const editMessage = { targetSentTimestamp: 7, dataMessage };
    server.emit(text("", {}, { dataMessage: undefined, editMessage }));
    // Of a text that the daemon no longer has, the beginning is left.
    server.emit(text("日本", { attachments: [rest("F0GONE")] }));
    await arrived(long, long, "日本");
    expect(host.received.map(({ parts }) => parts.length)).toEqual([2, 1, 2]);
  });

  it("comes back after a cut in the middle of an event, and misses nothing", async () => {
    await listen();
    server.emit(text("one"));
    server.emitCut(text("two"));
    await arrived("one", "two");
    expect(host.states.map(({ ok }) => ok)).toEqual([true, false, true]);
    expect(host.states[1]?.message).toMatch(/; trying again in 1 s$/);
    expect(server.lastEventIds).toEqual([undefined, "1-1"]);
  });

  it("reads letters that come in two parts", async () => {
    await listen();
    server.emitInTwo(text("日本 👍"), "本");
    await arrived("日本 👍");
  });

  it("misses nothing between its first connection and the first event, and answers nothing older", async () => {
    const old = text("from last week", {}, { serverReceivedTimestamp: -9_000_000 });
    server.emit(old);
    await listen();
    await vi.waitFor(() => expect(host.saved.cursor).toMatch(/^rouse-since-/));
    server.cutStreams();
    server.emit(text("in the gap"));
    await arrived("in the gap");
  });

  it("takes everything that a restarted daemon kept", async () => {
    await listen();
    server.emit(text("one"));
    await arrived("one");
    server.restart(true);
    server.emit(text("two"));
    await arrived("one", "two");
  });

  it("leaves a stream that has fallen silent", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    await listen();
    vi.advanceTimersByTime(59_000);
    server.emit(text("alive"));
    await arrived("alive");
    vi.advanceTimersByTime(59_000);
    server.emit(text("still"));
    await arrived("alive", "still");
    expect(host.states).toHaveLength(1);
    vi.advanceTimersByTime(61_000);
    await vi.waitFor(() =>
      expect(host.states[1]?.message).toBe("the stream fell silent; trying again in 1 s"),
    );
  });
});
