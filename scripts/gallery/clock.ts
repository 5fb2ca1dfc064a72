import { systemClock, type Clock } from "../../src/core/clock.ts";

const LOOK_MS = 20;

/** A clock that begins in the past and is moved forward, so that a store fills with a history in seconds. */
export interface HistoryClock extends Clock {
  /** Moves the clock forward, at most to the present. */
  skip(ms: number): void;
  /** Moves the clock to a moment, if that is later. */
  skipTo(at: number): void;
  /** Moves the clock to the present, where it goes on as the real one. */
  arrive(): void;
}

export function createHistoryClock(start: number): HistoryClock {
  let behind = Date.now() - start;
  const now = (): number => Date.now() - behind;
  const skip = (ms: number): void => void (behind = Math.max(0, behind - Math.max(0, ms)));
  return {
    now,
    monotonic: () => performance.now() - behind,
    async sleep(ms, signal) {
      const until = now() + ms;
      while (now() < until && !signal?.aborted)
        await systemClock.sleep(Math.min(LOOK_MS, until - now()), signal);
    },
    skip,
    skipTo: (at) => skip(at - now()),
    arrive: () => void (behind = 0),
  };
}
