import { backOff } from "../core/backoff.ts";
import type { SendResult } from "../contract/channel.ts";

/** Tries of one piece; a piece that got through starts the count again. */
export const MAX_ATTEMPTS = 12;
/** Tries of a question if there is another person to ask: about half a minute. */
export const MAX_ASK_ATTEMPTS = 5;
/** The waits between attempts to send. */
const SEND = { firstMs: 1_000, longestMs: 900_000 };

/** A send that is tried again. */
export type RetriedSend = Extract<SendResult, { status: "retry" }>;

/** The channel's own wish, else doubling from one second to fifteen minutes, with jitter. */
export function getWaitMs(attempts: number, result: RetriedSend): number {
  if (result.afterMs !== undefined) return result.afterMs;
  return Math.min(backOff(attempts, SEND) * (1 + Math.random() / 2), SEND.longestMs);
}
