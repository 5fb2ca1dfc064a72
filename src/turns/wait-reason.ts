import {
  ENDED,
  getJobId,
  type Ms,
  PARKED_FROM,
  type Queue,
  type RunRecord,
  type Reads,
} from "../store/types.ts";
import { findHeartbeatRun } from "./heartbeat.ts";

/** What a run waits for. `until`: when that is over at the latest, or is looked at again. */
export type WaitReason =
  /** The run of its session that goes first; `heartbeat:<agent>` for a heartbeat that has not called a tool. */
  | { kind: "session"; head: string }
  | { kind: "limit"; scope: string; limit: string; until?: Ms }
  /** `of`: the provider and model, such as `openai/gpt-5`. */
  | { kind: "breaker"; of: string; until: Ms }
  /** The wait before another try, or a batch that further events may join. */
  | { kind: "delay"; until: Ms }
  /** Calls that are not decided about yet; `until` is when the first of them expires. */
  | { kind: "approval"; approvalIds: string[]; until: Ms }
  /** It is ready: all workers are busy, or no gateway has workers. */
  | { kind: "worker" };

interface WaitDeps {
  store: Reads;
  queue: Pick<Queue, "find">;
  now: Ms;
}

const HEARTBEAT_JOB = "heartbeat:";

async function findOpenApprovals(
  { waiting }: RunRecord,
  { store }: WaitDeps,
): Promise<WaitReason | undefined> {
  const asked = await Promise.all(
    (waiting?.approvalIds ?? []).map((id) => store.approvals.get(id)),
  );
  const open = asked.flatMap((approval) => (approval && !approval.decision ? [approval] : []));
  if (open.length === 0) return undefined;
  return {
    kind: "approval",
    approvalIds: open.map(({ id }) => id),
    until: Math.min(...open.map(({ expiresAt }) => expiresAt)),
  };
}

/** What a run is parked for, as long as that is not over. */
function getParkedReason({ parked }: RunRecord, now: Ms): WaitReason | undefined {
  if (!parked || (parked.until !== undefined && parked.until <= now)) return undefined;
  if (parked.reason === "provider") return { kind: "breaker", of: parked.of, until: parked.until };
  const { scope, limit, until } = parked;
  return { kind: "limit", scope, limit, ...(until !== undefined && { until }) };
}

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
  const { status, collect, parked } = run;
  const { now, queue } = deps;
  if (status === "running" || ENDED.includes(status)) return undefined;
  if (status === "collecting") return collect && { kind: "delay", until: collect.closesAt };
  const known =
    (status === "waiting" && (await findOpenApprovals(run, deps))) ||
    (status === "parked" && getParkedReason(run, now));
  if (known) return known;
  const id = getJobId(run);
  // A message that is a command has no turn.
  const job = (await queue.find("turn", id)) ?? (await queue.find("command", id));
  if (!job || job.held) return undefined;
  if (job.head !== id) return { kind: "session", head: await findRunId(job.head, deps) };
  // The forecast is over, and the limit has no room yet.
  if (parked && parked.reason !== "provider" && job.runAt >= PARKED_FROM)
    return { kind: "limit", scope: parked.scope, limit: parked.limit };
  return job.runAt > now ? { kind: "delay", until: job.runAt } : { kind: "worker" };
}
