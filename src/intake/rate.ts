import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { toDenied, type Denials } from "./denials.ts";
import type { SharedCounts } from "./shared-counts.ts";
import type { ReceivedHook, StageResult } from "./types.ts";

/** `hooks.rateLimit`; `per` in milliseconds. */
export interface RateLimit {
  requests: number;
  per: number;
}

/** The maximum of callers that are kept. The callers with the oldest last request are dropped first. */
const MAX_CALLERS = 10_000;

/** Each method returns the answer to a caller that is too fast, or undefined. */
export interface RateLimiter {
  /** Takes one request from the caller's bucket. */
  take(caller: string, limit: RateLimit): Failure | undefined;
  /** Checks whether the bucket is empty without taking from it, for requests that are not authenticated yet. */
  check(caller: string, limit: RateLimit): Failure | undefined;
}

/**
 * Creates a limiter with one bucket a caller: it holds `requests`, and fills evenly within `per`. What a caller has taken
 * from other gateways leaves it too, down to a debt of as much as it holds.
 */
export function createRateLimiter(clock: Pick<Clock, "now">, shared?: SharedCounts): RateLimiter {
  const buckets = new Map<string, { left: number; at: number }>();
  /** What is left, now; `take` says how much of it goes. */
  const spend = (caller: string, { requests, per }: RateLimit, take: (left: number) => number): number => {
    const now = clock.now();
    const known = buckets.get(caller);
    const left = known ? Math.min(requests, known.left + ((now - known.at) * requests) / per) : requests;
    buckets.delete(caller);
    buckets.set(caller, { left: Math.max(left - take(left), -requests), at: now });
    if (buckets.size > MAX_CALLERS) buckets.delete(buckets.keys().next().value as string);
    return left;
  };
  shared?.on(({ caller, n, limit }) => limit && spend(caller, limit, () => n));
  const tooFast = (left: number, { requests, per }: RateLimit): Failure => ({
    code: "rate_limited",
    message: "more requests than hooks.rateLimit allows; slow down",
    retryAfterSeconds: Math.max(1, Math.ceil(((1 - left) * per) / requests / 1000)),
  });
  return {
    take(caller, limit) {
      const left = spend(caller, limit, (most) => (most < 1 ? 0 : 1));
      if (left < 1) return tooFast(left, limit);
      shared?.add({ caller, n: 1, limit });
      return undefined;
    },
    check(caller, limit) {
      if (!buckets.has(caller)) return undefined;
      const left = spend(caller, limit, () => 0);
      return left < 1 ? tooFast(left, limit) : undefined;
    },
  };
}

export interface RateDeps {
  rate: RateLimiter;
  denials: Denials;
}

/** Returns the caller whose bucket of `hooks.rateLimit` a hook uses. */
const callerName = ({ credential, address }: ReceivedHook): string => `${credential} ${address}`;

function denyIf(tooFast: Failure | undefined, hook: ReceivedHook, { denials }: RateDeps): StageResult {
  if (!tooFast) return undefined;
  denials.note(hook, tooFast.code, true);
  return toDenied(tooFast);
}

/**
 * Checks the bucket without taking from it: a hook whose signature is not verified yet must not use up the limit of
 * authenticated hooks. Only authenticated hooks empty a bucket, so `doctor` counts this hook as one of them.
 */
export function checkRate(hook: ReceivedHook, deps: RateDeps): StageResult {
  const { rateLimit } = hook.snapshot.config.hooks;
  return rateLimit && hook.verifier && denyIf(deps.rate.check(callerName(hook), rateLimit), hook, deps);
}

/** Takes one request from the caller's bucket of `hooks.rateLimit`. */
export function takeRate(hook: ReceivedHook, deps: RateDeps): StageResult {
  const { rateLimit } = hook.snapshot.config.hooks;
  return rateLimit && denyIf(deps.rate.take(callerName(hook), rateLimit), hook, deps);
}
