import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { render } from "../../plugins/signal/format.ts";
import { listen as listenTo } from "../../plugins/signal/receive.ts";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, ChannelHost, IncomingMessage, SendResult, ServiceState } from "../../src/plugin/api.ts";
import { channelContract, type Fault } from "../contract/channel.ts";
import { load, userFolder } from "../plugin/support.ts";
import { numbered, numbersOf } from "./markdown.ts";
import { ACCOUNT, ACCOUNT_ID, signalServer, type SignalServer } from "./signal-server.ts";

const OWNER = "+15551234567";
const OWNER_ID = "11111111-2222-4333-8444-555555555555";
const OTHER_ID = "66666666-2222-4333-8444-555555555555";
const GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI=";

async function open(config: Record<string, unknown> = {}): Promise<{ channel: Channel; server: SignalServer; logged: string[] }> {
  const server = await signalServer();
  const section = { url: server.url, account: ACCOUNT, allowFrom: [OWNER], defaultTo: OWNER, ...config };
  const { channels, issues, logged } = await load(userFolder({}).dir, { channels: { signal: section } });
  expect(issues).toEqual([]);
  const channel = channels.get("signal")?.channel;
  if (!channel) throw new Error("the plugin is not there");
  return { channel, server, logged };
}

channelContract("signal", async () => {
  const { channel, server } = await open();
  return {
    channel,
    to: OWNER,
    malformed: ["", "5551234567", "+0123", "+1555123456789012", "group:abc", "uuid:123", "u:name", "someone", "group:" + "a".repeat(44)],
    sent: () => server.sent.map((params) => ({ to: params.recipient?.[0] ?? params.groupId ?? "", text: params.message ?? "" })),
    fail: (fault: Fault) => server.fail(fault),
    retryAfterMs: 7000,
    secrets: [OWNER, ACCOUNT],
    close: () => server.close(),
  };
});

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
    for (const to of [OWNER, `uuid:${OWNER_ID}`, "u:name.01", `group:${GROUP}`]) expect((await send(to, "x")).status).toBe("sent");
    expect(server.sent.map(({ recipient, groupId }) => recipient ?? groupId)).toEqual([[OWNER], [OWNER_ID], ["u:name.01"], GROUP]);
  });

  it("gives the message's time as its id, and quotes what it answers", async () => {
    expect(await send(OWNER, "x", { replyTo: `1631458508784:${OWNER_ID}` })).toEqual({ status: "sent", messageIds: ["1700000000001"] });
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
    const result = await channel.send({ to: OWNER, text: "mark-1", idempotencyKey: "k" }, AbortSignal.timeout(300));
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

  it("tries again where nothing listens", async () => {
    server.close();
    expect(await send(OWNER, "x")).toEqual({ status: "retry", reason: "the daemon cannot be reached (ECONNREFUSED)" });
  });

  it("comes through a rate limit on the next try", async () => {
    server.fail("rate-limited", 2);
    expect(await send(OWNER, "x")).toEqual({ status: "retry", reason: "Signal limits the rate", afterMs: 7000 });
    expect((await send(OWNER, "x")).status).toBe("retry");
    expect((await send(OWNER, "x")).status).toBe("sent");
    expect(server.sent).toHaveLength(1);
  });

  it("says of an account that the daemon does not have what to change", async () => {
    const other = await open({ account: "+15550001111" });
    expect(await other.channel.probe?.(AbortSignal.timeout(5000))).toEqual({
      ok: false,
      message: "the daemon does not have the account of channels.signal.account",
    });
    other.server.close();
  });

  it("counts bytes, so that no piece is longer than Signal's apps take", async () => {
    const { limit = 0, measure } = channel;
    expect(measure?.("**日本** 👍")).toBe(11);
    const text = Array.from({ length: 400 }, (_, index) => `${index} 日本語のテキスト、**太字**と👩‍👩‍👧‍👦。`).join("\n");
    // Three bytes a letter at most, but for what stands in pairs: a third of the limit always fits.
    for (const piece of splitText(text, Math.floor(limit / 3))) {
      expect(measure?.(piece)).toBeLessThanOrEqual(limit);
      expect((await send(OWNER, piece)).status).toBe("sent");
    }
    const arrived = server.sent.map(({ message = "" }) => message).join("\n");
    expect(arrived).toBe(text.replaceAll("**", ""));
  });
});

