import type { ExecutorDeps } from "./types.ts";
import { newBoundaryId } from "../agent/boundary.ts";
import type { Agent, PausedTurn, ResolvedModel } from "../agent/types.ts";
import { isProviderAway } from "../core/errors.ts";
import { endWait } from "../queue/parking-lot.ts";
import {
  PARKED_UNTIL,
  sessionId,
  type Job,
  type LimitReason,
  type RunError,
  type RunRecord,
  type Writes,
} from "../store/types.ts";
import { withChange } from "../store/rows.ts";
import { LOST } from "../queue/worker.ts";
import { countCrashes, createJournal, getProgress } from "./journal.ts";
import {
  commitFor,
  endRun,
  getUsed,
  getUsedSoFar,
  persistFor,
  type AttemptUsage,
  toRunError,
  toSpent,
  type Try,
  writeStart,
} from "./end-run.ts";
import { createLiveText, withdrawLive } from "./channel/live-text.ts";
import { takeModelTurn, type ModelTurnParts } from "./model-turn.ts";
import type { FailedTurn, LoadedRun, ModelTurn, RunKind, Prepared } from "./run-kind.ts";
import { addRunUsage, waitForPeople } from "./waiting.ts";
import { beginHold, endHold } from "./hold.ts";
import {
  AttemptGate,
  findExpired,
  openGate,
  planAfterFailure,
  type RunRefusal,
  toCandidates,
  writeProviderWait,
} from "./provider-wait.ts";
import { keepFailedAttempts, replyRoute } from "./run-result.ts";
import { STEER } from "./channel/steering.ts";
import { NotNowError } from "./channel/attachments.ts";

const toFailure = (message: string): FailedTurn => ({
  ok: false,
  code: "provider_error",
  message,
  retryable: true,
  warnings: [],
});

/**
 * Prepares a try of a run, or says what the run has to wait for: a file that cannot be read now, such as a voice message whose
 * endpoint is busy. The last try that the run may have does not wait, and gets a note in place of the file.
 */
async function prepareTry(
  run: RunRecord,
  agent: Agent,
  current: Try,
): Promise<Prepared | FailedTurn> {
  const { kind, deps, isStored, steps } = current;
  const attempt = {
    kind,
    run,
    isStored,
    hasSteps: steps.length > 0,
    hasProgress: false,
    now: deps.clock.now(),
  };
  const mayWait = kind.job !== undefined && planAfterFailure(toFailure(""), attempt).do === "retry";
  try {
    return await kind.prepare(run, agent, mayWait);
  } catch (error) {
    if (error instanceof NotNowError) return toFailure(error.message);
    throw error;
  }
}

/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** The same for a run that is taken from the queue and never comes as far as its start. */
const MAX_TAKEN = 20;

/**
 * Executes one try of a run. Every kind of run comes this way: load, check, admit, start, turn, end. All that a run ends
 * with is one commit. Throws if the store does, unless the kind recovers.
 */
export async function execute(
  kind: RunKind,
  deps: ExecutorDeps,
  signal: AbortSignal,
): Promise<void> {
  const loaded = await kind.load();
  if (!loaded) return endWait(kind.job, deps.parking);
  // A run that has not begun has none.
  const steps =
    kind.job && loaded.run.startedAt !== undefined
      ? await deps.store.steps.list(loaded.run.id)
      : [];
  const { run, admission, isStored } = loaded;
  const current: Try = {
    kind,
    deps,
    signal,
    admission,
    run,
    isStored,
    steps: [...steps],
    crashes: 0,
  };
  await inSpan(loaded, current, () => executeTry(loaded, current));
  const { status } = current.end ?? {};
  if (run.kind === "channel" && (status === "parked" || status === "queued") && !signal.aborted)
    deps.typing?.whileWaiting(run.id);
}

