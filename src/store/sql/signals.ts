import type { WakeMode } from "../../config/schema/common.ts";
import { readMonotonic, type Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { JobKind, Ms } from "../types.ts";
import { JOB_KINDS } from "./rows.ts";

/** Whoever waits for work looks at the queue at least so often, whatever was lost or whoever has set a clock. */
const LONGEST_TIMER_MS = 30_000;

/** The listeners of this process, which are called if work may be ready, and the timers of jobs that wait for their time. */
export interface Signals {
  onReady(listener: (kind: JobKind) => void): () => void;
  onWake(listener: (agentId: string, mode: WakeMode) => void): () => void;
  /** Somebody waits for work. */
  any(): boolean;
  announce(kinds: Iterable<JobKind>): void;
  woke(wakes: Iterable<readonly [string, WakeMode]>): void;
  /** Announces the kind at that time, unless it is announced for an earlier one first. */
  later(kind: JobKind, at: Ms): void;
  /** Calls no listener any more. */
  close(): void;
}

/** Every kind is announced each `LONGEST_TIMER_MS`. `listened` is called after each that begins to listen. */
export function createSignals({
  clock,
  log,
  listened,
}: {
  clock: Clock;
  log: Logger;
  listened?(): void;
}): Signals {
  const ready = new Set<(kind: JobKind) => void>();
  const wakes = new Set<(agentId: string, mode: WakeMode) => void>();
  /** `due`: by the monotonic clock, since what was planned before the other one was set still comes when it was to. */
  const timers = new Map<JobKind, { due: Ms; stop: AbortController }>();
  let closed = false;
  let looking: NodeJS.Timeout | undefined;

  // An error of a listener must not look like a commit that failed.
  const tell = <A extends unknown[]>(
    listeners: Iterable<(...values: A) => void>,
    ...values: A
  ): void => {
    for (const listener of listeners) {
      try {
        listener(...values);
      } catch (error) {
        log.error({ err: safeError(error) }, "a listener of the store failed");
      }
    }
  };

  const subscribe = <T>(set: Set<T>, listener: T): (() => void) => {
    set.add(listener);
    listened?.();
    return () => void set.delete(listener);
  };

  const announce = (kinds: Iterable<JobKind>): void => {
    if (!closed) for (const kind of kinds) tell(ready, kind);
  };

  return {
    onReady(listener) {
      looking ??= setInterval(() => announce(JOB_KINDS), LONGEST_TIMER_MS).unref();
      return subscribe(ready, listener);
    },
    onWake: (listener) => subscribe(wakes, listener),
    any: () => ready.size > 0 || wakes.size > 0,
    announce,
    woke(agents) {
      if (!closed) for (const [agentId, mode] of agents) tell(wakes, agentId, mode);
    },
    later(kind, at) {
      const known = timers.get(kind);
      const wait = Math.min(Math.max(Math.ceil(at - clock.now()), 0), LONGEST_TIMER_MS);
      const due = readMonotonic(clock) + wait;
      if (closed || (known && known.due <= due)) return;
      known?.stop.abort();
      const stop = new AbortController();
      timers.set(kind, { due, stop });
      void clock.sleep(wait, stop.signal).then(() => {
        if (stop.signal.aborted) return;
        timers.delete(kind);
        announce([kind]);
      });
    },
    close() {
      closed = true;
      clearInterval(looking);
      for (const { stop } of timers.values()) stop.abort();
    },
  };
}
