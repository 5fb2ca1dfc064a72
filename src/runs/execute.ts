import { newBoundaryId } from "../agent/boundary.ts";
import { addUsage } from "../agent/usage.ts";
import type { Agent, PausedTurn, ResolvedModel } from "../agent/types.ts";
import { backOff } from "../core/backoff.ts";
import { writeDelivery } from "../delivery/plan.ts";
import {
  countUsedTokens,
  getParkedUntil,
  type Job,
  type Ms,
  type Parked,
  type RunChange,
  type RunError,
  type RunRecord,
  type StepRecord,
  type Writes,
} from "../store/types.ts";
import { createJournal, getProgress } from "./journal.ts";
import { takeModelTurn, type ModelTurnParts } from "./model-turn.ts";
import type { ExecutorDeps, FailedTurn, LoadedRun, ModelTurn, Prepared, RunKind } from "./run-kind.ts";
import { getRunStatus, keepFailedAttempts, reportNoRoute, writeEnd } from "./run-result.ts";
import { traceRun, type TryEnd } from "./traced-run.ts";
import { commitEnd, waitForPeople } from "./waiting.ts";

/** One try of a run, and how far it has come. */
interface Try {
  readonly kind: RunKind;
  readonly deps: ExecutorDeps;
  readonly signal: AbortSignal;
  readonly admission: LoadedRun["admission"];
  run: RunRecord;
  isStored: boolean;
  /** The steps so far, those of earlier tries first. */
  readonly steps: StepRecord[];
  /** What the try has come to. */
  end?: TryEnd;
}

/** What a run has used in all when a try is over, and whether the run is back in the queue. */
interface Spent {
  tokens: number;
  costUsd?: number | undefined;
  again: boolean;
}

/** Tries of a turn whose provider error may pass, since its last progress. */
export const MAX_TRIES = 6;
/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** The same for a run that is taken from the queue and never comes as far as its start. */
const MAX_TAKEN = 20;
const RETRY = { firstMs: 2_000, longestMs: 300_000 };

/**
 * Executes one try of a run. Every kind of run comes this way: load, check, admit, start, turn, end. All that a run ends
 * with is one commit. Throws if the store does, unless the kind recovers.
 */
export async function execute(kind: RunKind, deps: ExecutorDeps, signal: AbortSignal): Promise<void> {
  const loaded = await kind.load();
  if (!loaded) return;
  // A run that has not begun has none.
  const steps = kind.job && loaded.run.startedAt !== undefined ? await deps.store.list("steps", loaded.run.id) : [];
  const { run, admission, isStored } = loaded;
  const current: Try = { kind, deps, signal, admission, run, isStored, steps: [...steps] };
  return traceRun(loaded, current, () => executeTry(loaded, current));
}

async function executeTry(loaded: LoadedRun, current: Try): Promise<void> {
  const { run, admission } = loaded;
  const { kind, deps } = current;
  try {
    const ready = checkRun(loaded, current);
    if ("code" in ready) {
      await endRun(buildFailure(ready), current);
      return admission?.release(run, { tokens: 0, again: false });
    }
    const parked = await admission?.start(run, deps.clock.now());
    if (parked) {
      return await park(run, parked, current);
    }
    let spent: Spent = { tokens: 0, again: true };
    try {
      spent = await tryRun(ready.agent, ready.model, current);
    } finally {
      admission?.release(run, spent);
    }
  } catch (error) {
    if (!kind.recover) throw error;
    await endRun(kind.recover(error), current);
  }
}

const buildFailure = ({ code, message }: RunError): FailedTurn => ({ ok: false, code, message, retryable: false, warnings: [] });

/** The part of a failure that the run keeps. */
export const toRunError = ({ code, message, vendor }: RunError): RunError => ({ code, message, ...(vendor && { vendor }) });

/**
 * Starts of a run that a crash has cut off, since it got further last. Being taken from the queue is no start: only one that
 * is on disk counts.
 */
function countCrashes({ crashCount, cutOff = 0, status, progress = 0 }: RunRecord, steps: readonly StepRecord[]): number {
  return getProgress(steps) > progress ? 0 : (crashCount ?? cutOff) + (status === "running" ? 1 : 0);
}

