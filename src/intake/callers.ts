import type { Cluster } from "../store/types.ts";
import { readMonotonic, type Stopwatch } from "../core/clock.ts";
import { QUERY_TOKEN } from "../core/http/deprecation.ts";
import type { Failure } from "../core/errors.ts";
import type { ReceivedHook, Denial, DeniedRequest, DenialHints } from "./types.ts";
import type { Verifier } from "./signatures/types.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";

/** `hooks.rateLimit`; `per` in milliseconds. */
export interface RateLimit {
  requests: number;
  per: number;
}

/** The requests of one caller that this gateway has counted since it last published the count. */
interface Count {
  caller: string;
  n: number;
  /** The limit, for gateways that apply the count as this gateway does. */
  limit?: RateLimit;
}

/** Counts of one limiter, over all gateways. */
export interface SharedCounts {
  /** Publishes a count to the other gateways within a second. */
  add(count: Count): void;
  /** Calls back with the counts of other gateways. */
  on(listener: (count: Count) => void): void;
}

/** The interval between publications, in milliseconds. Hooks do not wait for a publication. */
const BATCH_MS = 1000;
/** The maximum of callers in one publication. Further callers follow in the next ones. */
const MAX_PUBLISHED = 2000;

/** A count as the gateways send it to each other. */
interface Published {
  limiter: string;
  count: Count;
}

/** Creates the counts that limiters share. Undefined if there is only one gateway. */
export function createSharedCounts(
  cluster: Pick<Cluster, "shared" | "tell" | "on">,
): ((limiter: string) => SharedCounts) | undefined {
  if (!cluster.shared) return undefined;
  const listeners = new Map<string, (count: Count) => void>();
  const waiting = new Map<string, Published>();
  let timer: NodeJS.Timeout | undefined;

  const flush = (): void => {
    timer = undefined;
    const values: string[] = [];
    for (const [key, value] of waiting) {
      if (values.length === MAX_PUBLISHED) break;
      waiting.delete(key);
      values.push(JSON.stringify(value));
    }
    cluster.tell("spent", values);
    if (waiting.size > 0) timer = setTimeout(flush, BATCH_MS).unref();
  };

  cluster.on("spent", (values) => {
    for (const value of values) {
      const { limiter, count } = JSON.parse(value) as Published;
      listeners.get(limiter)?.(count);
    }
  });

  return (limiter) => ({
    add({ caller, n, limit }) {
      const key = `${limiter} ${caller}`;
      const known = waiting.get(key);
      if (!known && waiting.size >= MAX_PUBLISHED * 10) return;
      // A count of 0 cancels the earlier counts.
      const sum = n === 0 ? 0 : (known?.count.n ?? 0) + n;
      waiting.set(key, { limiter, count: { caller, n: sum, ...(limit ? { limit } : {}) } });
      timer ??= setTimeout(flush, BATCH_MS).unref();
    },
    on: (listener) => void listeners.set(limiter, listener),
  });
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
export function createRateLimiter(clock: Stopwatch, shared?: SharedCounts): RateLimiter {
  const buckets = new Map<string, { left: number; at: number }>();
  /** Returns the tokens that are left now; `take` says how many of them are used. */
  const spend = (
    caller: string,
    { requests, per }: RateLimit,
    take: (left: number) => number,
  ): number => {
    const now = readMonotonic(clock);
    const known = buckets.get(caller);
    const left = known
      ? Math.min(requests, known.left + ((now - known.at) * requests) / per)
      : requests;
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

const MAX_DENIALS = 1000;
const HOUR_MS = 3_600_000;

type Denying = Pick<Denial, "address" | "path"> & Partial<Pick<ReceivedHook, "verifier">>;

/** Reasons for which the sender itself is refused: its path's settings are wrong, or there was no room for its body. */
const OF_THE_SENDER = new Set([
  "overloaded",
  "signature_not_signed",
  "signature_wrong_signature",
  "signature_no_timestamp",
  "signature_stale_timestamp",
  "signature_wrong_body_hash",
]);

/**
 * Returns whether a denied request may have been an event that its sender will not send again, or not with success: too
 * large a body, or a signature that does not fit, or no room for the body, of a sender that does not retry.
 */
export function isLost(reason: string, verifier: Pick<Verifier, "sender"> | undefined): boolean {
  if (!verifier) return false;
  return (
    reason === "body_too_large" || (verifier.sender?.retries === 0 && OF_THE_SENDER.has(reason))
  );
}

/** Builds the result of a denied request. */
export function toDenied(error: Failure, hints?: DenialHints): DeniedRequest {
  return { kind: "denied", requestId: newId("req"), error, ...(hints ? { hints } : {}) };
}

/** Denied requests: counted and kept in memory, never stored. */
export interface Denials {
  /** Denies a request whose authentication failed; after too many from one address the answer says to wait. */
  denyUnauthenticated(request: Denying, failure: Failure, reason: string): DeniedRequest;
  /** Denies a request for another reason than its credential. `reason` names it in counters. Default: the failure's code. */
  deny(request: Denying, failure: Failure, authenticated?: boolean, reason?: string): DeniedRequest;
  /** Warns once per caller and hour of a token that came as a query parameter. */
  warnQueryToken(address: string, requestId: string): void;
  /** The last 1,000, oldest first. */
  list(): readonly Denial[];
}

/** Creates the list of denied requests. */
export function createDenials(deps: {
  clock: Stopwatch;
  log: Pick<Logger, "warn">;
  metrics: Pick<Metrics, "refused" | "requestLost">;
  limiter: { failed(address: string): number };
}): Denials {
  const { clock, log, metrics, limiter } = deps;
  const denials: Denial[] = [];
  const warnings = createRateLimiter(clock);
  const deny: Denials["deny"] = (
    request,
    failure,
    authenticated = false,
    reason = failure.code,
  ) => {
    const { address, path, verifier } = request;
    denials.push({ at: clock.now(), address, path: path.slice(0, 200), reason, authenticated });
    if (denials.length > MAX_DENIALS) denials.shift();
    metrics.refused(reason);
    if (isLost(reason, verifier)) metrics.requestLost({ path, reason });
    return toDenied(failure);
  };
  return {
    list: () => denials,
    deny,
    denyUnauthenticated(request, failure, reason) {
      const wait = limiter.failed(request.address);
      const answer: Failure = {
        code: "rate_limited",
        message: "too many failed attempts from this address",
        retryAfterSeconds: wait,
      };
      return deny(request, wait === 0 ? failure : answer, false, reason);
    },
    warnQueryToken(address, requestId) {
      if (warnings.take(address, { requests: 1, per: HOUR_MS })) return;
      log.warn(
        { requestId, address },
        `a caller sends its token as ?token=, which is deprecated and goes on ${QUERY_TOKEN.until}: send it as \`Authorization: Bearer <token>\``,
      );
    },
  };
}
