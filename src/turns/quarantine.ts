import type { Clock } from "../core/clock.ts";

/** So long others wait for a suspect: longer turns than this are slow, and a slow turn holds up no other session. */
const HOLD_MS = 30_000;

interface Entered {
  alone: boolean;
  /** There as long as others wait for it. */
  hold?: object | undefined;
  start(): void;
}

/** Decides which runs may be under way at the same time in this process. */
export class Quarantine {
  readonly #clock: Clock;
  readonly #waiting: Entered[] = [];
  readonly #running = new Set<Entered>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits until the run may start, and keeps the order in which runs asked. A run that may have ended a process (`alone`) starts
   * when no other run is under way, and others start when it has ended. After half a minute neither waits for the other, but two
   * runs of this kind are never under way together. Resolves early when `signal` aborts. Returns what must be called when the run
   * is over.
   */
  enter(alone: boolean, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve) => {
      const giveUp = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(one), 1);
        resolve(() => undefined);
        this.#startNext();
      };
      const leave = (): void => {
        this.#running.delete(one);
        this.#startNext();
      };
      const one: Entered = {
        alone,
        start() {
          signal.removeEventListener("abort", giveUp);
          resolve(leave);
        },
      };
      if (signal.aborted) return resolve(() => undefined);
      signal.addEventListener("abort", giveUp, { once: true });
      this.#waiting.push(one);
      this.#hold(one);
      this.#startNext();
    });
  }

  #mayStart({ alone, hold }: Entered): boolean {
    const suspects = [...this.#running].filter((one) => one.alone);
    if (!alone) return suspects.every((one) => !one.hold);
    return this.#running.size === 0 || (!hold && suspects.length === 0);
  }

  #startNext(): void {
    for (let at = 0; at < this.#waiting.length;) {
      const next = this.#waiting[at] as Entered;
      if (this.#mayStart(next)) {
        this.#waiting.splice(at, 1);
        this.#running.add(next);
        this.#hold(next);
        next.start();
      } else if (next.hold) return;
      // Those behind a suspect whose time is over pass it.
      else at++;
    }
  }

  /** Lets others wait for a suspect, from now on for as long as they may have to. */
  #hold(one: Entered): void {
    if (!one.alone) return;
    const held = {};
    one.hold = held;
    void this.#clock.sleep(HOLD_MS).then(() => {
      if (one.hold !== held) return;
      one.hold = undefined;
      this.#startNext();
    });
  }
}
