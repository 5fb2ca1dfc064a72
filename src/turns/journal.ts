/** What a try keeps of its way: steps and results, waits for people, and the end. */
import type { Journal, NewApproval, PausedTurn } from "../agent/types.ts";
import { addUsage } from "../agent/usage.ts";
import { safeError } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { writeDelivery } from "../delivery/plan.ts";
import {
  createCode,
  getClosingVerdict,
  writeDecision,
  type Questions,
} from "../people/approvals.ts";
import { ID_TAKEN, NOT_OPEN } from "../store/sql/errors.ts";
import { withChange } from "../store/sql/rows.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  FencingToken,
  Job,
  Ms,
  Reads,
  RunRecord,
  StepRecord,
  Store,
  Usage,
  Writes,
} from "../store/types.ts";
import { TIMEOUT } from "../vocabulary/decision.ts";
import { STEER } from "./channel/steering.ts";
import type { ExecutorDeps } from "./context.ts";
import { beginHold, endHold, getApprovalIds } from "./hold.ts";
import { persist, type Try } from "./try.ts";

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
  { store, questions }: ExecutorDeps,
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
  const { store, clock } = deps;
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
      return writeTimeout(approval, job, deps);
    },
  };
}

const MAX_REFUSALS = 8;

/** When a run begins to wait, and how long (`tools.approvalTimeout`). */
interface WaitOptions {
  now: Ms;
  timeoutMs: Ms;
}

function buildApproval(
  ask: NewApproval,
  run: RunRecord,
  code: string,
  { now, timeoutMs }: WaitOptions,
): ApprovalRecord {
  return {
    ...ask,
    id: newId("apr", now),
    code,
    runId: run.id,
    agentId: run.spec.session.agentId,
    askedAt: now,
    expiresAt: now + timeoutMs,
  };
}

/** The open approvals of a run. */
const listOpen = (store: Reads, runId: string): Promise<ApprovalRecord[]> =>
  store.approvals.list({ runId, state: "open", limit: 1000 });

const isRefusal = (error: unknown): boolean =>
  [ID_TAKEN.message, NOT_OPEN.message].includes(safeError(error).message ?? "");

/** Retries a commit that the store refused because a person has just decided, or a code is in use. */
async function commitAgain<T>(attempt: (refusals: number) => Promise<T>): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    try {
      return await attempt(refusals);
    } catch (error) {
      if (refusals >= MAX_REFUSALS || !isRefusal(error)) throw error;
    }
  }
}

/**
 * Pauses a run until people decide: approvals, calls, run and job are one commit. A job keeps its place in the session, and
 * starts again at the first decision or when the first approval expires. Returns the approvals that are new; undefined if
 * another gateway has the job.
 */
async function writeWaiting(
  { run, usage }: { run: RunRecord; usage: Usage },
  { asks, open }: PausedTurn,
  job: Job | undefined,
  { store, questions, ...options }: { store: Store; questions: Questions } & WaitOptions,
): Promise<readonly ApprovalRecord[] | undefined> {
  const { now } = options;
  const getOpen = async (): Promise<ApprovalRecord[]> =>
    (await Promise.all(open.map((id) => store.approvals.get(id)))).filter(
      (approval) => approval !== undefined,
    );
  const before = await getOpen();
  const approvals = await commitAgain(async (refusals) => {
    const made = asks.map((ask) => buildApproval(ask, run, createCode(refusals), options));
    const planned = made.flatMap((approval) => questions.plan(approval, run));
    const until = Math.min(...[...before, ...made].map(({ expiresAt }) => expiresAt));
    const held = await store.commit((tx) => {
      for (const approval of made) {
        const state = approval.reason === "outcome_unknown" ? "unknown" : "waiting";
        tx.approvals.add(approval);
        tx.steps.updateCall(run.id, approval.callId, { state, approvalId: approval.id });
      }
      for (const question of planned) writeDelivery(tx, question);
      const approvalIds = [...open, ...made.map(({ id }) => id)];
      const hold = beginHold(run, { reason: "person", approvalIds, until }, now);
      tx.runs.update(run.id, { status: "waiting", ...hold, usage, crashCount: 0, failures: 0 });
      if (job) tx.jobs.settle(job, until, { resetAttempts: true });
    }, job);
    return held ? made : undefined;
  });
  // A decision that was made during the turn could not wake its job.
  if (job && approvals && (await getOpen()).some(({ decision }) => decision !== undefined))
    await store.commit((tx) => tx.jobs.reschedule("turn", job.id, now));
  return approvals;
}

