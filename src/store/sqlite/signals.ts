import type { Logger } from "../../core/log.ts";
import { createListeners, LONGEST_TIMER_MS, type Listeners } from "../sql/listeners.ts";
import type { JobKind, Ms } from "../types.ts";
import type { SqliteJobs } from "./jobs.ts";

export interface SqliteSignals extends Omit<Listeners, "any"> {
  /** Somebody waits for work. */
  readonly listened: boolean;
  /** Announces the kind when its next delay ends: immediately if that has happened since the last look at the queue. */
  watchTime(kind: JobKind): void;
}

/** The listeners for work that may be ready, and the timers of jobs that wait for their time. */
export function createSqliteSignals({
  jobs,
  now,
  log,
}: {
  jobs: SqliteJobs;
  now: () => Ms;
  log: Logger;
}): SqliteSignals {
  const { onReady, onWake, any, announce, woke, close } = createListeners(log);
  const timers = new Map<JobKind, NodeJS.Timeout>();
  let closed = false;

  return {
    onReady,
    onWake,
    get listened() {
      return any();
    },
    announce,
    woke,
    watchTime(kind) {
      clearTimeout(timers.get(kind));
      timers.delete(kind);
      const next = closed ? undefined : jobs.nextTime(kind);
      if (next === undefined) return;
      const wait = Math.max(0, Math.ceil(next - now()));
      timers.set(
        kind,
        setTimeout(() => announce([kind]), Math.min(wait, LONGEST_TIMER_MS)).unref(),
      );
    },
    close() {
      closed = true;
      close();
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
