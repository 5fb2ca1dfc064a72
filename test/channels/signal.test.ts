import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { render } from "../../plugins/signal/send.ts";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { testChannel, type Fault } from "../../src/testing/channel.ts";
import { load, userFolder } from "../plugin/support.ts";
import { openChannel } from "./open.ts";
import { numbered, numbersOf } from "./numbered-markdown.ts";
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

testChannel("signal", async () => {
  const { channel, server } = await open();
  return {
    channel,
    to: OWNER,
    malformed: [
      "",
      "5551234567",
      "+0123",
      "+1555123456789012",
      "group:abc",
      "uuid:123",
      "u:name",
      "someone",
      "group:" + "a".repeat(44),
    ],
    sent: () =>
      server.sent.map((params) => ({
        to: params.recipient?.[0] ?? params.groupId ?? "",
        text: params.message ?? "",
      })),
    fail: (fault: Fault) => server.fail(fault),
    typing: { signs: () => server.typing.signs },
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

  it("tries again where nothing listens", async () => {
    server.close();
    expect(await send(OWNER, "x")).toEqual({
      status: "retry",
      reason: "the daemon cannot be reached (ECONNREFUSED)",
    });
  });

  it("comes through a rate limit on the next try", async () => {
    server.fail("rate-limited", 2);
    expect(await send(OWNER, "x")).toEqual({
      status: "retry",
      reason: "Signal limits the rate",
      afterMs: 7000,
    });
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

describe("the page on signal", () => {
  const blocks = readFileSync(
    join(import.meta.dirname, "../../docs/channels/signal.md"),
    "utf8",
  ).matchAll(/^```json5\n([^]*?)^```$/gm);
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
      { numRuns: 150 },
    );
  });
});
