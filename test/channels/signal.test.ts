import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { testChannel, type Fault } from "../../src/testing/channel.ts";
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
