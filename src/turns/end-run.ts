import { writeDelivery } from "../delivery/plan.ts";
import {
  countUsedTokens,
  type RunError,
  type RunRecord,
  type RunStatus,
  type Writes,
  type Ms,
  type RunChange,
} from "../store/types.ts";
import {
  replaceLive,
  writeRemoval,
  getRunStatus,
  keepFailedAttempts,
  reportNoRoute,
  writeEnd,
} from "./run-result.ts";
import { type ModelTurn, type Prepared } from "./run-kind.ts";
import { commitFor, persist, type Try } from "./try.ts";
import { addRunUsage, commitEnd } from "./waiting.ts";
import { isRunChanged } from "../store/sql/errors.ts";

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
      if (!current.isStored) tx.runs.add(run);
      else if (kind.job) tx.runs.update(run.id, start, { status: was, edits: run.edits ?? 0 });
      else tx.runs.update(run.id, start);
      write?.(tx);
    }, kind.job);
  // If only the answer to a commit was lost, the run is running already, and a repeat would find it changed.
  const isWritten = async (): Promise<boolean> => {
    const now = await deps.store.runs.get(run.id);
    return now?.status === "running" && now.startedAt === start.startedAt;
  };
  // Someone waits for the answer of a run without a job.
  const held = await (
    kind.job ? persist(current, commit, { isWritten, written: true }) : commit()
  ).catch((error: unknown) => {
    if (!isRunChanged(error)) throw error;
    return putBackChanged(current);
  });
  current.isStored = true;
  if (held) current.admission?.started(run.id);
  const since = kind.job?.enqueuedAt ?? run.createdAt;
  if (held && run.attempts === 1)
    deps.metrics.runStarted({ waitSeconds: (start.startedAt - since) / 1000 });
  return held;
}

async function putBackChanged(current: Try): Promise<false> {
  const { deps, kind } = current;
  const { job } = kind;
  current.end = { status: "queued" };
  if (job)
    await commitFor(current, (tx) =>
      tx.jobs.settle(job, deps.clock.now(), { resetAttempts: true }),
    );
  return false;
}

/** What a run has used in all when a try is over, and whether the run is back in the queue. */
export interface AttemptUsage {
  tokens: number;
  costUsd?: number | undefined;
  again: boolean;
}

/** The part of a failure that the run keeps. */
export const toRunError = ({ code, message, provider, vendor }: RunError): RunError => ({
  code,
  message,
  ...(provider !== undefined && { provider }),
  ...(vendor && { vendor }),
});

export const toSpent = (usage: RunRecord["usage"] = {}, again: boolean): AttemptUsage => ({
  tokens: countUsedTokens({ usage }),
  costUsd: usage.costUsd,
  again,
});

/** What a run has used, and the model that answered last: a run that failed has used what its steps have. */
export function getUsed(result: ModelTurn, current: Try): Pick<RunRecord, "usage" | "model"> {
  if (result.ok) return { usage: result.usage, model: result.model };
  const last = current.steps.at(-1);
  if (last) return { usage: addRunUsage(current), model: last.model };
  return current.summaryUsage ? { usage: current.summaryUsage } : {};
}

/** What a run has used that goes back into the queue: limits count it from now on. */
export const getUsedSoFar = (
  current: Pick<Try, "steps" | "summaryUsage">,
): Pick<RunRecord, "usage"> =>
  current.steps.length > 0 || current.summaryUsage ? { usage: addRunUsage(current) } : {};

/** Writes the end of a run and all that follows from it, in one commit. */
export async function endRun(result: ModelTurn, current: Try): Promise<void> {
  const { kind, deps, run, isStored, steps } = current;
  const { context, job } = kind;
  const now = deps.clock.now();
  const status = getRunStatus(result);
  const used = getUsed(result, current);
  current.end = result.ok ? { status } : { status, error: result.code };
  const {
    change,
    warnings = [],
    planned: made,
    write,
    after,
  } = await persist(current, () => kind.finish(run, result, now, steps));
  // Only an answer replaces the message that showed its text.
  const planned = made && result.ok ? replaceLive(made, run) : made;
  const end = {
    status,
    endedAt: now,
    warnings: [...run.warnings, ...result.warnings, ...warnings],
    ...used,
    ...(result.ok
      ? {}
      : { error: toRunError(result), ...keepFailedAttempts(run, result, context) }),
    ...(planned ? { deliveryId: planned.delivery.id } : {}),
    ...change,
    ...(run.live && { live: null }),
  };
  const writeAll = (tx: Writes): void => {
    if (isStored)
      writeEnd(tx, run, end, { context, now, ...(planned ? { delivery: planned.delivery } : {}) });
    else tx.runs.add({ ...run, ...end });
    if (result.ok && result.lastStep) tx.steps.add(result.lastStep);
    if (planned) writeDelivery(tx, planned);
    if (!planned?.delivery.live) writeRemoval(tx, run, now);
    write(tx);
  };
  const isWritten = async (): Promise<boolean> =>
    (await deps.store.runs.get(run.id))?.endedAt === now;
  const done = await persist(
    current,
    () => commitEnd(run, writeAll, { ...deps, now, held: job, by: "gateway", steps }),
    {
      isWritten,
      written: true,
    },
  );
  if (done) {
    deps.metrics.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
    const { mapping = "", spec } = run;
    if (used.model !== undefined)
      deps.metrics.modelUsed({
        agent: spec.session.agentId,
        mapping,
        model: used.model,
        ...used.usage,
      });
    deps.log.info({ runId: run.id, status }, "a run ended");
    if (planned?.delivery.error) reportNoRoute(run, planned, context, deps);
    deps.runEnds.ended(run.id);
  }
  await after?.(done);
}

/** Ends a run with its last try. */
export async function endTry(result: ModelTurn, current: Try): Promise<AttemptUsage> {
  await endRun(result, current);
  return toSpent(getUsed(result, current).usage, false);
}
