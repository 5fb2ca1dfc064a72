import { setTimeout } from "node:timers/promises";
import type { Logger } from "./log.ts";

/** The source of time, so that tests can set it. Milliseconds since the epoch. */
export interface Clock {
  now(): number;
  /** Milliseconds since some moment, by a clock that is never set. A source of time without it is never set either. */
  monotonic?(): number;
  /** Resolves after `ms`, or immediately when `signal` aborts. Does not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A source of time for durations inside the process. */
export type Stopwatch = Pick<Clock, "now" | "monotonic">;

/**
 * Reads the monotonic time in whole milliseconds, for durations inside the process: a step of the system clock neither ends nor
 * extends them. Such a time means nothing to another process or after a restart, so it is neither stored nor shown.
 */
export const readMonotonic = (clock: Stopwatch): number =>
  Math.floor(clock.monotonic?.() ?? clock.now());

/** Converts a monotonic time to milliseconds since the epoch, by the system clock as it is set now. */
export const toWallTime = (monotonicMs: number, clock: Stopwatch): number =>
  clock.now() + monotonicMs - readMonotonic(clock);

/** Converts milliseconds since the epoch to monotonic time, by the system clock as it is set now. */
export const toMonotonic = (wallMs: number, clock: Stopwatch): number =>
  readMonotonic(clock) + wallMs - clock.now();

export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  // An aborted wait rejects: that is the end of it too.
  sleep: (ms, signal) =>
    setTimeout(Math.min(ms, 2 ** 31 - 1), undefined, { signal, ref: false }).catch(() => undefined),
};

/** Returns whether a text begins with a date that no calendar has, such as 31 April: `Date.parse` takes that for 1 May. */
export function isImpossibleDay(text: string): boolean {
  const [date, day] = /^\d{4}-\d\d-(\d\d)/.exec(text) ?? [];
  return date !== undefined && new Date(date).getUTCDate() !== Number(day);
}

/** Smaller differences come from a clock that is adjusted slowly, or from a process that did not run between two reads. */
export const STEP_MS = 1000;

/** Finds out whether somebody has set the clock. */
export type StepWatch = ReturnType<typeof createStepWatch>;

/** Compares the clock with the monotonic one, and logs each step. A machine that was suspended looks like one whose clock was set forward. */
export function createStepWatch(clock: Stopwatch, log: Pick<Logger, "warn">) {
  const readDistance = (): number => {
    const wall = clock.now();
    return wall - (clock.monotonic?.() ?? wall);
  };
  let last = readDistance();
  return {
    /** Returns the time by which the clock was set since the last call, in milliseconds; negative if it was set back, 0 if it was not set. */
    look(): number {
      const next = readDistance();
      const stepMs = Math.round(next - last);
      last = next;
      if (Math.abs(stepMs) < STEP_MS) return 0;
      const message =
        stepMs < 0
          ? "the system clock was set back; delays end as if it had not been"
          : "the system clock was set forward, or the machine was suspended; delays that are over by now end";
      log.warn({ stepMs }, message);
      return stepMs;
    },
  };
}

/** A time as programs write it: whole seconds since the epoch. */
export const toSeconds = (ms: number): number => Math.floor(ms / 1000);
