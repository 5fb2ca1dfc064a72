import type { ExecutorDeps } from "./context.ts";
import type { Journal } from "../agent/types.ts";
import { getClosingVerdict, writeDecision } from "../people/approvals.ts";
import { TIMEOUT } from "../vocabulary/decision.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  Job,
  RunRecord,
  StepRecord,
  Writes,
} from "../store/types.ts";
import { persist, type Try } from "./try.ts";
import { STEER } from "./channel/steering.ts";

/**
 * Counts the starts of a run that ended with their process, since it got further last. Being taken from the queue is no
 * start: only one that is on disk counts. A start of a gateway that still runs was given back: its store was unavailable.
 */
export async function countCrashes(
  run: RunRecord,
  steps: readonly StepRecord[],
  { cluster }: ExecutorDeps,
): Promise<number> {
  const { crashCount = 0, status, gateway, progress = 0 } = run;
  if (getProgress(steps) > progress) return 0;
  const isCrash =
    status === "running" && gateway !== cluster.id && (await isGone(gateway, cluster));
  return crashCount + (isCrash ? 1 : 0);
}

/** True if a gateway has ended. */
async function isGone(
  gateway: string | undefined,
  cluster: ExecutorDeps["cluster"],
): Promise<boolean> {
  if (gateway === undefined) return true;
  return (await cluster.list()).find(({ id }) => id === gateway)?.gone ?? true;
}

/** The journal of one attempt of a run. */
export interface RunJournal extends Journal {
  /** The number of steps and results that this attempt has committed. */
  readonly committed: number;
}

/** The progress of a run: its steps, and its calls that have an answer. */
export const getProgress = (steps: readonly StepRecord[]): number =>
  steps.reduce(
    (sum, { calls }) => sum + 1 + calls.filter(({ output }) => output !== undefined).length,
    0,
  );

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
    const made = (await store.approvals.get(id))?.decision;
    if (!made) throw error;
    return made;
  }
}

/**
 * Creates the journal of a try: its commits are refused once another gateway has the job. `writeFirst` adds to the commit of
 * the first step.
 */
export function createJournal(current: Try, writeFirst?: (tx: Writes) => void): RunJournal {
  const { run, steps, signal, deps } = current;
  const { job } = current.kind;
  const { store, clock, questions } = deps;
  let first = writeFirst;
  let committed = 0;
  // What is not written would be paid for again: a step by another model call, a result by a call of unknown outcome.
  const keep = (commit: () => Promise<boolean>): Promise<boolean> =>
    persist(current, commit, { written: true });
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
      // From here on tools may be called: the turn is not started again.
      if (signal.reason === STEER) signal.throwIfAborted();
      deps.steerable?.remove(run.id);
      const held = await keep(() =>
        store.commit((tx) => {
          first?.(tx);
          tx.steps.add(step);
        }, job),
      );
      first = undefined;
      steps.push(step);
      return count(held);
    },
    async updateCalls(changes) {
      const write = (tx: Writes): void => {
        for (const { id, change, whole } of changes) {
          tx.steps.updateCall(run.id, id, change);
          if (whole !== undefined) tx.toolResults.add({ id, runId: run.id, text: whole });
        }
      };
      return count(await keep(() => store.commit(write, job)));
    },
    async getDecision(approvalId) {
      const approval = await store.approvals.get(approvalId);
      if (!approval) return timedOut({ reason: "outcome_unknown", expiresAt: clock.now() });
      if (approval.decision) return approval.decision;
      if (clock.now() < approval.expiresAt) return undefined;
      return writeTimeout(approval, job, { store, questions });
    },
  };
}
