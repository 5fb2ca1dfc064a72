import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Ms } from "../store/types.ts";

/** How long a turn waits for models that give no answer, because somebody waits for the turn. */
export class Patience {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #totalMs: Ms;
  readonly #onChange: ((isRetrying: boolean) => void) | undefined;
  /** Since when no model has answered, in monotonic time. */
  #since: Ms | undefined;
  #waitedMs = 0;

  /** `onChange` is called when the first model fails, and when one answers again. */
  constructor(
    totalMs: Ms,
    clock: Pick<Clock, "now" | "monotonic">,
    onChange?: (isRetrying: boolean) => void,
  ) {
    this.#totalMs = totalMs;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Returns the milliseconds that are left. They begin with the first failure. */
  left(): Ms {
    const now = readMonotonic(this.#clock);
    if (this.#since === undefined) this.#onChange?.(true);
    this.#since ??= now;
    return this.#totalMs - Math.max(now - this.#since, this.#waitedMs);
  }

  /** Counts a wait. */
  waited(ms: Ms): void {
    this.#waitedMs += ms;
  }

  /** A model has answered. */
  restore(): void {
    if (this.#since !== undefined) this.#onChange?.(false);
    this.#since = undefined;
    this.#waitedMs = 0;
  }
}
