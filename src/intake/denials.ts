import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { FailureLimiter } from "./authenticate.ts";
import type { HookRequest } from "../http/request.ts";
import type { Denial } from "./types.ts";

const MAX_REFUSALS = 1000;
const MAX_CALLERS = 10_000;
const HOUR_MS = 3_600_000;

/** Callers that were not believed: counted and kept in memory, never stored. */
export interface Refusals {
  /** Takes note of a refusal; gives what to answer, which is 429 after too many from one address. */
  add(request: Pick<HookRequest, "address" | "path">, failure: Failure, reason: string): Failure;
  /** Takes note of a request that is refused for another reason than its credential. */
  note(request: Pick<HookRequest, "address" | "path">, reason: string, authenticated?: boolean): void;
  /** Warns once per caller and hour of a token that came as a query parameter. */
  warnQueryToken(address: string, requestId: string): void;
  /** The last 1,000, oldest first. */
  list(): readonly Denial[];
}

export function createRefusals(deps: { clock: Clock; log: Logger; metrics: Metrics; limiter: FailureLimiter }): Refusals {
  const { clock, log, metrics, limiter } = deps;
  const refusals: Denial[] = [];
  const warned = new Map<string, number>();
  const note = (request: Pick<HookRequest, "address" | "path">, reason: string, authenticated = false): void => {
    refusals.push({ at: clock.now(), address: request.address, path: request.path.slice(0, 200), reason, authenticated });
    if (refusals.length > MAX_REFUSALS) refusals.shift();
    metrics.refused(reason);
  };
  return {
    list: () => refusals,
    note,
    add(request, failure, reason) {
      const wait = limiter.failed(request.address);
      note(request, reason);
      if (wait === 0) return failure;
      return { code: "rate_limited", message: "too many failed attempts from this address", retryAfterSeconds: wait };
    },
    warnQueryToken(address, requestId) {
      const now = clock.now();
      if (now - (warned.get(address) ?? -HOUR_MS) < HOUR_MS) return;
      if (warned.size > MAX_CALLERS) warned.clear();
      warned.set(address, now);
      log.warn({ requestId, address }, "a caller sends its token as ?token=; it should use the Authorization header");
    },
  };
}