/** Resolves what a run is executed with, or says why it cannot be. */
function checkRun({ run, agent, isStored }: LoadedRun, { kind, steps }: Try): { agent: Agent; model: ResolvedModel } | RunError {
  const { context, job } = kind;
  if (countCrashes(run, steps) >= MAX_CRASHES) return { code: "crashed", message: `started ${MAX_CRASHES} times without coming to an end` };
  if (isStored && job && job.attempts > MAX_TAKEN)
    return { code: "crashed", message: `taken up ${MAX_TAKEN} times without coming to a start` };
  if (!agent) return { code: "unknown_agent", message: "the agent is no longer in agents.list" };
  const model = context.models.resolve(run.spec.model ?? agent.model, run.spec.model === undefined ? agent.fallbacks : []);
  return model.ok ? { agent, model: model.model } : model;
}

async function park(run: RunRecord, parked: Parked, current: Try): Promise<void> {
  const { kind, deps, steps } = current;
  current.end = { status: "parked" };
  const job = kind.job as Job;
  await deps.store.commit((tx) => {
    tx.update("run", run.id, { status: "parked", parked, crashCount: countCrashes(run, steps) });
    tx.settle(job, getParkedUntil(parked), { resetAttempts: true });
  }, job);
}

async function tryRun(agent: Agent, model: ResolvedModel, current: Try): Promise<Spent> {
  const { kind, deps, signal, run: before, steps } = current;
  const prepared = await kind.prepare(before, agent);
  const start = {
    ...prepared.change,
    status: "running" as const,
    attempts: before.attempts + 1,
    crashCount: countCrashes(before, steps),
    progress: getProgress(steps),
    startedAt: deps.clock.now(),
    model: model.ref,
    boundaryId: before.boundaryId ?? newBoundaryId(),
  };
  const run: RunRecord = { ...before, ...start };
  current.run = run;
  // A run that is stored by its first step is from then on like any other.
  const isBefore = kind.start === "before" || (kind.start === "never" && current.isStored);
  if (isBefore && !(await writeStart(start, prepared, current))) return { tokens: 0, again: false };
  const journal = createJournal({ run, steps, signal, job: kind.job, writeFirst: storeWithStep(current) }, deps);
  const turn = { agent, model, prepared, journal };
  const [first] = await Promise.all([
    takeModelTurn(turn, current),
    kind.start === "meanwhile" ? writeStart(start, prepared, current) : undefined,
  ]);
  const result = await continueTurn(first, turn, current);
  if (isPaused(result)) {
    current.end = { status: result.code };
    return result.code === "waiting" ? toSpent(addUsage(steps.map(({ usage }) => usage)), false) : { tokens: 0, again: false };
  }
  if (!result.ok && kind.job) {
    deps.log.warn({ runId: run.id, code: result.code, attempts: run.attempts }, "a turn failed");
    const isDrained = result.code === "cancelled" && signal.reason === "drain";
    const failures = (journal.committed > 0 ? 0 : (run.failures ?? 0)) + 1;
    const maxTries = steps.length > 0 ? MAX_TRIES : kind.maxTries;
    if (isDrained || (result.retryable && failures < maxTries)) {
      await putBack(kind.job, result, isDrained ? { attempts: run.attempts - 1 } : { failures }, current);
      return toSpent(addUsage(steps.map(({ usage }) => usage)), true);
    }
  }
  await endRun(result, current);
  return toSpent(getUsed(result, steps).usage, false);
}

const toSpent = (usage: RunRecord["usage"] = {}, again: boolean): Spent => ({
  tokens: countUsedTokens({ usage }),
  costUsd: usage.costUsd,
  again,
});

/** The run that only its first step makes worth keeping. */
function storeWithStep(current: Try): ((tx: Writes) => void) | undefined {
  const { kind, run, isStored } = current;
  if (kind.start !== "never" || isStored) return undefined;
  return (tx) => {
    tx.add("run", run);
    kind.writeFirst?.(tx, run);
    current.isStored = true;
  };
}

/** Lets a turn wait for people. One without a job continues after their decisions. */
async function continueTurn(first: ModelTurn | PausedTurn, turn: ModelTurnParts, current: Try): Promise<ModelTurn | PausedTurn> {
  let result = first;
  while (isPaused(result) && (await waitForPeople(result, current))) result = await takeModelTurn(turn, current);
  return result;
}

