import { systemClock, type Clock } from "../../src/core/clock.ts";

/** A clock that a test can hold: what happens meanwhile happens at the same time, however long the machine takes. */
export interface HeldClock extends Clock {
  hold(): void;
  release(): void;
}

export function createHeldClock(): HeldClock {
  let heldAt: number | undefined;
  return {
    now: () => heldAt ?? Date.now(),
    sleep: systemClock.sleep,
    hold: () => void (heldAt = Date.now()),
    release: () => void (heldAt = undefined),
  };
}
