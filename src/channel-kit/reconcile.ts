import type { OutgoingMessage, SendResult } from "../contract/channel.ts";
import {
  classifyError,
  networkCode,
  sendAfter,
  type ErrorRules,
  type FailedSend,
} from "./errors.ts";
import { sleep } from "./kit.ts";

/**
 * Posts, and posts again immediately while it is unknown whether the post arrived, for vendors that answer a repeat with
 * the existing post. The answer to a later try proves nothing about the first one, except if it names the post. Most
 * vendors remember a key for a few minutes only: a retry by the outbox would come too late.
 */
export async function retryIdempotent(
  vendor: ErrorRules,
  signal: AbortSignal,
  { tries, pauseMs }: { tries: number; pauseMs: number },
  post: () => Promise<SendResult>,
): Promise<SendResult> {
  let doubt: string | undefined;
  for (let made = 1; ; made++) {
    const result = await post().catch((error: unknown) => classifyError(vendor, error));
    if (result.status === "sent") return result;
    if (result.status === "unknown") doubt ??= result.reason;
    if (doubt === undefined) return result;
    if (result.status !== "failed" && made < tries)
      await sleep((result.status === "retry" && result.afterMs) || pauseMs, signal);
    if (result.status === "failed" || made >= tries || signal.aborted)
      return { status: "unknown", reason: doubt };
  }
}

/**
 * Looks several times for a post that may or may not have arrived, and waits before each look. Returns the post if it was
 * found, "absent" if it was missing at the last look, or else the failure of that look.
 */
async function pollUntilFound(
  vendor: ErrorRules,
  signal: AbortSignal,
  { looks, pauseMs }: { looks: number; pauseMs: number },
  look: () => Promise<SendResult | undefined>,
): Promise<SendResult | "absent"> {
  let outcome: FailedSend | "absent" = "absent";
  for (let made = 0; made < looks; made++) {
    // A message that was just handed over may not show immediately.
    await sleep(pauseMs, signal);
    if (signal.aborted) return { status: "unknown", reason: "there was no time to look for it" };
    try {
      const found = await look();
      if (found) return found;
      outcome = "absent";
    } catch (error) {
      outcome = classifyError(vendor, error);
      // If access is denied, a later look is denied too.
      if (outcome.status === "failed") return outcome;
    }
  }
  return outcome;
}

/** Returns the result of a try of which neither the process nor the vendor can tell whether it arrived. */
export function untold(vendor: ErrorRules): SendResult {
  const reason = `an earlier try may have arrived, and ${vendor.name} does not tell: look there, then retry the delivery if it is missing`;
  return { status: "unknown", reason };
}

/** Looks for what an earlier process may have posted. Undefined if it is not there and may be posted. */
export async function lookAfterCrash(
  vendor: ErrorRules,
  signal: AbortSignal,
  { again, ...pace }: { looks: number; pauseMs: number; again: boolean },
  look: () => Promise<SendResult | undefined>,
): Promise<SendResult | undefined> {
  const seen = await pollUntilFound(vendor, signal, pace, look);
  if (seen === "absent") return again ? undefined : untold(vendor);
  if (seen.status === "sent") return seen;
  return seen.status === "failed" ? untold(vendor) : { ...seen, status: "retry", uncertain: true };
}

/** The steps of posting at a vendor that shows afterwards whether a post is there. Times are in milliseconds. */
export interface Reconciliation<P, M> {
  /** A post may take so long; then the rest of the time is for finding out what became of it. */
  postMs: number;
  looks: number;
  pauseMs: number;
  /** A post of a process that ended may appear so long after its first try: the looks for it are spread over the rest of this time. Default: 0. */
  settleMs?: number;
  /** A post whose connection was cut does not arrive later, or is found before the next try. Without this the post is not retried. */
  again?: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
  post(message: M, place: P, signal: AbortSignal): Promise<SendResult>;
  /** The post of a message that was first tried at `since`, where it is there. */
  find(message: M, place: P, since: number, signal: AbortSignal): Promise<SendResult | undefined>;
}

/** Posts, and looks for a post that may or may not have arrived; also before the next try. */
export function sendOrReconcile<
  P,
  M extends Pick<OutgoingMessage, "idempotencyKey"> = OutgoingMessage,
>(
  vendor: ErrorRules,
  { postMs, looks, pauseMs, settleMs = 0, again = false, now, post, find }: Reconciliation<P, M>,
) {
  /** Pieces whose post was cut and is not there, by their key: when they were first tried. It may have come late. */
  const doubtful = new Map<string, number>();
  /** `doubtSince`: when a try began of which the process does not know how it ended. */
  return async (
    message: M,
    place: P,
    signal: AbortSignal,
    doubtSince?: number,
  ): Promise<SendResult> => {
    const key = message.idempotencyKey;
    const before = doubtSince ?? doubtful.get(key);
    const since = before ?? now();
    const look = (): Promise<SendResult | undefined> => find(message, place, since, signal);
    /** Returns the result of a post that ended with `cause`. */
    const clearUp = async (cause: unknown): Promise<SendResult> => {
      const failure = classifyError(vendor, cause);
      if (failure.status !== "unknown") return failure;
      const seen = await pollUntilFound(vendor, signal, { looks, pauseMs }, look);
      if (seen !== "absent" && seen.status === "sent") return seen;
      // A post that was too slow, or failed there, may still arrive. One that was cut off is looked for before the next
      // try.
      const canTell = seen === "absent" || seen.status === "retry";
      if (!again || !canTell || networkCode(cause) === undefined) return failure;
      doubtful.set(key, since);
      return { status: "retry", reason: failure.reason, uncertain: true };
    };
    if (doubtSince !== undefined) {
      // This process has looked for a try of its own before.
      const left = doubtful.has(key) ? 0 : Math.min(settleMs, doubtSince + settleMs - now());
      const seen = await lookAfterCrash(
        vendor,
        signal,
        { looks, pauseMs: Math.max(pauseMs, left / looks), again },
        look,
      );
      if (seen) return seen;
    }
    return sendAfter(
      vendor,
      () => (before === undefined || doubtSince !== undefined ? undefined : look()),
      async (there) => {
        const patience = AbortSignal.any([signal, AbortSignal.timeout(postMs)]);
        const result = there ?? (await post(message, place, patience).catch(clearUp));
        if (result.status !== "retry") doubtful.delete(key);
        return result;
      },
    );
  };
}

/**
 * The conversation that a recipient means: one with a person, `user:<id>`, is opened once and kept; any other recipient is
 * the conversation itself. If opening fails, the next call tries again.
 */
export function conversations(open: (user: string, signal: AbortSignal) => Promise<string>) {
  const known = new Map<string, string>();
  return async (to: string, signal: AbortSignal): Promise<string> => {
    const user = /^user:(.*)$/s.exec(to)?.[1];
    if (user === undefined) return to;
    const kept = known.get(user);
    if (kept !== undefined) return kept;
    const found = await open(user, signal);
    known.set(user, found);
    return found;
  };
}
