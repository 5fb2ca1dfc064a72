import type { Clock } from "../core/clock.ts";

/** So long others wait for a suspect: longer turns than this are slow, and a slow turn holds up no other session. */
const HOLD_MS = 30_000;

interface Entered {
  alone: boolean;
  isStarted: boolean;
  ended: Promise<void>;
  /** Over when the runs behind a suspect need not wait for it any more. */
  hold?: Promise<void>;
}

/** Decides which runs may be under way at the same time in this process. */
export class Quarantine {
  readonly #clock: Clock;
  /** Runs that wait or are under way, in the order in which they came. */
  readonly #entered = new Set<Entered>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits until the run may start, and keeps the order in which runs asked. A run that may have ended a process (`alone`) starts
   * when no other run is under way, and others start when it has ended. After half a minute neither waits for the other, but two
   * runs of this kind are never under way together. Resolves early when `signal` aborts. Returns what must be called when the run
   * is over.
   */
  async enter(alone: boolean, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return () => undefined;
    const { promise: ended, resolve: leave } = Promise.withResolvers<void>();
    const earlier = [...this.#entered];
    const one: Entered = { alone, isStarted: false, ended };
    this.#entered.add(one);
    void ended.then(() => this.#entered.delete(one));
    const giveUp = (): void => leave();
    signal.addEventListener("abort", giveUp, { once: true });
    const halfMinute = (): Promise<void> => Promise.race([ended, this.#clock.sleep(HOLD_MS)]);
    const patience = alone ? halfMinute() : undefined;
    const mayStart = Promise.all(
      earlier.map((other) => {
        if (!alone) return other.hold;
        return other.alone ? other.ended : Promise.race([other.ended, patience]);
      }),
    );
    const starting = Promise.race([ended, mayStart]).then(() => {
      one.isStarted = true;
      signal.removeEventListener("abort", giveUp);
    });
    // The time for which others wait begins again when it starts.
    if (alone)
      one.hold = Promise.race([starting, halfMinute()]).then(() =>
        one.isStarted ? halfMinute() : undefined,
      );
    await starting;
    return leave;
  }
}