/** Executes one try of a run within a span of its trace. */
async function inSpan(
  { run, agent }: LoadedRun,
  current: Try,
  work: () => Promise<void>,
): Promise<void> {
  const { id, kind, eventId, mapping, attempts, spec } = run;
  const { session, trace, correlation = {} } = spec;
  const name = agent?.name ?? session.agentId;
  const attributes = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.id": session.agentId,
    "gen_ai.agent.name": name,
    "gen_ai.conversation.id": sessionId(session),
    "rouse.run.id": id,
    "rouse.run.kind": kind,
    "rouse.run.attempt": attempts + 1,
    "rouse.event.id": eventId ?? undefined,
    "rouse.mapping": mapping,
    ...Object.fromEntries(
      Object.entries(correlation).map(([header, value]) => [`rouse.api.${header}`, value]),
    ),
  };
  await current.deps.traces.span(
    `invoke_agent ${name}`,
    attributes,
    async (span) => {
      await work();
      span.set({ "rouse.run.status": current.end?.status });
      if (current.end?.error !== undefined) span.fail(current.end.error);
    },
    { trace },
  );
}

async function executeTry(loaded: LoadedRun, current: Try): Promise<void> {
  const { run, admission } = loaded;
  const { kind, deps, signal } = current;
  let leave: (() => void) | undefined;
  try {
    current.crashes = await countCrashes(run, current.steps, deps);
    // What a process that was killed has left behind.
    await withdrawLive(current);
    const ready = checkRun(loaded, current);
    if ("code" in ready) {
      endWait(kind.job, deps.parking);
      await endRun(buildFailure(ready), current);
      return admission?.release(run, { tokens: 0, again: false });
    }
    if (kind.job) leave = await deps.quarantine?.enter(current.crashes === MAX_CRASHES - 1, signal);
    const gate = await openGate(ready.model, current);
    if (!(gate instanceof AttemptGate)) {
      const { run: waiting } = current;
      const spent = await waitForProvider(gate, ready.model, current);
      return admission?.release(waiting, spent);
    }
    try {
      const parked = await admission?.start(current.run, deps.clock.now());
      if (parked) return await park(current.run, parked, current);
      const { run: noted } = current;
      let spent: AttemptUsage = { tokens: 0, again: true };
      try {
        spent = await tryRun({ ...ready, gate }, current);
      } finally {
        admission?.release(noted, spent);
      }
    } finally {
      gate.close();
    }
  } catch (error) {
    if (!kind.recover) throw error;
    await endRun(kind.recover(error), current);
  } finally {
    leave?.();
  }
}

const buildFailure = ({ code, message }: RunError): FailedTurn => ({
  ok: false,
  code,
  message,
  retryable: false,
  warnings: [],
});

/** Resolves what a run is executed with, or says why it cannot be. */
function checkRun(
  { run, agent, isStored }: LoadedRun,
  { kind, crashes }: Try,
): { agent: Agent; model: ResolvedModel } | RunError {
  const { context, job } = kind;
  if (crashes >= MAX_CRASHES)
    return { code: "crashed", message: `started ${MAX_CRASHES} times without coming to an end` };
  if (isStored && job && job.attempts > MAX_TAKEN)
    return { code: "crashed", message: `taken up ${MAX_TAKEN} times without coming to a start` };
  if (!agent) return { code: "unknown_agent", message: "the agent is no longer in agents.list" };
  const model = context.models.resolve(
    run.spec.model ?? agent.model,
    run.spec.model === undefined ? agent.fallbacks : [],
  );
  return model.ok ? { agent, model: model.model } : model;
}

/** Puts a run back that has not started, since no model of it takes calls; one that is too old ends. */
async function waitForProvider(
  { from, ...refusal }: RunRefusal,
  model: ResolvedModel,
  current: Try,
): Promise<AttemptUsage> {
  const { kind, deps, run, isStored } = current;
  const now = deps.clock.now();
  const expired = isStored ? findExpired(run, refusal, kind, now) : undefined;
  if (expired) return endTry(expired, current);
  current.end = { status: "parked" };
  const change = { crashCount: current.crashes, ...getUsedSoFar(current) };
  const wait = {
    hold: { reason: "away" as const, ...refusal },
    of: refusal.of,
    candidates: toCandidates(model),
    now,
    from,
  };
  await persistFor(current, () => writeProviderWait(current, change, wait));
  return toSpent(addRunUsage(current), true);
}

