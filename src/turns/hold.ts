/** What runs wait for: how a wait begins and ends, and what of it is kept and shown. */
import {
  ENDED,
  getJobId,
  type Hold,
  type HoldReason,
  type LimitReason,
  type Ms,
  type PastWait,
  type Queue,
  type RunChange,
  type RunRecord,
  type Reads,
} from "../store/types.ts";
import { findHeartbeatRun } from "../queue/heartbeat.ts";

/** Waits that a run keeps: the newest. */
const MAX_WAITS = 20;
/** Approvals that a wait which is over names. */
const MAX_APPROVALS = 10;
/** A shorter wait in the queue is none: each run is taken from it. */
const MIN_QUEUED_MS = 1000;

/** What holds a run back by its record: a batch that is open does, too. */
export const getHold = (run: RunRecord): Hold | undefined =>
  run.kind === "hook" && run.status === "collecting" && run.collect
    ? { reason: "batch", since: run.collect.firstAt, until: run.collect.closesAt }
    : run.hold;

/** The approvals that a run waits for: those that are open, or were when it began to wait. */
export const getApprovalIds = ({ hold }: RunRecord): readonly string[] =>
  hold?.reason === "person" ? hold.approvalIds : [];

function getPastWait(run: RunRecord, until: Ms): PastWait | undefined {
  const hold = getHold(run);
  if (hold?.reason === "person")
    return { ...hold, approvalIds: hold.approvalIds.slice(0, MAX_APPROVALS), until };
  if (hold) return { ...hold, until };
  const { status, queuedAt, startedAt, createdAt } = run;
  const since = queuedAt ?? (startedAt === undefined ? createdAt : undefined);
  return status === "queued" && since !== undefined ? { reason: "queue", since, until } : undefined;
}

/** Time in which a run has waited for people and limits until `now`. */
export const getWaitedMs = ({ waitedMs = 0, hold }: RunRecord, now: Ms): Ms =>
  hold?.reason === "limit" || hold?.reason === "person"
    ? waitedMs + Math.max(0, now - hold.since)
    : waitedMs;

type WaitChange = Pick<RunChange, "hold" | "queuedAt" | "waitedMs" | "waits">;

/** The change of a run whose wait is over at `now`. Empty if it has not waited: such a run is written as before. */
export function endHold(run: RunRecord, now: Ms): WaitChange {
  const waitedMs = getWaitedMs(run, now);
  const change: WaitChange = {
    ...(run.hold && { hold: null }),
    ...(run.queuedAt !== undefined && { queuedAt: null }),
    ...(waitedMs > 0 && { waitedMs }),
  };
  const wait = getPastWait(run, now);
  const least = wait?.reason === "queue" ? MIN_QUEUED_MS : 1;
  if (!wait || now - wait.since < least) return change;
  return { ...change, waits: [...(run.waits ?? []), wait].slice(-MAX_WAITS) };
}

/** The change of a run that begins to wait. One that waits for the same already has waited all the time. */
export function beginHold(run: RunRecord, reason: HoldReason, now: Ms): WaitChange {
  const { hold } = run;
  const isSame =
    hold?.reason === reason.reason &&
    (hold.reason !== "away" || reason.reason !== "away" || hold.of === reason.of);
  return isSame
    ? { hold: { ...reason, since: hold.since } }
    : { ...endHold(run, now), hold: { ...reason, since: now } };
}

/** The change of a run that goes into the queue, or behind a limit. */
export const toQueued = (parked: LimitReason | undefined, now: Ms) =>
  parked
    ? ({ status: "parked", hold: { reason: "limit", ...parked, since: now } } as const)
    : ({ status: "queued", queuedAt: now } as const);

/** What a run waits for. `until`: when that is over at the latest, or is looked at again. */
export type WaitReason = { since?: Ms } & (
  | HoldReason
  /** The run of its session that goes first; `heartbeat:<agent>` for a heartbeat that has not called a tool. */
  | { reason: "session"; head: string }
  /** It is ready: all workers are busy, or no gateway has workers. */
  | { reason: "worker" }
);

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
