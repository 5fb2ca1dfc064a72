import { ENDED, type DedupeRecord, type RunRecord, type Store } from "../store/types.ts";
import type { Failure } from "../core/errors.ts";

/** Returns why a run cannot be started again; undefined if it can. */
export function findRetryProblem({
  kind,
  status,
}: Pick<RunRecord, "kind" | "status">): Failure | undefined {
  if (kind !== "hook" && kind !== "schedule")
    return {
      code: "not_retryable",
      message:
        "only runs of hooks and schedules can be retried; a heartbeat's events stay queued by themselves",
    };
  if (!ENDED.includes(status) || status === "succeeded")
    return {
      code: "not_retryable",
      message: `only a run that failed can be retried; this one is ${status}`,
    };
  return undefined;
}

/** Runs of a repeated event are started again at most so often. */
const MAX_RESTARTS = 5;

interface RetryDeps {
  store: Store;
  restart(run: RunRecord): Promise<void>;
  retryDelivery(id: string): Promise<unknown>;
}

/**
 * Starts what a repeated event had brought and what failed for good: its runs, under their ids, and the deliveries that
 * failed, without a new turn.
 */
export async function retryOnRedelivery(
  record: DedupeRecord,
  { store, restart, retryDelivery }: RetryDeps,
): Promise<void> {
  const event = await store.events.get(record.eventId);
  // An action's own key brings back that action alone, an event's key all of them.
  const { runId: only } = (record.item ?? {}) as { runId?: string };
  for (const action of event?.actions ?? []) {
    if (record.item !== undefined && !(action.kind === "run" && action.runId === only)) continue;
    const run = action.kind === "run" ? await store.runs.get(action.runId) : undefined;
    if (!run || !ENDED.includes(run.status)) continue;
    if (run.status === "failed" || run.status === "timed_out") {
      if (run.restarts < MAX_RESTARTS) await restart(run);
    } else if (run.deliveryId !== undefined) {
      const delivery = await store.deliveries.get(run.deliveryId);
      if (delivery?.status === "failed") await retryDelivery(run.deliveryId);
    }
  }
}
