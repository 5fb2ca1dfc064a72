import type { Journal } from "../agent/journal.ts";
import { getClosingVerdict, writeDecision } from "../approvals/approvals.ts";
import { backOff } from "../core/backoff.ts";
import { TIMEOUT } from "../core/decision.ts";
import type { ApprovalDecision, ApprovalRecord, Job, RunRecord, StepRecord, Writes } from "../store/types.ts";
import type { ExecutorDeps } from "./run-kind.ts";

/** The journal of one attempt of a run. */
export interface RunJournal extends Journal {
  /** The number of steps and results that this attempt has committed. */
  readonly committed: number;
}

export interface JournalOptions {
  run: RunRecord;
  /** Gets the steps that are added. */
  steps: StepRecord[];
  /** The job whose lease protects the commits; absent for a run that one process executes from its start to its end. */
  job: Job | undefined;
  signal: AbortSignal;
  /** Adds to the commit of the first step. */
  writeFirst?: ((tx: Writes) => void) | undefined;
}

const RETRY = { firstMs: 100, longestMs: 10_000 };

/** The progress of a run: its steps, and its calls that have an answer. */
export const getProgress = (steps: readonly StepRecord[]): number =>
  steps.reduce((sum, { calls }) => sum + 1 + calls.filter(({ output }) => output !== undefined).length, 0);

/** Returns the decision for an approval that has expired. */
const timedOut = (approval: Pick<ApprovalRecord, "reason" | "expiresAt">): ApprovalDecision => ({
  verdict: getClosingVerdict(approval),
  by: TIMEOUT,
  at: approval.expiresAt,
});

/** Records that the time for a decision is over. Returns the decision of a person if there is one already. */
async function writeTimeout(
  approval: ApprovalRecord,
  job: Job | undefined,
  { store, questions }: Pick<ExecutorDeps, "store" | "questions">,
): Promise<ApprovalDecision> {
  const { id } = approval;
  const decision = timedOut(approval);
  const ends = await questions.planEnd(id, decision);
  try {
    await store.commit((tx) => writeDecision(tx, id, decision, ends), job);
    return decision;
  } catch (error) {
    const made = (await store.get("approval", id))?.decision;
    if (!made) throw error;
    return made;
  }
}

/** Creates the journal of an attempt: its commits are refused once another gateway has the job. */
export function createJournal(options: JournalOptions, { store, clock, log, questions }: ExecutorDeps): RunJournal {
  const { run, steps, job, signal } = options;
  let { writeFirst } = options;
  let committed = 0;
  const count = (held: boolean): boolean => {
    if (held) committed++;
    return held;
  };

  return {
    steps,
    get committed() {
      return committed;
    },
    async addStep(step) {
      const held = await store.commit((tx) => {
        writeFirst?.(tx);
        tx.add("step", step);
      }, job);
      writeFirst = undefined;
      steps.push(step);
      return count(held);
    },
    async updateCalls(changes) {
      const write = (tx: Writes): void => {
        for (const { id, change, whole } of changes) {
          tx.update("toolCall", run.id, id, change);
          if (whole !== undefined) tx.add("toolResult", { id, runId: run.id, text: whole });
        }
      };
      // If the result is not written, the outcome of the call is unknown.
      for (let failures = 1; ; failures++) {
        try {
          return count(await store.commit(write, job));
        } catch (error) {
          if (signal.aborted) throw error;
          log.error({ runId: run.id }, "the result of a tool call could not be written; it is tried again");
          await clock.sleep(backOff(failures, RETRY), signal);
        }
      }
    },
    async getDecision(approvalId) {
      const approval = await store.get("approval", approvalId);
      if (!approval) return timedOut({ reason: "outcome_unknown", expiresAt: clock.now() });
      if (approval.decision) return approval.decision;
      if (clock.now() < approval.expiresAt) return undefined;
      return writeTimeout(approval, job, { store, questions });
    },
  };
}
