import type { RunRecord, StepRecord } from "../store/types.ts";
import { getProgress } from "./journal.ts";
import type { ExecutorDeps } from "./run-kind.ts";

/**
 * Counts the starts of a run that ended with their process, since it got further last. Being taken from the queue is no
 * start: only one that is on disk counts. A start of a gateway that still runs was given back: its store was unavailable.
 */
export async function countCrashes(
  run: RunRecord,
  steps: readonly StepRecord[],
  { cluster }: ExecutorDeps,
): Promise<number> {
  const { crashCount = 0, status, gateway, progress = 0 } = run;
  if (getProgress(steps) > progress) return 0;
  const isCrash =
    status === "running" && gateway !== cluster.id && (await isGone(gateway, cluster));
  return crashCount + (isCrash ? 1 : 0);
}

/** True if a gateway has ended. */
async function isGone(
  gateway: string | undefined,
  cluster: ExecutorDeps["cluster"],
): Promise<boolean> {
  if (gateway === undefined) return true;
  return (await cluster.list()).find(({ id }) => id === gateway)?.gone ?? true;
}
