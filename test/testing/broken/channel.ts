import { testChannel, type ChannelHarness, type Fault } from "../../../src/testing/index.ts";
import type { ChannelHost, SendResult } from "../../../src/plugin/api.ts";

const REASONS: Record<Exclude<Fault, "hang" | "cut-connection">, SendResult> = {
  "rate-limited": { status: "retry", reason: "rate limited", afterMs: 1500 },
  unavailable: { status: "retry", reason: "503" },
  "bad-credential": { status: "failed", reason: "the token is not accepted" },
  "no-such-recipient": { status: "failed", reason: "there is no such room" },
};

/** A channel that does everything right. */
function sound() {
  const sent: { to: string; text: string; key?: string }[] = [];
  let fault: Fault | undefined;
  let host: ChannelHost | undefined;
  const receive = (text: string) =>
    host?.receive({
      id: text,
      from: "ada",
      to: "room",
      direct: true,
      parts: [{ kind: "own", text }],
    });
  const harness = {
    to: "room",
    malformed: ["no room"],
    retryAfterMs: 1500,
    secrets: ["secret-token"],
    sent: () => sent,
    fail: (next: Fault) => void (fault = next),
    async write(text: string) {
      await receive(text);
      return undefined;
    },
    forged: async () => new Request("http://127.0.0.1/channels/acme", { method: "POST" }),
    channel: {
      limit: 200,
      parseRecipient: (to: string) =>
        /\s/.test(to) ? ({ ok: false, message: "one word" } as const) : ({ ok: true, to } as const),
      probe: async () =>
        fault === undefined ? ({ ok: true } as const) : ({ ok: false, message: "no" } as const),
      request: async () => new Response("who are you?", { status: 401 }),
      async listen(signal: AbortSignal, given: ChannelHost) {
        host = given;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
      async send(
        { to, text, idempotencyKey: key }: { to: string; text: string; idempotencyKey: string },
        signal: AbortSignal,
      ) {
        if (fault === "cut-connection") throw new TypeError("fetch failed");
        if (fault === "hang")
          return new Promise<SendResult>((_, fail) =>
            signal.addEventListener("abort", () => fail(signal.reason as Error)),
          );
        if (fault !== undefined) return REASONS[fault];
        sent.push({ to, text, key });
        const result: SendResult = { status: "sent" };
        return result;
      },
    },
  } satisfies ChannelHarness;
  return { harness, isFailing: () => fault };
}
type Sound = ReturnType<typeof sound>;

/** Flaws, by the test that has to find them. */
const flaws: [string, (made: Sound) => Partial<ChannelHarness["channel"]>][] = [
  ["sends a text and says so", () => ({ send: async () => ({ status: "ok" }) as never })],
  [
    "loses no text to its dialect",
    ({ harness }) => ({
      send: (message, signal) =>
        harness.channel.send({ ...message, text: message.text.replaceAll("<", "") }, signal),
    }),
  ],
  [
    "takes a piece of exactly its limit",
    ({ harness }) => ({
      send: (message, signal) =>
        harness.channel.send({ ...message, text: message.text.slice(0, 150) }, signal),
    }),
  ],
  [
    "passes the same idempotency key",
    ({ harness }) => ({
      send: (message, signal) =>
        harness.channel.send({ ...message, idempotencyKey: crypto.randomUUID() }, signal),
    }),
  ],
  [
    "normalises a recipient once and for all",
    () => ({ parseRecipient: (to) => ({ ok: true, to: `#${to}` }) }),
  ],
  [
    "answers failed to: bad-credential",
    ({ harness, isFailing }) => ({
      send: (message, signal) =>
        isFailing() === "bad-credential"
          ? Promise.resolve({ status: "failed", reason: "secret-token is wrong" })
          : harness.channel.send(message, signal),
    }),
  ],
  [
    "answers failed to: no-such-recipient",
    ({ harness, isFailing }) => ({
      send: (message, signal) =>
        isFailing() === "no-such-recipient"
          ? Promise.resolve({ status: "retry", reason: "404" })
          : harness.channel.send(message, signal),
    }),
  ],
  [
    "answers retry or unknown to: hang",
    ({ harness }) => ({
      send: (message) => harness.channel.send(message, new AbortController().signal),
    }),
  ],
  [
    "answers retry to: rate-limited",
    ({ harness, isFailing }) => ({
      send: (message, signal) =>
        isFailing() === "rate-limited"
          ? Promise.resolve({ status: "retry", reason: "429", afterMs: 1 })
          : harness.channel.send(message, signal),
    }),
  ],
  ["says whether it can be reached", () => ({ probe: async () => ({ ok: true }) })],
  [
    "hands a message over",
    ({ harness }) => ({
      listen: (_, host) => harness.channel.listen(new AbortController().signal, host),
    }),
  ],
  [
    "answers 4xx to a webhook of somebody else",
    () => ({ request: async () => new Response("welcome") }),
  ],
];
for (const [expected, flaw] of flaws)
  testChannel(expected, () => {
    const made = sound();
    return { ...made.harness, channel: { ...made.harness.channel, ...flaw(made) } };
  });
