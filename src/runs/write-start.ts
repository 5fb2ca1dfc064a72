import { isRunChanged } from "../store/errors.ts";
import type { Ms, RunChange, RunStatus } from "../store/types.ts";
import { persistFor, type Try } from "./end-run.ts";
import type { Prepared } from "./run-kind.ts";

/**
 * Writes that the run is under way. False if another gateway has the job by now, or if the run was put back: a message of it
 * was edited, or it was cancelled, after it was read. `was`: its state when it was read.
 */
export async function writeStart(
  start: RunChange & { startedAt: Ms },
  was: RunStatus,
  { write }: Prepared,
  current: Try,
): Promise<boolean> {
  const { kind, deps, run } = current;
  const commit = (): Promise<boolean> =>
    deps.store.commit((tx) => {
      const change = {
        ...start,
        parked: null,
        waiting: null,
        pausedAt: null,
        ...(run.waitSince !== undefined && { waitSince: null }),
      };
      if (!current.isStored) tx.add("run", run);
      else if (kind.job) tx.update("run", run.id, change, { status: was, edits: run.edits ?? 0 });
      else tx.update("run", run.id, change);
      write?.(tx);
    }, kind.job);
  // If only the answer to a commit was lost, the run is running already, and a repeat would find it changed.
  const isWritten = async (): Promise<boolean> => {
    const now = await deps.store.get("run", run.id);
    return now?.status === "running" && now.startedAt === start.startedAt;
  };
  // Someone waits for the answer of a run without a job.
  const held = await (
    kind.job ? persistFor(current, commit, { isWritten, written: true }) : commit()
  ).catch((error: unknown) => {
    if (!isRunChanged(error)) throw error;
    return putBackChanged(current);
  });
  current.isStored = true;
  if (held) current.admission?.started(run.id);
  const since = kind.job?.enqueuedAt ?? run.createdAt;
  if (held && run.attempts === 1)
    deps.metrics?.runStarted({ waitSeconds: (start.startedAt - since) / 1000 });
  return held;
}

async function putBackChanged(current: Try): Promise<false> {
  const { deps, kind } = current;
  const { job } = kind;
  current.end = { status: "queued" };
  if (job)
    await persistFor(current, () =>
      deps.store.commit((tx) => tx.settle(job, deps.clock.now(), { resetAttempts: true }), job),
    );
  return false;
}
