import type { WakeMode } from "../../config/schema/common.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { JobKind, Ms } from "../types.ts";

/** A wait for a job's time is looked at again at least so often: the clock may be set. */
const LONGEST_TIMER_MS = 60_000;

export interface Signals {
  onReady(listener: (kind: JobKind) => void): () => void;
  onWake(listener: (agentId: string, mode: WakeMode) => void): () => void;
  announce(kinds: Iterable<JobKind>): void;
  woke(wakes: Iterable<readonly [string, WakeMode]>): void;
  /** Announces the kind at that time, unless it is announced for an earlier one first. */
  later(kind: JobKind, at: Ms): void;
  close(): void;
}

/** Who is told in this process that work may be ready, and the timers of jobs that wait. `listened` is called with the first of them. */
export function createSignals({ now, log, listened }: { now: () => Ms; log: Logger; listened(): void }): Signals {
  const ready = new Set<(kind: JobKind) => void>();
  const wakes = new Set<(agentId: string, mode: WakeMode) => void>();
  const timers = new Map<JobKind, { at: Ms; timer: NodeJS.Timeout }>();
  let closed = false;

  // What a listener does wrong must not look like a commit that failed.
  const tell = <A extends unknown[]>(listeners: Iterable<(...values: A) => void>, ...values: A): void => {
    for (const listener of listeners) {
      try {
        listener(...values);
      } catch (error) {
        log.error({ err: safeError(error) }, "a listener of the store failed");
      }
    }
  };

  const announce = (kinds: Iterable<JobKind>): void => {
    if (!closed) for (const kind of kinds) tell(ready, kind);
  };

  const subscribe = <T>(set: Set<T>, listener: T): (() => void) => {
    set.add(listener);
    listened();
    return () => void set.delete(listener);
  };

  return {
    onReady: (listener) => subscribe(ready, listener),
    onWake: (listener) => subscribe(wakes, listener),
    announce,
    woke(agents) {
      if (!closed) for (const [agentId, mode] of agents) tell(wakes, agentId, mode);
    },
    later(kind, at) {
      const known = timers.get(kind);
      if (closed || (known && known.at <= at)) return;
      clearTimeout(known?.timer);
      const wait = Math.min(Math.max(Math.ceil(at - now()), 0), LONGEST_TIMER_MS);
      const ring = (): void => {
        timers.delete(kind);
        announce([kind]);
      };
      timers.set(kind, { at, timer: setTimeout(ring, wait).unref() });
    },
    close() {
      closed = true;
      for (const { timer } of timers.values()) clearTimeout(timer);
    },
  };
}