/** Puts a run back that a limit holds: it is released when there is room. */
async function park(run: RunRecord, limit: LimitReason, current: Try): Promise<void> {
  const { kind, deps, crashes: crashCount } = current;
  current.end = { status: "parked" };
  const job = kind.job as Job;
  await commitFor(current, (tx) => {
    const hold = beginHold(run, { reason: "limit", ...limit }, deps.clock.now());
    tx.runs.update(run.id, { status: "parked", crashCount, ...hold });
    tx.jobs.settle(job, PARKED_UNTIL, { resetAttempts: true });
  });
}

/**
 * Starts a try and takes its first turn; people see meanwhile that the agent works. Returns undefined if another gateway has
 * the run, and a failure if the try cannot begin.
 */
async function startTurn(
  { agent, model, gate }: Pick<ModelTurnParts, "agent" | "model" | "gate">,
  current: Try,
): Promise<{ first: ModelTurn | PausedTurn; turn: ModelTurnParts } | FailedTurn | undefined> {
  const { kind, deps, signal, run: before, steps } = current;
  const prepared = await prepareTry(before, agent, current);
  if ("retryable" in prepared) return prepared;
  const start = {
    ...prepared.change,
    ...(current.isStored && endHold(before, deps.clock.now())),
    status: "running" as const,
    attempts: before.attempts + 1,
    crashCount: current.crashes,
    gateway: deps.cluster.id,
    progress: getProgress(steps),
    startedAt: deps.clock.now(),
    model: model.ref,
    boundaryId: before.boundaryId ?? newBoundaryId(),
  };
  const run = withChange(before, start);
  current.run = run;
  // A run that is stored by its first step is from then on like any other.
  const isBefore = kind.start === "before" || (kind.start === "never" && current.isStored);
  if (isBefore && !(await writeStart(start, before.status, prepared, current))) return undefined;
  const journal = createJournal(
    { run, steps, signal, job: kind.job, writeFirst: storeWithStep(current) },
    deps,
  );
  const live = createLiveText(current);
  const turn = {
    agent,
    model,
    prepared: live ? { ...prepared, input: { ...prepared.input, ...live.input } } : prepared,
    journal,
    gate,
  };
  const [first] = await Promise.all([
    takeModelTurn(turn, current),
    kind.start === "meanwhile" ? writeStart(start, before.status, prepared, current) : undefined,
  ]).finally(() => void live?.end());
  const shown = await live?.end();
  if (shown) current.run = { ...run, live: shown };
  if (!first.ok) await withdrawLive(current);
  return { first, turn };
}

async function tryRun(
  parts: Pick<ModelTurnParts, "agent" | "model" | "gate">,
  current: Try,
): Promise<AttemptUsage> {
  const { kind, deps, signal } = current;
  const start = (): ReturnType<typeof startTurn> => startTurn(parts, current);
  const { id: runId, kind: runKind, spec } = current.run;
  const route = runKind === "channel" ? replyRoute(spec) : undefined;
  const started = await (deps.typing
    ? deps.typing.during({ runId, route, signal }, start)
    : start());
  if (!started) return { tokens: 0, again: false };
  const { model } = parts;
  if (!("turn" in started)) return putBackOrEnd(started, model, false, current);
  const { first, turn } = started;
  const result = await continueTurn(first, turn, current);
  if (isPaused(result)) {
    current.end = { status: result.code };
    return result.code === "waiting"
      ? toSpent(addRunUsage(current), false)
      : { tokens: 0, again: false };
  }
  if (signal.reason === LOST) {
    current.end = { status: "lost" };
    return { tokens: 0, again: false };
  }
  if (!result.ok) {
    const isStopped = !kind.job && result.code === "cancelled";
    if (!isStopped)
      deps.log.warn({ runId, code: result.code, attempts: current.run.attempts }, "a turn failed");
  }
  if (!result.ok && kind.job) {
    if (result.code === "cancelled" && (signal.reason === "drain" || signal.reason === STEER)) {
      await putBackDrained(kind.job, current);
      return toSpent(addRunUsage(current), true);
    }
    return putBackOrEnd(result, model, turn.journal.committed > 0, current);
  }
  return endTry(result, current);
}

