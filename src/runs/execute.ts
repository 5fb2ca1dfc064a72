import type { Agent, ResolvedModel, TurnInput, TurnResult } from "../agent/types.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { backOff } from "../core/backoff.ts";
import type { RunErrorCode } from "../core/errors.ts";
import { plainText } from "../core/text.ts";
import { writeDelivery, type Planned } from "../delivery/plan.ts";
import { countUsedTokens } from "../limits/limiter.ts";
import type { Admission } from "../limits/types.ts";
import type { Job, Ms, Parked, RunChange, RunError, RunRecord, RunStatus, TurnRecord, Writes } from "../store/types.ts";
import { createTurnKnowledge, type Citation } from "./knowledge.ts";
import { reportNoRoute, writeEnd } from "./run-result.ts";
import { traceRun } from "./traced-run.ts";
import type { ActionContext, TurnDeps } from "./types.ts";

/** A turn that has an answer, and the passages that the model was given for it. */
export type AnsweredTurn = Extract<TurnResult, { ok: true }> & { citations: readonly Citation[] };
export type FailedTurn = Extract<TurnResult, { ok: false }>;
export type ModelTurn = AnsweredTurn | FailedTurn;

export interface LoadedRun {
  run: RunRecord;
  agent: Agent | undefined;
  /** Whether the store has the run already. */
  isStored: boolean;
  /** Set if the run spends from budgets. */
  admission?: Admission | undefined;
}

/** What a turn begins with. */
export interface Prepared {
  /** What the kind adds to the model's input. */
  input: Pick<TurnInput, "tools"> & Partial<TurnInput>;
  /** Whose documents may be searched; default the operator's. */
  tenant?: string;
  /** What context is looked up for; default the run's input. */
  question?: string;
  /** Default: the turns of the run's session. */
  history?: readonly TurnRecord[];
  /** What changes in the run when it starts. */
  change?: Pick<Partial<RunRecord>, "spec" | "warnings" | "route">;
  /** Adds to the commit of the start. */
  write?(tx: Writes): void;
}

/** What a run ends with. */
export interface RunEnd {
  change?: Partial<RunRecord>;
  warnings?: readonly string[];
  /** The delivery of the reply, or of the apology. */
  planned?: Planned | undefined;
  /** Adds to the commit of the end. */
  write(tx: Writes): void;
  /** Called after that commit; `done` is false if another gateway has the job by now. */
  after?(done: boolean): void | Promise<void>;
}

/** What distinguishes the kinds of run: where the input comes from, and what the end commit adds. */
export interface RunKind {
  /** The snapshot that the run keeps from its start to its end. */
  readonly context: ActionContext;
  /** The job that the run is executed for. A run without one is tried once, and ends with its process. */
  readonly job?: Job;
  /** Tries of a turn whose error may pass. */
  readonly maxTries: number;
  /** When the start is written: before the turn, while the model thinks because a person waits, or never. */
  readonly start: "before" | "meanwhile" | "never";
  /** Loads or makes the run. Undefined if there is nothing to execute: the kind has settled its job. */
  load(): Promise<LoadedRun | undefined>;
  prepare(run: RunRecord, agent: Agent): Promise<Prepared>;
  finish(run: RunRecord, result: ModelTurn, now: Ms): RunEnd | Promise<RunEnd>;
  /** Turns an error into the run's failure. Without it, the error leaves the run to the worker. */
  recover?(error: unknown): FailedTurn;
}

export type ExecutorDeps = Pick<TurnDeps, "store" | "clock" | "log" | "metrics" | "knowledge" | "telemetry"> &
  Partial<Pick<TurnDeps, "onRunEnd">>;

/** One try of a run, and how far it has come. */
interface Try {
  readonly kind: RunKind;
  readonly deps: ExecutorDeps;
  readonly signal: AbortSignal;
  run: RunRecord;
  isStored: boolean;
  /** What the try has ended with. */
  end?: { status: RunStatus; error?: RunErrorCode };
}

/** What a try has used, and whether the run is back in the queue. */
interface Spent {
  tokens: number;
  again: boolean;
}

