import { getPhrases } from "../core/phrases.ts";
import { planDelivery, writeDelivery } from "../delivery/plan.ts";
import {
  sessionId,
  type ApprovalRecord,
  type Ms,
  type RunRecord,
  type Store,
} from "../store/types.ts";
import { replyRoute } from "./run-result.ts";
import type { ActionContext } from "./types.ts";

const MAX_LOOKED_AT = 100;

/** Finds the open approval of a run that waits for a person in the same session. */
async function findWaiting(
  { spec }: RunRecord,
  store: Pick<Store, "list" | "get">,
): Promise<ApprovalRecord | undefined> {
  const waiting = await store.list("runs", {
    status: "waiting",
    sessionKey: spec.session.key,
    limit: MAX_LOOKED_AT,
  });
  const run = waiting.find((one) => sessionId(one.spec.session) === sessionId(spec.session));
  const asked = await Promise.all(
    (run?.waiting?.approvalIds ?? []).map((id) => store.get("approval", id)),
  );
  return asked.find((approval) => approval && !approval.decision);
}

/**
 * Sends a notice to a person whose message is queued behind a run that waits for a decision, with how to end that run. Returns
 * whether it waits for one.
 */
export async function tellThatItWaits(
  runId: string,
  { store, context, now }: { store: Store; context: Pick<ActionContext, "channels">; now: Ms },
): Promise<boolean> {
  const { "runs.waiting": waiting = 0 } = await store.counts();
  const run = waiting === 0 ? undefined : await store.get("run", runId);
  const route = run?.spec.command === undefined && run ? replyRoute(run.spec) : undefined;
  const approval = run && route && (await findWaiting(run, store));
  if (!route || !approval) return false;
  const { tool, code } = approval;
  const text = getPhrases(run.spec.incoming?.language).waits(tool, code);
  const planned = planDelivery({ runId, route, text, channels: context.channels, now });
  await store.commit((tx) => writeDelivery(tx, planned));
  return true;
}