describe("the page on signal", () => {
  const blocks = readFileSync(join(import.meta.dirname, "../../docs/channels/signal.md"), "utf8").matchAll(/^```json5\n([^]*?)^```$/gm);
  it.each([...blocks].map(([, text = ""]) => [text]))("%s", async (text) => {
    const { issues, channels } = await load(userFolder({}).dir, JSON5.parse(text));
    expect(issues).toEqual([]);
    expect(channels.get("signal")).toBeDefined();
  });
});

describe("recipients of signal", () => {
  it.each([
    ["+1 (555) 123-45.67", OWNER],
    [` ${OWNER} `, OWNER],
    [OWNER_ID.toUpperCase(), `uuid:${OWNER_ID}`],
    [`UUID:${OWNER_ID}`, `uuid:${OWNER_ID}`],
    ["u:Name.01", "u:name.01"],
    [`group:${GROUP.replaceAll("+", "-")}`, `group:${GROUP}`],
  ])("%s is %s", async (written, to) => {
    const { channel, server } = await open();
    server.close();
    expect(channel.parseRecipient?.(written)).toEqual({ ok: true, to });
    expect(channel.parseRecipient?.(to)).toEqual({ ok: true, to });
  });

  it("checks the config's", async () => {
    const wrong = { account: "me", allowFrom: ["Ada", `group:${GROUP}`], defaultTo: "somebody" };
    const { issues } = await load(userFolder({}).dir, { channels: { signal: wrong } });
    expect(issues.map(({ path }) => path).toSorted()).toEqual([
      "channels.signal.account",
      "channels.signal.allowFrom[0]",
      "channels.signal.allowFrom[1]",
      "channels.signal.defaultTo",
    ]);
  });
});