/** Writes that the run is under way. False if another gateway has the job by now. */
async function writeStart(start: RunChange & { startedAt: Ms }, { write }: Prepared, current: Try): Promise<boolean> {
  const { kind, deps, run } = current;
  const held = await deps.store.commit((tx) => {
    if (current.isStored) tx.update("run", run.id, { ...start, parked: null, waiting: null });
    else tx.add("run", run);
    write?.(tx);
  }, kind.job);
  current.isStored = true;
  if (held) current.admission?.started(run.id);
  const since = kind.job?.enqueuedAt ?? run.createdAt;
  if (held && run.attempts === 1) deps.metrics?.runStarted({ waitSeconds: (start.startedAt - since) / 1000 });
  return held;
}

const isPaused = (result: ModelTurn | PausedTurn): result is PausedTurn =>
  !result.ok && (result.code === "waiting" || result.code === "lost");

/** Puts a run back: after a drain as if it had not begun, after an error to be tried again when the provider says, else after growing waits with jitter. */
async function putBack(job: Job, failure: FailedTurn, change: { attempts: number } | { failures: number }, current: Try): Promise<void> {
  const { deps, run, isStored, steps } = current;
  current.end = { status: "queued", error: failure.code };
  const isDrained = "attempts" in change;
  const { retryAfterMs = isDrained ? 0 : backOff(change.failures, RETRY) * (0.75 + Math.random() / 2) } = failure;
  const error = isDrained ? {} : { error: toRunError(failure), ...keepFailedAttempts(run, failure, current.kind.context) };
  await deps.store.commit((tx) => {
    if (isStored) tx.update("run", run.id, { status: "queued", crashCount: 0, ...change, ...error, ...getStepsUsage(steps) });
    tx.settle(job, deps.clock.now() + retryAfterMs, { resetAttempts: true });
  }, job);
}

/** What a run has used, and the model that answered last: a run that failed has used what its steps have. */
function getUsed(result: ModelTurn, steps: readonly StepRecord[]): Pick<RunRecord, "usage" | "model"> {
  if (result.ok) return { usage: result.usage, model: result.model };
  const last = steps.at(-1);
  return last ? { usage: addUsage(steps.map(({ usage }) => usage)), model: last.model } : {};
}

/** What the steps have used, for the run: limits count it from now on. */
function getStepsUsage(steps: readonly StepRecord[]): Pick<RunRecord, "usage"> {
  const usage = addUsage(steps.map((step) => step.usage));
  return usage ? { usage } : {};
}

/** Writes the end of a run and all that follows from it, in one commit. */
async function endRun(result: ModelTurn, current: Try): Promise<void> {
  const { kind, deps, run, isStored, steps } = current;
  const { context, job } = kind;
  const now = deps.clock.now();
  const status = getRunStatus(result);
  const used = getUsed(result, steps);
  current.end = result.ok ? { status } : { status, error: result.code };
  const { change, warnings = [], planned, write, after } = await kind.finish(run, result, now, steps);
  const end = {
    status,
    endedAt: now,
    warnings: [...run.warnings, ...result.warnings, ...warnings],
    ...used,
    ...(result.ok ? {} : { error: toRunError(result), ...keepFailedAttempts(run, result, context) }),
    ...(planned ? { deliveryId: planned.delivery.id } : {}),
    ...change,
  };
  const writeAll = (tx: Writes): void => {
    if (isStored) writeEnd(tx, run, end, { context, now, ...(planned ? { delivery: planned.delivery } : {}) });
    else tx.add("run", { ...run, ...end });
    if (result.ok && result.lastStep) tx.add("step", result.lastStep);
    if (planned) writeDelivery(tx, planned);
    write(tx);
  };
  const done = await commitEnd(run, writeAll, { ...deps, now, held: job, by: "gateway", steps });
  if (done) {
    deps.metrics?.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
    const { mapping = "", spec } = run;
    if (used.model !== undefined) deps.metrics?.modelUsed({ agent: spec.session.agentId, mapping, model: used.model, ...used.usage });
    deps.log.info({ runId: run.id, status }, "a run ended");
    if (planned?.delivery.error) reportNoRoute(run, planned, context, deps);
    deps.onRunEnd?.(run.id);
  }
  await after?.(done);
}
