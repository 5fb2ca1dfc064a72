/** The source of time, so that tests can set it. Milliseconds since the epoch. */
export interface Clock {
  now(): number;
  /** Resolves after `ms`, or immediately when `signal` aborts. Does not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: Date.now,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
      timer.unref();
      signal?.addEventListener("abort", done, { once: true });
    }),
};