/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** The same for a run that is taken from the queue and never comes as far as its start. */
const MAX_TAKEN = 20;
const RETRY = { firstMs: 2_000, longestMs: 300_000 };
/** A run that waits for another run is released by it; should that get lost, it looks again then. */
const RELEASED_MS = 3_600_000;

/**
 * Executes one try of a run. Every kind of run comes this way: load, check, admit, start, turn, end. All that a run ends
 * with is one commit. Throws if the store does, unless the kind recovers.
 */
export async function execute(kind: RunKind, deps: ExecutorDeps, signal: AbortSignal): Promise<void> {
  const loaded = await kind.load();
  if (!loaded) return;
  const current: Try = { kind, deps, signal, run: loaded.run, isStored: loaded.isStored };
  return traceRun(loaded, current, () => executeTry(loaded, current));
}

async function executeTry(loaded: LoadedRun, current: Try): Promise<void> {
  const { run, admission } = loaded;
  const { kind, deps } = current;
  try {
    const ready = checkRun(loaded, kind);
    if ("code" in ready) {
      await endRun(buildFailure(ready), current);
      return admission?.release(run, { tokens: 0, again: false });
    }
    const parked = await admission?.start(run, deps.clock.now());
    if (parked) {
      await park(run, parked, current);
      return await admission?.parked?.(run.id);
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

/** Starts of a run that a crash has cut off. Being taken from the queue is no start: only one that is on disk counts. */
const countCrashes = ({ crashCount, cutOff = 0, status }: RunRecord): number => (crashCount ?? cutOff) + (status === "running" ? 1 : 0);

/** Resolves what a run is executed with, or says why it cannot be. */
function checkRun({ run, agent, isStored }: LoadedRun, { context, job }: RunKind): { agent: Agent; model: ResolvedModel } | RunError {
  if (countCrashes(run) >= MAX_CRASHES) return { code: "crashed", message: `started ${MAX_CRASHES} times without coming to an end` };
  if (isStored && job && job.attempts > MAX_TAKEN)
    return { code: "crashed", message: `taken up ${MAX_TAKEN} times without coming to a start` };
  if (!agent) return { code: "unknown_agent", message: "the agent is no longer in agents.list" };
  const model = context.models.resolve(run.spec.model ?? agent.model);
  return model.ok ? { agent, model: model.model } : model;
}

async function park(run: RunRecord, parked: Parked, current: Try): Promise<void> {
  const { kind, deps } = current;
  const job = kind.job as Job;
  current.end = { status: "parked" };
  await deps.store.commit((tx) => {
    tx.update("run", run.id, { status: "parked", parked, crashCount: countCrashes(run) });
    tx.settle(job, parked.until ?? deps.clock.now() + RELEASED_MS, { resetAttempts: true });
  }, job);
}

async function tryRun(agent: Agent, model: ResolvedModel, current: Try): Promise<Spent> {
  const { kind, deps, signal, run: before } = current;
  const prepared = await kind.prepare(before, agent);
  const start = {
    ...prepared.change,
    status: "running" as const,
    attempts: before.attempts + 1,
    crashCount: countCrashes(before),
    startedAt: deps.clock.now(),
    model: model.ref,
  };
  const run: RunRecord = { ...before, ...start };
  current.run = run;
  if (kind.start === "before" && !(await writeStart(start, prepared, current))) return { tokens: 0, again: false };
  const [result] = await Promise.all([
    takeModelTurn(agent, model, prepared, current),
    kind.start === "meanwhile" ? writeStart(start, prepared, current) : undefined,
  ]);
  if (!result.ok && kind.job) {
    deps.log.warn({ runId: run.id, code: result.code, attempts: run.attempts }, "a turn failed");
    const isDrained = result.code === "cancelled" && signal.reason === "drain";
    if (isDrained || (result.retryable && run.attempts < kind.maxTries)) {
      await putBack(kind.job, result, isDrained, current);
      return { tokens: 0, again: true };
    }
  }
  await endRun(result, current);
  return { tokens: result.ok ? countUsedTokens(result) : 0, again: false };
}

/** Writes that the run is under way. False if another gateway has the job by now. */
async function writeStart(start: RunChange & { startedAt: Ms }, { write }: Prepared, current: Try): Promise<boolean> {
  const { kind, deps, run } = current;
  const held = await deps.store.commit((tx) => {
    if (current.isStored) tx.update("run", run.id, { ...start, parked: null });
    else tx.add("run", run);
    write?.(tx);
  }, kind.job);
  current.isStored = true;
  if (held) deps.metrics?.runStarted({ waitSeconds: (start.startedAt - (kind.job?.enqueuedAt ?? run.createdAt)) / 1000 });
  return held;
}

/** Asks the model: it sees the session's history and, by the agent's `knowledge`, the documents of the tenant. */
async function takeModelTurn(
  agent: Agent,
  model: ResolvedModel,
  { input, tenant = OPERATOR_TENANT, question, history }: Prepared,
  { kind: { context }, deps, signal, run: { id, kind, spec } }: Try,
): Promise<ModelTurn> {
  const thinking = spec.thinking ?? agent.thinking;
  const { extensions, citations } = await createTurnKnowledge({ agent, tenant }, deps.knowledge);
  const result = await context.runtime.runTurn({
    agent,
    model,
    signal,
    input: spec.input,
    unsafe: spec.unsafe,
    timeoutMs: (spec.timeoutSeconds ?? context.config.agents.defaults.timeoutSeconds) * 1000,
    ...(thinking === undefined ? {} : { thinking }),
    history: history ?? (await deps.store.list("turns", spec.session)),
    info: { agentId: agent.id, sessionKey: spec.session.key, runId: id, kind },
    question: question ?? plainText(spec.input),
    extensions,
    ...input,
  });
  return result.ok ? { ...result, citations } : result;
}

/** Puts a run back: after a drain as if it had not begun, after an error to be tried again when the provider says, else after growing waits with jitter. */
async function putBack(job: Job, failure: FailedTurn, isDrained: boolean, current: Try): Promise<void> {
  const { deps, run, isStored } = current;
  current.end = { status: "queued", error: failure.code };
  const { code, message, retryAfterMs = backOff(run.attempts, RETRY) * (0.75 + Math.random() / 2) } = failure;
  const change = isDrained ? { attempts: run.attempts - 1 } : { error: { code, message } };
  await deps.store.commit((tx) => {
    if (isStored) tx.update("run", run.id, { status: "queued", crashCount: 0, ...change });
    tx.settle(job, deps.clock.now() + (isDrained ? 0 : retryAfterMs), { resetAttempts: true });
  }, job);
}

function getStatus(result: ModelTurn): RunStatus {
  if (result.ok) return "succeeded";
  return result.code === "timeout" ? "timed_out" : result.code === "cancelled" ? "cancelled" : "failed";
}

/** Writes the end of a run and all that follows from it, in one commit. */
async function endRun(result: ModelTurn, current: Try): Promise<void> {
  const { kind, deps, run, isStored } = current;
  const { context, job } = kind;
  const now = deps.clock.now();
  const status = getStatus(result);
  current.end = { status, ...(result.ok ? {} : { error: result.code }) };
  const { change, warnings = [], planned, write, after } = await kind.finish(run, result, now);
  const end = {
    status,
    endedAt: now,
    warnings: [...run.warnings, ...result.warnings, ...warnings],
    ...(result.ok ? { usage: result.usage } : { error: { code: result.code, message: result.message } }),
    ...(planned ? { deliveryId: planned.delivery.id } : {}),
    ...change,
  };
  const done = await deps.store.commit((tx) => {
    if (isStored) writeEnd(tx, run, end, { context, now, ...(planned ? { delivery: planned.delivery } : {}) });
    else tx.add("run", { ...run, ...end });
    if (planned) writeDelivery(tx, planned);
    write(tx);
  }, job);
  if (done) {
    deps.metrics?.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
    deps.log.info({ runId: run.id, status }, "a run ended");
    if (planned?.delivery.error) reportNoRoute(run, planned, context, deps);
    deps.onRunEnd?.(run.id);
  }
  await after?.(done);
}
