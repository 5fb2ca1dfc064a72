import { createListeners, type JobKind, type Listeners, type Logger, LONGEST_TIMER_MS, type Ms } from "#store-kit";

export interface Signals extends Omit<Listeners, "any"> {
  /** Announces the kind at that time, unless it is announced for an earlier one first. */
  later(kind: JobKind, at: Ms): void;
}

/** Who is told in this process that work may be ready, and the timers of jobs that wait. `listened` is called with each that listens. */
export function createSignals({ now, log, listened }: { now: () => Ms; log: Logger; listened(): void }): Signals {
  const { onReady, onWake, announce, woke, close } = createListeners(log, listened);
  const timers = new Map<JobKind, { at: Ms; timer: NodeJS.Timeout }>();
  let closed = false;

  return {
    onReady,
    onWake,
    announce,
    woke,
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
      close();
      for (const { timer } of timers.values()) clearTimeout(timer);
    },
  };
}
