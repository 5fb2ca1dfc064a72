import { setTimeout } from "node:timers/promises";

/** The source of time, so that tests can set it. Milliseconds since the epoch. */
export interface Clock {
  now(): number;
  /** Resolves after `ms`, or immediately when `signal` aborts. Does not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: Date.now,
  // An aborted wait rejects: that is the end of it too.
  sleep: (ms, signal) => setTimeout(Math.min(ms, 2 ** 31 - 1), undefined, { signal, ref: false }).catch(() => undefined),
};
