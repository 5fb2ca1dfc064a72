import type { AdminDeps } from "./types.ts";
import type { Waiting } from "./watch-views.ts";

export interface WaitingWork {
  /** Runs that wait for a worker, or for another run of their session. */
  turn: Waiting;
  delivery: Waiting;
}

/**
 * Counts the work that waits for a worker. A run that is parked, collects events or waits for a person has a job in the queue, too,
 * and no worker could take it. `counts` are those of the store.
 */
export async function countWaiting(
  { store, queue, clock }: Pick<AdminDeps, "store" | "queue" | "clock">,
  counts: Promise<Readonly<Record<string, number>>>,
): Promise<WaitingWork> {
  const [since, delivery, { "runs.queued": count = 0 }] = await Promise.all([
    store.get("queuedSince", {}),
    queue.waiting("delivery"),
    counts,
  ]);
  const toSeconds = (ms: number): number => Math.round(Math.max(0, ms) / 1000);
  return {
    turn: { count, oldestSeconds: since === undefined ? 0 : toSeconds(clock.now() - since) },
    delivery: { count: delivery.count, oldestSeconds: toSeconds(delivery.oldestMs) },
  };
}
