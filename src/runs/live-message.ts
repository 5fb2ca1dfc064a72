import { planRemoval } from "../delivery/live.ts";
import { writeDelivery, type Planned } from "../delivery/plan.ts";
import type { Ms, RunRecord, Writes } from "../store/types.ts";
import { replyRoute } from "./run-result.ts";

/** Adds to the commit that ends a run, or its try: the message with the turn's text is deleted. */
export function writeRemoval(
  tx: Writes,
  { id: runId, spec, live }: Pick<RunRecord, "id" | "spec" | "live">,
  now: Ms,
): void {
  const route = replyRoute(spec);
  if (!live || !route) return;
  writeDelivery(tx, planRemoval(live, { runId, route, now }));
  tx.update("run", runId, { live: null });
}

/** The delivery of an answer, which replaces the message with the turn's text. */
export function replaceLive(planned: Planned, { live }: RunRecord): Planned {
  return live && planned.job ? { ...planned, delivery: { ...planned.delivery, live } } : planned;
}
