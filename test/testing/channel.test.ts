import { testChannel, type Fault } from "../../src/testing/channel.ts";
import type { SendResult } from "../../src/plugin/api.ts";

const REASONS: Record<Exclude<Fault, "hang" | "cut-connection">, SendResult> = {
  "rate-limited": { status: "retry", reason: "rate limited", afterMs: 1500 },
  unavailable: { status: "retry", reason: "503" },
  "bad-credential": { status: "failed", reason: "the token is not accepted" },
  "no-such-recipient": { status: "failed", reason: "there is no such room" },
};

// The suite itself, on a channel that does everything right.
testChannel("in memory", () => {
  const arrived: { to: string; text: string }[] = [];
  let fault: Fault | undefined;
  return {
    to: "room",
    malformed: ["no room"],
    retryAfterMs: 1500,
    sent: () => arrived,
    fail: (next) => void (fault = next),
    channel: {
      limit: 200,
      defaultTo: "room",
      parseRecipient: (to) =>
        /\s/.test(to) ? { ok: false, message: "must be one word" } : { ok: true, to },
      probe: async () =>
        fault === undefined ? { ok: true } : { ok: false, message: "not accepted" },
      async send({ to, text }, signal) {
        if (fault === "cut-connection") throw new TypeError("fetch failed");
        if (fault === "hang")
          return new Promise((_resolve, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason as Error)),
          );
        if (fault !== undefined) return REASONS[fault];
        if (text.length > 200) return { status: "failed", reason: "too long" };
        arrived.push({ to, text });
        return { status: "sent", messageIds: [String(arrived.length)] };
      },
    },
  };
});
