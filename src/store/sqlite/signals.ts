import type { WakeMode } from "../../config/schema/common.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { JobKind, Ms } from "../types.ts";
import type { Jobs } from "./jobs.ts";

/** A wait for a job's time is looked at again at least so often: the clock may be set. */
const LONGEST_TIMER_MS = 60_000;

export interface Signals {
  onReady(listener: (kind: JobKind) => void): () => void;
  onWake(listener: (agentId: string, mode: WakeMode) => void): () => void;
  /** Somebody waits for work. */
  readonly listened: boolean;
  announce(kinds: Iterable<JobKind>): void;
  woke(wakes: ReadonlyMap<string, WakeMode>): void;
  /** Announces the kind when the time of its next waiting job comes. */
  watchTime(kind: JobKind): void;
  close(): void;
}

/** Who is told that work may be ready, and the timers of jobs that wait for their time. */
export function createSignals({ jobs, now, log }: { jobs: Jobs; now: () => Ms; log: Logger }): Signals {
  const ready = new Set<(kind: JobKind) => void>();
  const wakes = new Set<(agentId: string, mode: WakeMode) => void>();
  const timers = new Map<JobKind, NodeJS.Timeout>();
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
    return () => void set.delete(listener);
  };

  return {
    onReady: (listener) => subscribe(ready, listener),
    onWake: (listener) => subscribe(wakes, listener),
    get listened() {
      return ready.size > 0 || wakes.size > 0;
    },
    announce,
    woke(agents) {
      if (!closed) for (const [agentId, mode] of agents) tell(wakes, agentId, mode);
    },
    watchTime(kind) {
      clearTimeout(timers.get(kind));
      timers.delete(kind);
      const next = closed ? undefined : jobs.nextReady(kind);
      const wait = next === undefined ? 0 : next - now();
      if (wait <= 0) return;
      timers.set(kind, setTimeout(() => announce([kind]), Math.min(Math.ceil(wait), LONGEST_TIMER_MS)).unref());
    },
    close() {
      closed = true;
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
