import { renderPhrase } from "../../vocabulary/phrases.ts";
import { planDelivery, writeDelivery } from "../../delivery/plan.ts";
import {
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
import type { ActionContext } from "../types.ts";

const MAX_LOOKED_AT = 100;

interface NoticeDeps {
  store: Reads;
  context: Pick<ActionContext, "channels">;
  now: Ms;
}

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
  { store, context, now }: NoticeDeps & { store: Store },
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

/** True if the conversation of a run has had the notice for another message that waits. */
async function isToldAlready(
  { spec: { session, to } }: MessageRun,
  store: Reads,
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

/** Milliseconds without an answer of a model after which the person gets the notice. */
export const AWAY_NOTICE_MS = 20_000;

/** Plans what tells a person that the provider of the model is away, once: it is added to the commit that puts the run back. */
export async function planAwayNotice(
  run: MessageRun,
  { store, context, now }: NoticeDeps,
): Promise<(tx: Writes) => void> {
  if (run.awayNoticeAt !== undefined || (await isToldAlready(run, store))) return () => undefined;
  const route = replyRoute(run.spec);
  const text = renderPhrase(run.spec.incoming.language, "modelAway");
  const planned = planDelivery({ runId: run.id, route, text, channels: context.channels, now });
  return (tx) => {
    tx.runs.update(run.id, { awayNoticeAt: now });
    writeDelivery(tx, planned);
  };
}
