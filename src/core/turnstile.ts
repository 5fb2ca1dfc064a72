interface Waiting {
  start(): void;
}

/** Places for work that is done side by side; work for which there is none waits in its order. */
export interface Turnstile {
  /** The number of callers that wait. */
  readonly waiting: number;
  /** Resolves to what gives the place back; to undefined if `signal` is aborted before there is one. */
  take(signal: AbortSignal): Promise<(() => void) | undefined>;
}

/** @param count how many places there are now: it may change */
export function createTurnstile(count: () => number): Turnstile {
  const queue: Waiting[] = [];
  let taken = 0;
  const next = (): void => {
    while (queue.length > 0 && taken < count()) queue.shift()?.start();
  };
  const enter = (): (() => void) => {
    taken++;
    let isFree = false;
    return () => {
      if (isFree) return;
      isFree = true;
      taken--;
      next();
    };
  };
  return {
    get waiting() {
      return queue.length;
    },
    take(signal) {
      if (signal.aborted) return Promise.resolve(undefined);
      if (queue.length === 0 && taken < count()) return Promise.resolve(enter());
      return new Promise((resolve) => {
        const leave = (): void => {
          queue.splice(queue.indexOf(waiting), 1);
          resolve(undefined);
        };
        const waiting: Waiting = {
          start() {
            signal.removeEventListener("abort", leave);
            resolve(enter());
          },
        };
        signal.addEventListener("abort", leave, { once: true });
        queue.push(waiting);
      });
    },
  };
}