describe("markdown on signal", () => {
  it.each([
    ["plain 1 < 2 & *", "plain 1 < 2 & *", []],
    ["a **bold _both_ bold** c", "a bold both bold c", ["2:14:BOLD", "7:4:ITALIC"]],
    ["👍 **b** ~~s~~", "👍 b s", ["3:1:BOLD", "5:1:STRIKETHROUGH"]],
    ["👩‍👩‍👧‍👦 日本 **語**", "👩‍👩‍👧‍👦 日本 語", ["15:1:BOLD"]],
    ["שלום **עולם**", "שלום עולם", ["5:4:BOLD"]],
    ["# Head\n\ntext", "Head\n\ntext", ["0:4:BOLD"]],
    ["use `a*b*`", "use a*b*", ["4:4:MONOSPACE"]],
    ["```ts\nif (a) {\n  b();\n}\n```", "if (a) {\n  b();\n}", ["0:17:MONOSPACE"]],
    ["[t](https://a.example/b_(c)?d=1)", "t (https://a.example/b_(c)?d=1)", []],
    ["<https://a.example/x>", "https://a.example/x", []],
    ["see www.a.example", "see http://www.a.example", []],
    ["[**t**][r]\n\n[r]: https://a.example 'T'", 't (https://a.example "T")', ["0:1:BOLD"]],
    ["[t][r]\n\n[other]: https://a.example", "[t][r]\n\n[other]: https://a.example", []],
    ["![a chart](https://a.example/c.png)", "a chart (https://a.example/c.png)", []],
    ["![](https://a.example/c.png)", "https://a.example/c.png", []],
    ["- a\n- b\n  - c\n\n    d", "• a\n• b\n  • c\n\n    d", []],
    ["3. a\n4. b", "3. a\n4. b", []],
    ["- [x] done\n- [ ] open", "• [x] done\n• [ ] open", []],
    ["> > a\n> > b\n>\n> c", "> > a\n> > b\n>\n> c", []],
    ["- > a\n  > b", "• > a\n  > b", []],
    ["> quoted\n> **x**", "> quoted\n> x", ["11:1:BOLD"]],
    ["- **a\n  b**", "• a\n  b", ["2:5:BOLD"]],
    ["a <b>x</b> &amp; y", "a <b>x</b> & y", []],
    ["note[^1]\n\n[^1]: the note", "note[^1]\n\n[^1] the note", []],
    ["a\n\n---\n\nb", "a\n\n———\n\nb", []],
    ["one\ntwo", "one\ntwo", []],
    ["#", "#", []],
  ])("%j", (markdown, text, styles) => {
    expect(render(markdown)).toEqual({ text, styles });
  });

  it("lines a table up, wide letters too", () => {
    const { text, styles } = render("| Name | n |\n|:--|--:|\n| 日本 | 7 |\n| **b** | 100 |");
    expect(text).toBe("Name |   n\n-----+----\n日本 |   7\nb    | 100");
    expect(styles).toEqual([`0:${text.length}:MONOSPACE`]);
  });

  it("loses no word, and keeps their order, whatever is nested in what", () => {
    fc.assert(
      fc.property(numbered, ({ markdown, count }) => {
        const { text, styles } = render(markdown);
        expect(numbersOf(text)).toEqual(Array.from({ length: count }, (_, index) => index));
        for (const style of styles) {
          const [start = 0, length = 0] = style.split(":").map(Number);
          const part = text.slice(start, start + length);
          expect(part).toHaveLength(length);
          expect(length).toBeGreaterThan(0);
          expect(part.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** A host that keeps what a gateway keeps; `receive` may be made to fail. */
function memoryHost(): ChannelHost & { received: IncomingMessage[]; states: ServiceState[]; failing: boolean; place: string | undefined } {
  const host = {
    received: [] as IncomingMessage[],
    states: [] as ServiceState[],
    failing: false,
    place: undefined as string | undefined,
    async receive(message: IncomingMessage): Promise<void> {
      if (host.failing) throw new Error("the disk is full");
      // As the core does: a repeat makes no second turn.
      if (!host.received.some((known) => known.id === message.id)) host.received.push(message);
    },
    report: (state: ServiceState) => void host.states.push(state),
    cursor: async () => host.place,
    saveCursor: async (cursor: string) => void (host.place = cursor),
  };
  return host;
}

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
  let host: ReturnType<typeof memoryHost>;
  let done: Promise<void> | undefined;
  beforeEach(async () => {
    ({ channel, server, logged } = await open());
    host = memoryHost();
  });
  afterEach(async () => {
    stop.abort();
    await done;
    server.close();
  });
  const listen = async (): Promise<void> => {
    stop = new AbortController();
    done = channel.listen?.(stop.signal, host);
    await vi.waitFor(() => expect(server.streams()).toBe(1));
  };
  const texts = (): string[] => host.received.map((message) => message.text);
  const arrived = (...expected: string[]): Promise<void> => vi.waitFor(() => expect(texts()).toEqual(expected), { timeout: 5000 });

  it("hands over direct messages, with an id that a reply can quote", async () => {
    await listen();
    server.emit(text("hello"));
    await arrived("hello");
    const [message] = host.received;
    expect(message).toEqual({ id: `${clock}:${OWNER_ID}`, from: OWNER, to: `uuid:${OWNER_ID}`, direct: true, text: "hello" });
    expect(channel.allowFrom).toEqual([OWNER]);
    expect(channel.parseRecipient?.(message?.to ?? "")).toEqual({ ok: true, to: message?.to });
    await channel.send({ to: OWNER, text: "x", replyTo: message?.id ?? "", idempotencyKey: "k" }, AbortSignal.timeout(5000));
    expect(server.sent[0]).toMatchObject({ quoteTimestamp: clock, quoteAuthor: OWNER_ID });
    expect(host.states).toEqual([{ ok: true, message: "listening" }]);
  });

  it("names people by their account id, never by their name", async () => {
    await listen();
    server.emit(text("from another", {}, { sourceUuid: OTHER_ID, sourceNumber: null, sourceName: OWNER }));
    server.emit(text("with a number", {}, { sourceUuid: OTHER_ID, sourceNumber: "+15557654321" }));
    await arrived("from another", "with a number");
    expect(host.received.map(({ from }) => from)).toEqual([`uuid:${OTHER_ID}`, `uuid:${OTHER_ID}`]);
  });

  it("hears in a group only what is for the agent", async () => {
    await listen();
    const groupInfo = { groupId: GROUP, type: "DELIVER" };
    const self = { name: ACCOUNT, number: ACCOUNT, uuid: ACCOUNT_ID, start: 3, length: 1 };
    const other = { name: "+15557654321", number: "+15557654321", uuid: OTHER_ID, start: 0, length: 1 };
    server.emit(text("among us", { groupInfo }));
    server.emit(text("\uFFFC, hi", { groupInfo, mentions: [other] }));
    server.emit(text("\uFFFC, \uFFFC look", { groupInfo, mentions: [other, self] }));
    server.emit(
      text("as you said", { groupInfo, quote: { id: 1, author: ACCOUNT, authorNumber: ACCOUNT, authorUuid: ACCOUNT_ID, text: "x" } }),
    );
    await arrived("@+15557654321,  look", "as you said");
    expect(host.received[0]).toMatchObject({ from: OWNER, to: `group:${GROUP}`, direct: false });
    expect(channel.parseRecipient?.(`group:${GROUP}`)).toEqual({ ok: true, to: `group:${GROUP}` });
  });

  it("passes over everything that is not a text of somebody else", async () => {
    await listen();
    const envelope = { sourceNumber: OWNER, sourceUuid: OWNER_ID, timestamp: 1 };
    server.emit({ envelope: { ...envelope, receiptMessage: { when: 1, isRead: true, timestamps: [1] } } });
    server.emit({ envelope: { ...envelope, typingMessage: { action: "STARTED", timestamp: 1 } } });
    server.emit({ envelope: { ...envelope, syncMessage: { sentMessage: { destination: OWNER, message: "sync", timestamp: 1 } } } });
    server.emit({ envelope: { ...envelope, editMessage: { targetSentTimestamp: 1, dataMessage: { message: "edit", timestamp: 1 } } } });
    server.emit(text("", { reaction: { emoji: "👍" } }));
    server.emit(text("👍", { reaction: { emoji: "👍" } }));
    server.emit(text("own", {}, { sourceNumber: ACCOUNT, sourceUuid: ACCOUNT_ID }));
    server.emit({ envelope: { ...envelope, dataMessage: { timestamp: 1, message: null, attachments: [{ id: "a" }] } } });
    server.emit({ envelope, exception: { type: "UntrustedIdentityException", message: "key of secret-77" } });
    server.emit(text("real"));
    await arrived("real");
    expect(logged.join("")).toContain("UntrustedIdentityException");
    expect(logged.join("")).not.toContain("secret-77");
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

  it("goes on where it was after a restart, without loss and without doubling", async () => {
    await listen();
    server.emit(text("one"));
    await arrived("one");
    stop.abort();
    await done;
    server.emit(text("while away"));
    await listen();
    server.emit(text("three"));
    await arrived("one", "while away", "three");
    expect(server.lastEventIds).toEqual([undefined, "1-1"]);
    expect(host.place).toBe("1-3");
  });

  it("misses nothing between its first connection and the first event, and answers nothing older", async () => {
    const old = text("from last week", {}, { serverReceivedTimestamp: -9_000_000 });
    server.emit(old);
    await listen();
    await vi.waitFor(() => expect(host.place).toMatch(/^rouse-since-/));
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

  it("does not pass over a message that could not be stored", async () => {
    await listen();
    host.failing = true;
    server.emit(text("one"));
    await vi.waitFor(() => expect(host.states.at(-1)?.ok).toBe(false));
    expect(JSON.stringify(host.states)).not.toContain("disk");
    host.failing = false;
    await arrived("one");
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
    await vi.waitFor(() => expect(host.states[1]?.message).toBe("the stream fell silent; trying again in 1 s"));
  });

  it("says which package is missing", async () => {
    vi.doMock("eventsource-parser", () => {
      throw new Error("not there");
    });
    onTestFinished(() => vi.doUnmock("eventsource-parser"));
    stop = new AbortController();
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const daemon = { url: server.url, account: ACCOUNT, fetch, allowFrom: [], log, now: () => 1 };
    done = listenTo(daemon, stop.signal, host);
    await vi.waitFor(() => expect(host.states[0]?.message).toContain("npm install eventsource-parser"));
  });

  it("says why it cannot listen", async () => {
    const other = await open({ account: "+15550001111" });
    stop = new AbortController();
    done = other.channel.listen?.(stop.signal, host);
    await vi.waitFor(() => expect(host.states[0]).toMatchObject({ ok: false }));
    expect(host.states[0]?.message).toContain("channels.signal.account");
    other.server.close();
  });
});
