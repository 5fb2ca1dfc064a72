import { backOff, WAITS } from "../core/backoff.ts";
import { readMonotonic } from "../core/clock.ts";
import { type RunErrorCode, safeError } from "../core/errors.ts";
import { ID_TAKEN } from "../store/sql/errors.ts";
import {
  STORE_UNAVAILABLE,
  type Ms,
  type RunRecord,
  type RunStatus,
  type StepRecord,
  type Writes,
} from "../store/types.ts";
import type { LoadedRun, RunKind } from "./run-kind.ts";
import type { ExecutorDeps } from "./context.ts";

/** One try of a run, and how far it has come. */
export interface Try {
  readonly kind: RunKind;
  readonly deps: ExecutorDeps;
  readonly signal: AbortSignal;
  readonly admission: LoadedRun["admission"];
  run: RunRecord;
  isStored: boolean;
  /** The steps so far, those of earlier tries first. */
  readonly steps: StepRecord[];
  /** What a summary of the session has used that was made for the run. */
  summaryUsage?: RunRecord["usage"];
  /** Starts that ended with their process, since the run got further last. */
  crashes: number;
  /** What the try has come to. `lost`: another gateway has the run. */
  end?: { status: RunStatus | "lost"; error?: RunErrorCode };
}

/** How long the results of a run without a job are tried again: the run ends with its process, and a person waits for it. */
const MAX_WITHOUT_JOB: Ms = 30_000;

/**
 * How a commit is known that was written though its answer was lost. `isWritten`: asked before each repeat; if it is true, the
 * result is `written`.
 */
interface Repeated<T> {
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
  { run, kind: { job }, signal, deps: { clock, log } }: Try,
  attempt: () => T | Promise<T>,
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
          { err: safeError(error), runId: run.id },
          "a result could not be written; it is tried again until it is",
        );
      await clock.sleep(backOff(failures + 1, WAITS.commit), signal.aborted ? undefined : signal);
    }
  }
}

/** Commits what becomes of a run, as long as it takes. False if another gateway has the run. */
export const commitFor = (current: Try, write: (tx: Writes) => void): Promise<boolean> =>
  persist(current, () => current.deps.store.commit(write, current.kind.job));