/** Ends a run with its last try. */
async function endTry(result: ModelTurn, current: Try): Promise<AttemptUsage> {
  await endRun(result, current);
  return toSpent(getUsed(result, current).usage, false);
}

/** Puts a run back whose attempt failed, to be tried again or to wait for its provider; or ends it. */
async function putBackOrEnd(
  result: FailedTurn,
  model: ResolvedModel,
  hasProgress: boolean,
  current: Try,
): Promise<AttemptUsage> {
  const { kind, deps, run, steps, isStored } = current;
  const now = deps.clock.now();
  const plan = planAfterFailure(result, {
    kind,
    run,
    isStored,
    hasSteps: steps.length > 0,
    hasProgress,
    now,
  });
  if (plan.do === "end") return endTry(plan.failure, current);
  const isParked = plan.do === "wait";
  current.end = { status: isParked ? "parked" : "queued", error: result.code };
  const wait = {
    ...(isParked
      ? { hold: { reason: "away" as const, ...plan.blocked }, of: plan.blocked.of, from: undefined }
      : { hold: { reason: "delay" as const, until: plan.at }, of: model.ref, from: plan.at }),
    candidates: toCandidates(model),
    now,
    failedAt: isProviderAway(result.code) ? (result.failedAttempts?.[0]?.at ?? now) : undefined,
  };
  await persistFor(current, () =>
    writeProviderWait(
      current,
      {
        ...(plan.do === "retry" && { failures: plan.failures }),
        crashCount: 0,
        error: toRunError(result),
        ...keepFailedAttempts(run, result, kind.context),
        ...getUsedSoFar(current),
      },
      wait,
    ),
  );
  return toSpent(addRunUsage(current), true);
}

/** The run that only its first step makes worth keeping. */
function storeWithStep(current: Try): ((tx: Writes) => void) | undefined {
  const { kind, run, isStored } = current;
  if (kind.start !== "never" || isStored) return undefined;
  return (tx) => {
    tx.runs.add(run);
    kind.writeFirst?.(tx, run);
    current.isStored = true;
  };
}

/** Lets a turn wait for people. One without a job continues after their decisions. */
async function continueTurn(
  first: ModelTurn | PausedTurn,
  turn: ModelTurnParts,
  current: Try,
): Promise<ModelTurn | PausedTurn> {
  let result = first;
  while (isPaused(result) && (await waitForPeople(result, current)))
    result = await takeModelTurn(turn, current);
  return result;
}

const isPaused = (result: ModelTurn | PausedTurn): result is PausedTurn =>
  !result.ok && (result.code === "waiting" || result.code === "lost");

/** Puts a run back as if it had not begun: the gateway stops, or further messages join it. */
async function putBackDrained(job: Job, current: Try): Promise<void> {
  const { deps, run, isStored } = current;
  current.end = { status: "queued", error: "cancelled" };
  const now = deps.clock.now();
  await commitFor(current, (tx) => {
    if (isStored)
      tx.runs.update(run.id, {
        status: "queued",
        crashCount: 0,
        attempts: run.attempts - 1,
        queuedAt: now,
        ...getUsedSoFar(current),
      });
    tx.jobs.settle(job, now, { resetAttempts: true });
  });
}
