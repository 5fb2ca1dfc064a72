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
