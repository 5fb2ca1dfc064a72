import type { JobKind } from "./job-records.ts";
import type { Ms } from "./records.ts";

export const JOB_KINDS: readonly JobKind[] = ["turn", "delivery", "command"];

/**
 * A job's `ready` below this number is its place in the line of jobs that may start immediately; from here on it is the time
 * at which a delay ends. Work without a delay so starts in its order whatever the clock says. In milliseconds since the
 * epoch the number is in September 2001.
 */
export const FIRST_TIME: Ms = 1e12;

/** The highest `ready` of jobs that may start at `now`. A clock that is set to before `FIRST_TIME` ends no delay, and holds back no line. */
export const getReadyUntil = (now: Ms): Ms => Math.max(now, FIRST_TIME - 1);

/** Returns the time of a delay that is not over at `now`, or 0 for a job that may start immediately. */
export const getDelayEnd = (runAt: Ms | undefined, now: Ms): Ms =>
  runAt !== undefined && runAt > now && runAt >= FIRST_TIME ? runAt : 0;
