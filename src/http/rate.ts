import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";

/** `hooks.rateLimit`; `per` in milliseconds. */
export interface RateLimit {
  requests: number;
  per: number;
}

/** So many callers are remembered at most; those that have been quiet longest go first. */
const MAX_CALLERS = 10_000;

/**
 * One bucket a caller: it holds `requests`, and fills evenly within `per`.
 * Returns what a caller that is too fast is told.
 */
export function createRateLimiter(clock: Pick<Clock, "now">): (caller: string, limit: RateLimit) => Failure | undefined {
  const buckets = new Map<string, { left: number; at: number }>();
  return (caller, { requests, per }) => {
    const now = clock.now();
    const known = buckets.get(caller);
    const left = known ? Math.min(requests, known.left + ((now - known.at) * requests) / per) : requests;
    buckets.delete(caller);
    buckets.set(caller, { left: left < 1 ? left : left - 1, at: now });
    if (buckets.size > MAX_CALLERS) buckets.delete(buckets.keys().next().value as string);
    if (left >= 1) return undefined;
    const retryAfterSeconds = Math.max(1, Math.ceil(((1 - left) * per) / requests / 1000));
    return { code: "rate_limited", message: "more requests than hooks.rateLimit allows; slow down", retryAfterSeconds };
  };
}
