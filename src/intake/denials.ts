import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { FailureLimiter } from "./failure-limiter.ts";
import type { Denial, DeniedRequest, DenialHints } from "./types.ts";

const MAX_DENIALS = 1000;
const MAX_CALLERS = 10_000;
const HOUR_MS = 3_600_000;

type Denying = Pick<Denial, "address" | "path">;

/** Builds the result of a denied request. */
export function toDenied(error: Failure, hints?: DenialHints): DeniedRequest {
  return { kind: "denied", requestId: newId("req"), error, ...(hints ? { hints } : {}) };
}

/** Denied requests: counted and kept in memory, never stored. */
export interface Denials {
  /** Denies a request whose authentication failed; after too many from one address the answer says to wait. */
  denyUnauthenticated(request: Denying, failure: Failure, reason: string): DeniedRequest;
  /** Records a request that is denied for another reason than its credential. */
  note(request: Denying, reason: string, authenticated?: boolean): void;
  /** Warns once per caller and hour of a token that came as a query parameter. */
  warnQueryToken(address: string, requestId: string): void;
  /** The last 1,000, oldest first. */
  list(): readonly Denial[];
}

/** Creates the list of denied requests. */
export function createDenials(deps: {
  clock: Pick<Clock, "now">;
  log: Pick<Logger, "warn">;
  metrics: Pick<Metrics, "refused">;
  limiter: FailureLimiter;
}): Denials {
  const { clock, log, metrics, limiter } = deps;
  const denials: Denial[] = [];
  const warned = new Map<string, number>();
  const note = ({ address, path }: Denying, reason: string, authenticated = false): void => {
    denials.push({ at: clock.now(), address, path: path.slice(0, 200), reason, authenticated });
    if (denials.length > MAX_DENIALS) denials.shift();
    metrics.refused(reason);
  };
  return {
    list: () => denials,
    note,
    denyUnauthenticated(request, failure, reason) {
      const wait = limiter.failed(request.address);
      note(request, reason);
      if (wait === 0) return toDenied(failure);
      return toDenied({ code: "rate_limited", message: "too many failed attempts from this address", retryAfterSeconds: wait });
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
