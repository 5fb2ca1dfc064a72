/** Runs that wait: how a run begins to wait for people, and the reason that a run waits now. */
import type { NewApproval, PausedTurn } from "../agent/types.ts";
import { newId } from "../core/ids.ts";
import { writeDelivery } from "../delivery/plan.ts";
import { createCode, type Questions } from "../people/approvals.ts";
import { findHeartbeatRun } from "../queue/heartbeat.ts";
import { withChange } from "../store/sql/rows.ts";
import {
  ENDED,
  getJobId,
  type ApprovalRecord,
  type Hold,
  type Job,
  type Ms,
  type Queue,
  type Reads,
  type RunRecord,
  type Store,
  type Usage,
  type WaitReason,
} from "../store/types.ts";
import {
  addRunUsage,
  beginHold,
  commitAgain,
  endHold,
  getApprovalIds,
  getHold,
  persist,
} from "./journal.ts";
import type { Try } from "./try.ts";

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

/** Milliseconds between the checks of a run without a job for decisions: another gateway may record them. */
const LOOK_MS = 500;

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

interface WaitDeps {
  store: Reads;
  queue: Pick<Queue, "find">;
  now: Ms;
}

/** Returns a hold that is not over: of the approvals, those that are open. */
async function findOpenHold(hold: Hold, { store, now }: WaitDeps): Promise<Hold | undefined> {
  if (hold.reason !== "person")
    return hold.until === undefined || hold.until > now ? hold : undefined;
  const asked = await Promise.all(hold.approvalIds.map((id) => store.approvals.get(id)));
  const open = asked.flatMap((approval) => (approval && !approval.decision ? [approval] : []));
  if (open.length === 0) return undefined;
  const until = Math.min(...open.map(({ expiresAt }) => expiresAt));
  return { ...hold, approvalIds: open.map(({ id }) => id), until };
}

const HEARTBEAT_JOB = "heartbeat:";

/** Finds the run that a job is for. */
async function findRunId(jobId: string, { store }: WaitDeps): Promise<string> {
  if (!jobId.startsWith(HEARTBEAT_JOB)) return jobId;
  return (await findHeartbeatRun(jobId.slice(HEARTBEAT_JOB.length), store))?.id ?? jobId;
}

/** Returns what a run waits for, and until when. Undefined if it is executed or has ended. */
export async function findWaitReason(
  run: RunRecord,
  deps: WaitDeps,
): Promise<WaitReason | undefined> {
  const { now, queue } = deps;
  if (run.status === "running" || ENDED.includes(run.status)) return undefined;
  const hold = getHold(run);
  const open = hold && (await findOpenHold(hold, deps));
  if (open || run.status === "collecting") return open ?? hold;
  const id = getJobId(run);
  // A message that is a command has no turn.
  const job = (await queue.find("turn", id)) ?? (await queue.find("command", id));
  if (!job || job.held) return undefined;
  if (job.head !== id) return { reason: "session", head: await findRunId(job.head, deps) };
  if (job.runAt <= now) return { reason: "worker" };
  // Its time is over, and nothing has put the run back yet. When a limit has room is not known then.
  if (hold?.reason === "limit") {
    const { until: _until, ...limit } = hold;
    return limit;
  }
  return hold ? { ...hold, until: job.runAt } : { reason: "delay", until: job.runAt };
}
