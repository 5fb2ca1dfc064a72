import type { FencingToken } from "./cluster.ts";
import type { Ms } from "./records.ts";

/** A job of the queue. Jobs of one `kind` with the same key run one at a time, first in first out. */
export interface Job {
  id: string;
  kind: JobKind;
  key: string;
  /** Plain JSON. */
  data: unknown;
  /** Starts so far, this one included, once fetched. */
  attempts: number;
  enqueuedAt: Ms;
  /** The driver's mark of this start, never the same twice; handed back untouched it proves that the job is still held. */
  lease?: number;
}
/** `command`: a person's command to the gateway, which no turn may hold back. */
export type JobKind = "turn" | "delivery" | "command";
/** Where a job stands in the queue. */
export interface JobPosition {
  /** The id of the job of its key that goes first: its own, if nothing is before it. */
  head: string;
  /** When it may start at the earliest, once it is the first of its key. */
  runAt: Ms;
  /** Whether a worker executes it. */
  held: boolean;
}
/** A job that was added before another. */
export interface EarlierJob {
  id: string;
  key: string;
  /** When it may start at the earliest; 0 without a delay. */
  runAt: Ms;
}
export type NewJob = Omit<Job, "attempts" | "lease"> & { runAt?: Ms };
/** One start of a job: `lease` distinguishes it from the other starts. */
export type HeldJob = Pick<Job, "kind" | "id" | "lease">;

/** True for the token of a lease, false for a job. */
export const isFencingToken = (held: Job | FencingToken): held is FencingToken => "token" in held;

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
