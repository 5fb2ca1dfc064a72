import { isRefusal, type Breaker, type Pass } from "../../core/breaker.ts";
import type { Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { EndpointError } from "./endpoint.ts";

/** A call that search does without if it fails. */
export interface GuardedCall<T> {
  /** The name of its breaker. */
  of: string;
  /** The time that a question waits for it. */
  ms: number;
  /** The treatment of the question without it, for the log. */
  otherwise: string;
  work(signal: AbortSignal): Promise<T>;
}

/** Makes a call. Returns undefined if there is no answer, or if the call is not made because the last ones failed. */
export type MakeCall = <T>(call: GuardedCall<T>) => Promise<T | undefined>;

/** Makes the calls of endpoints that search can do without. No question waits for a call that tests an open breaker. */
export function createGuardedCalls(breaker: Breaker, clock: Clock, log: Logger) {
  const stop = new AbortController();
  const tests = new Set<Promise<unknown>>();

  const run = async <T>(
    pass: Pass,
    { of, ms, otherwise, work }: GuardedCall<T>,
  ): Promise<T | undefined> => {
    try {
      const value = await work(AbortSignal.any([stop.signal, AbortSignal.timeout(ms)]));
      pass.leave("ok");
      return value;
    } catch (error) {
      const failure = error instanceof EndpointError ? error : undefined;
      const outcome = failure?.outcome ?? "away";
      const retryAfterMs = failure?.getRetryAfterMs(clock.now()) ?? 0;
      pass.leave(outcome, retryAfterMs);
      // Before that time each call would be refused.
      if (retryAfterMs > 0) breaker.open(of, clock.now() + retryAfterMs);
      if (outcome !== "none") log.warn({ err: safeError(error), of }, otherwise);
      return undefined;
    }
  };

  return {
    async make<T>(call: GuardedCall<T>): Promise<T | undefined> {
      const pass = breaker.enter(call.of);
      if (isRefusal(pass)) return undefined;
      const running = run(pass, call);
      if (!pass.isProbe) return running;
      const test = running.finally(() => tests.delete(test));
      tests.add(test);
      return undefined;
    },
    /** Ends the calls that are under way. */
    async close(): Promise<void> {
      stop.abort();
      await Promise.all(tests);
    },
  };
}
