import {
  createListeners,
  type JobKind,
  type Listeners,
  type Logger,
  LONGEST_TIMER_MS,
  type Ms,
} from "#store-kit";

export interface Signals extends Omit<Listeners, "any"> {
  /** Announces the kind at that time, unless it is announced for an earlier one first. */
  later(kind: JobKind, at: Ms): void;
}

/** Who is told in this process that work may be ready, and the timers of jobs that wait. `listened` is called with each that listens. */
export function createSignals({
  now,
  log,
  listened,
}: {
  now: () => Ms;
  log: Logger;
  listened(): void;
}): Signals {
  const { onReady, onWake, announce, woke, close } = createListeners(log, listened);
  /** `due`: by the monotonic clock, since what was planned before somebody set the other one still comes when it was to. */
  const timers = new Map<JobKind, { due: Ms; timer: NodeJS.Timeout }>();
  let closed = false;

  return {
    onReady,
    onWake,
    announce,
    woke,
    later(kind, at) {
      const known = timers.get(kind);
      const wait = Math.min(Math.max(Math.ceil(at - now()), 0), LONGEST_TIMER_MS);
      const due = performance.now() + wait;
      if (closed || (known && known.due <= due)) return;
      clearTimeout(known?.timer);
      const ring = (): void => {
        timers.delete(kind);
        announce([kind]);
      };
      timers.set(kind, { due, timer: setTimeout(ring, wait).unref() });
    },
    close() {
      closed = true;
      close();
      for (const { timer } of timers.values()) clearTimeout(timer);
    },
  };
}
