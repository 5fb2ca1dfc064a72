/** Decides which runs may be under way at the same time in this process. */
export interface Quarantine {
  /**
   * Waits until the run may start: `alone`, until no other run is under way; else until no run is alone. Runs start in the
   * order in which they asked. Resolves early when `signal` aborts. Returns what must be called when the run is over.
   */
  enter(alone: boolean, signal: AbortSignal): Promise<() => void>;
}

interface Waiting {
  alone: boolean;
  start(): void;
}

/** Lets a run that may have ended the process be under way alone, so that it takes no other run with it. */
export function createQuarantine(): Quarantine {
  const waiting: Waiting[] = [];
  let running = 0;
  let isAlone = false;

  const startNext = (): void => {
    for (let [next] = waiting; next && !isAlone && !(next.alone && running > 0); [next] = waiting) {
      waiting.shift();
      running++;
      isAlone = next.alone;
      next.start();
    }
  };

  return {
    enter(alone, signal) {
      return new Promise((resolve) => {
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(one), 1);
          resolve(() => undefined);
          startNext();
        };
        const leave = (): void => {
          running--;
          if (alone) isAlone = false;
          startNext();
        };
        const one: Waiting = {
          alone,
          start() {
            signal.removeEventListener("abort", giveUp);
            resolve(leave);
          },
        };
        if (signal.aborted) return resolve(() => undefined);
        signal.addEventListener("abort", giveUp, { once: true });
        waiting.push(one);
        startNext();
      });
    },
  };
}
