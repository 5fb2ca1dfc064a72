import type { NewApproval, PausedTurn } from "../agent/types.ts";
import { addUsage } from "../agent/usage.ts";
import {
  getClosingVerdict,
  writeDecision,
  type Questions,
  createCode,
} from "../people/approvals.ts";
import { safeError } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { writeDelivery } from "../delivery/plan.ts";
import { beginHold, endHold, getApprovalIds } from "./hold.ts";
import { persist, type Try } from "./try.ts";
import { withChange } from "../store/sql/rows.ts";
import { ID_TAKEN, NOT_OPEN } from "../store/sql/errors.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  FencingToken,
  Job,
  Ms,
  RunRecord,
  StepRecord,
  Reads,
  Store,
  Usage,
  Writes,
} from "../store/types.ts";

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