/** How often a run without a job checks for decisions: another gateway may record them. */
const LOOK_MS = 500;

/** Adds up what a run has used so far: its steps, and the summary that was made for it. */
export const addRunUsage = ({ steps, summaryUsage }: Pick<Try, "steps" | "summaryUsage">): Usage =>
  addUsage([...(summaryUsage ? [summaryUsage] : []), ...steps.map(({ usage }) => usage)]);

/**
 * Pauses a run until people decide. True if it continues now: a run without a job waits within this call. Writes nothing
 * if another gateway has the run.
 */
export async function waitForPeople(paused: PausedTurn, current: Try): Promise<boolean> {
  const { kind, deps, run, signal, steps } = current;
  const { store, clock } = deps;
  if (paused.code === "lost") return false;
  const timeoutMs = kind.context.config.tools.approvalTimeout;
  const usage = addRunUsage(current);
  const approvals = await persist(current, () =>
    writeWaiting({ run, usage }, paused, kind.job, { ...deps, now: clock.now(), timeoutMs }),
  );
  deps.log.info({ runId: run.id, asked: approvals?.length }, "a run waits for a person");
  for (const approval of approvals ?? []) {
    kind.onApproval?.(approval);
  }
  if (kind.job) return false;
  const waiting = (await store.runs.get(run.id)) ?? run;
  const isOpen = async (id: string): Promise<boolean> => {
    const approval = await store.approvals.get(id);
    return approval !== undefined && !approval.decision && clock.now() < approval.expiresAt;
  };
  while (!signal.aborted && (await Promise.all(getApprovalIds(waiting).map(isOpen))).every(Boolean))
    await clock.sleep(LOOK_MS, signal);
  steps.splice(0, steps.length, ...(await store.steps.list(run.id)));
  const ended = endHold(waiting, clock.now());
  current.run = withChange(run, ended);
  await store.commit((tx) => tx.runs.update(run.id, { status: "running", ...ended }));
  return true;
}

/**
 * Says of the calls that a run leaves open when it ends what is known of them: one that was started has an unknown outcome,
 * one that waited for a person was not made.
 */
function closeCalls(tx: Writes, steps: readonly StepRecord[], now: Ms): void {
  for (const { runId, calls } of steps)
    for (const { id, state, output, startedAt, endedAt = now } of calls) {
      if (output !== undefined) continue;
      if (startedAt !== undefined) tx.steps.updateCall(runId, id, { state: "unknown", endedAt });
      else if (state === "waiting") tx.steps.updateCall(runId, id, { state: "denied", endedAt });
    }
}

interface EndOptions {
  store: Store;
  now: Ms;
  held?: Job | FencingToken | undefined;
  by: string;
  questions: Questions;
  /** Those of the run; absent: they are read. */
  steps?: readonly StepRecord[];
}

/** Commits the end of a run, and closes the calls and the approvals that it leaves open. */
export async function commitEnd(
  run: Pick<RunRecord, "id" | "startedAt">,
  write: (tx: Writes) => void,
  { store, now, held, by, questions, steps: known }: EndOptions,
): Promise<boolean> {
  const steps = known ?? (run.startedAt === undefined ? [] : await store.steps.list(run.id));
  const writeAll = (tx: Writes): void => {
    closeCalls(tx, steps, now);
    write(tx);
  };
  const hasAsked = steps.some(({ calls }) => calls.some((call) => call.approvalId !== undefined));
  if (!hasAsked) return store.commit(writeAll, held);
  return commitAgain(async () => {
    const open = await listOpen(store, run.id);
    const closed = await Promise.all(
      open.map(async (approval) => {
        const decision: ApprovalDecision = {
          verdict: getClosingVerdict(approval),
          by,
          at: now,
          note: "the run has ended",
        };
        return { id: approval.id, decision, ends: await questions.planEnd(approval.id, decision) };
      }),
    );
    return store.commit((tx) => {
      for (const { id, decision, ends } of closed) writeDecision(tx, id, decision, ends);
      writeAll(tx);
    }, held);
  });
}
