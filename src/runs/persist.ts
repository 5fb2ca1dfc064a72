import { backOff } from "../core/backoff.ts";
import { readMonotonic } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import { ID_TAKEN } from "../store/errors.ts";
import { STORE_UNAVAILABLE, type Job, type Ms } from "../store/types.ts";
import type { ExecutorDeps } from "./run-kind.ts";

const RETRY = { firstMs: 100, longestMs: 5_000 };
/** How long the results of a run without a job are tried again: the run ends with its process, and a person waits for it. */
const MAX_WITHOUT_JOB: Ms = 30_000;

/** The run whose result is written. */
export interface PersistedRun {
  runId: string;
  /** The job whose lease protects the commits; absent for a run that one process executes from its start to its end. */
  job: Job | undefined;
  /** Aborts with the reason "drain" when the gateway stops: nothing is tried again then. */
  signal: AbortSignal;
}

/**
 * How a commit is known that was written though its answer was lost. `isWritten`: asked before each repeat; if it is true, the
 * result is `written`.
 */
export interface Repeated<T> {
  isWritten?: () => Promise<boolean>;
  written?: T;
}

const isUnavailable = (error: unknown): boolean => safeError(error).code === STORE_UNAVAILABLE.code;
const isTaken = (error: unknown): boolean => safeError(error).message === ID_TAKEN.message;

/**
 * Does what needs the store, and again while the store is unavailable: a model or a tool has been paid for what is written.
 * A commit with a job ends by itself once the lease is lost.
 * @throws the error of the last try if the gateway stops, or if `attempt` fails for another reason.
 */
export async function persist<T>(
  attempt: () => T | Promise<T>,
  { runId, job, signal }: PersistedRun,
  { clock, log }: Pick<ExecutorDeps, "clock" | "log">,
  { isWritten, written }: Repeated<T> = {},
): Promise<T> {
  const since = readMonotonic(clock);
  for (let failures = 0; ; failures++) {
    try {
      if (failures > 0 && (await isWritten?.())) return written as T;
      return await attempt();
    } catch (error) {
      // The commit whose answer was lost has written the record.
      if (failures > 0 && written !== undefined && isTaken(error)) return written;
      const isOver =
        signal.reason === "drain" || (!job && readMonotonic(clock) - since > MAX_WITHOUT_JOB);
      if (isOver || !isUnavailable(error)) throw error;
      if (failures === 0)
        log.error(
          { err: safeError(error), runId },
          "a result could not be written; it is tried again until it is",
        );
      await clock.sleep(backOff(failures + 1, RETRY), signal.aborted ? undefined : signal);
    }
  }
}
