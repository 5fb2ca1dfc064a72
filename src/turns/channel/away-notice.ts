import { isProviderAway } from "../../core/errors.ts";
import { renderPhrase } from "../../vocabulary/phrases.ts";
import { planDelivery, writeDelivery } from "../../delivery/plan.ts";
import { isRunChanged } from "../../store/sql/errors.ts";
import {
  sessionId,
  toExpected,
  type Job,
  type MessageRun,
  type Ms,
  type RunRecord,
  type Writes,
  type ApprovalRecord,
  type Reads,
  type Store,
} from "../../store/types.ts";
import { getApprovalIds } from "../journal.ts";
import { replyRoute } from "./channel-input.ts";
import { listSessionRuns } from "./session-runs.ts";
import type { TurnDeps } from "../context.ts";
import type { ActionContext } from "../types.ts";

const MAX_LOOKED_AT = 100;

/** Finds the open approval of a run that waits for a person in the same session. */
async function findWaiting({ spec }: RunRecord, store: Reads): Promise<ApprovalRecord | undefined> {
  const query = { status: "waiting", limit: MAX_LOOKED_AT } as const;
  const [run] = await listSessionRuns(spec.session, query, store);
  const asked = await Promise.all(
    (run ? getApprovalIds(run) : []).map((id) => store.approvals.get(id)),
  );
  return asked.find((approval) => approval && !approval.decision);
}

/** Sends a notice to a person whose message is queued behind a run that waits for a decision, with how to end that run. */
export async function tellThatItWaits(
  runId: string,
  { store, context, now }: { store: Store; context: Pick<ActionContext, "channels">; now: Ms },
): Promise<void> {
  const { "runs.waiting": waiting = 0 } = await store.counts();
  const run = waiting === 0 ? undefined : await store.runs.get(runId);
  if (run?.kind !== "channel" || run.spec.command) return;
  const approval = await findWaiting(run, store);
  if (!approval) return;
  const { tool, code } = approval;
  const route = replyRoute(run.spec);
  const text = renderPhrase(run.spec.incoming.language, "waits", { tool, code });
  const planned = planDelivery({ runId, route, text, channels: context.channels, now });
  await store.commit((tx) => writeDelivery(tx, planned));
}

/** Informs a person on a channel who has waited for a while that the provider of the model is away. */

/** Milliseconds without an answer of a model after which the person gets the notice. */
export const AWAY_NOTICE_MS = 20_000;

/** The data of the job of a notice. */
export interface AwayNoticeJob {
  type: "away-notice";
  runId: string;
}

/**
 * Adds to the commit that puts a run back: should it still wait when the time has come, its person gets the notice, once. `failedAt`:
 * when its models failed first, in the try that is over.
 */
export function planAwayNotice(tx: Writes, run: MessageRun, now: Ms, failedAt?: Ms): void {
  if (run.awayNoticeAt !== undefined) return;
  const awaySince = run.hold?.reason === "away" ? run.hold.since : undefined;
  const since = run.failedAttempts?.[0]?.at ?? awaySince ?? failedAt ?? now;
  tx.jobs.add({
    id: `away:${run.id}`,
    kind: "command",
    // One after the other in a conversation: the second finds what the first has sent.
    key: `away:${sessionId(run.spec.session)}`,
    data: { type: "away-notice", runId: run.id } satisfies AwayNoticeJob,
    enqueuedAt: now,
    runAt: since + AWAY_NOTICE_MS,
  });
}

const waitsForModel = ({ status, hold, error }: RunRecord): boolean =>
  status === "parked"
    ? hold?.reason === "away"
    : status === "queued" && error !== undefined && isProviderAway(error.code);

/** True if the conversation of a run has had the notice for another message that waits. */
async function isToldAlready(
  { spec: { session, to } }: MessageRun,
  { store }: TurnDeps,
): Promise<boolean> {
  const lists = await Promise.all(
    (["parked", "queued"] as const).map((status) =>
      listSessionRuns(session, { status, limit: MAX_LOOKED_AT }, store),
    ),
  );
  return lists
    .flat()
    .some((run) => run.kind === "channel" && run.awayNoticeAt !== undefined && run.spec.to === to);
}

/** Sends the notice of a run that still waits for its model. */
export async function executeAwayNotice(
  job: Job,
  { runId }: AwayNoticeJob,
  deps: TurnDeps,
): Promise<void> {
  const { store, clock } = deps;
  const run = await store.runs.get(runId);
  const isWanted = run?.kind === "channel" && waitsForModel(run) && run.awayNoticeAt === undefined;
  if (!isWanted || (await isToldAlready(run, deps))) {
    await store.commit((tx) => tx.jobs.settle(job), job);
    return;
  }
  const now = clock.now();
  const route = replyRoute(run.spec);
  const text = renderPhrase(run.spec.incoming.language, "modelAway");
  const { channels } = deps.snapshot();
  const planned = planDelivery({ runId, route, text, channels, now });
  const send = (tx: Writes): void => {
    tx.runs.update(runId, { awayNoticeAt: now }, toExpected(run));
    writeDelivery(tx, planned);
    tx.jobs.settle(job);
  };
  await store.commit(send, job).catch((error: unknown) => {
    // A worker has taken it meanwhile. If it is put back again, it is planned again.
    if (!isRunChanged(error)) throw error;
    return store.commit((tx) => tx.jobs.settle(job), job);
  });
}
