import { newBoundaryId } from "../agent/boundary.ts";
import type { Agent, PausedTurn } from "../agent/types.ts";
import { LOST } from "../queue/worker.ts";
import { isRunChanged } from "../store/sql/errors.ts";
import { withChange } from "../store/sql/rows.ts";
import {
  getEdits,
  getOwnModel,
  sessionId,
  type Ms,
  type RunChange,
  type RunError,
  type RunRecord,
  type Writes,
} from "../store/types.ts";
import { NotNowError } from "./channel/attachments.ts";
import { withTypingSign } from "./channel/typing.ts";
import { endRun } from "./end-run.ts";
import { waitForPeople } from "./hold.ts";
import {
  addRunUsage,
  commitFor,
  countCrashes,
  createJournal,
  endHold,
  getProgress,
  persist,
} from "./journal.ts";
import { openGate, type AttemptGate } from "./model-gate.ts";
import { takeModelTurn, type ModelTurnParts } from "./model-turn.ts";
import { holdForLimit, holdForModel, planAfterFailure, putBackOrEnd } from "./put-back.ts";
import type { CheckedTry, FailedTurn, ModelTurn, Prepared, RunKind, Try } from "./try.ts";

/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** The same for a run that is taken from the queue and never comes as far as its start. */
const MAX_TAKEN = 20;

/**
 * Executes one try of a run. Every kind of run comes this way, in the order of this file: load, check, ask models and limits for room,
 * start, turn, end. All that a run ends with is one commit. Throws if the store does, unless the kind recovers.
 */
export async function execute(
  kind: RunKind,
  deps: Try["deps"],
  signal: AbortSignal,
): Promise<void> {
  const loaded = await kind.load();
  if (!loaded) {
    if (kind.job) deps.parking.arrived(kind.job.id);
    return;
  }
  const { id, startedAt } = loaded.run;
  // A run that has not begun has none.
  const steps = kind.job && startedAt !== undefined ? await deps.store.steps.list(id) : [];
  const current: Try = { ...loaded, kind, deps, signal, steps, crashes: 0 };
  await inSpan(current, () =>
    executeTry(current).catch((error: unknown) => {
      if (!kind.recover) throw error;
      return endRun(kind.recover(error), current);
    }),
  );
}

/** Executes one try of a run within a span of its trace. */
async function inSpan(current: Try, work: () => Promise<void>): Promise<void> {
  const { run, agent } = current;
  const { id, kind, eventId, mapping, attempts, spec } = run;
  const { session, trace } = spec;
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

/** Checks a run, asks its models and its limits, and takes its turn if they have room. */
async function executeTry(current: Try): Promise<void> {
  const { kind, deps, signal, admission } = current;
  current.crashes = await countCrashes(current.run, current.steps, deps);
  // A process that was killed may have left the message behind that showed the turn's text.
  await kind.live?.withdraw(current);
  const { run: before } = current;
  const checked = checkRun(current);
  if ("code" in checked) {
    if (kind.job) deps.parking.arrived(kind.job.id);
    await endRun(buildFailure(checked), current);
    return release(current, before);
  }
  const isSuspect = current.crashes === MAX_CRASHES - 1;
  const leave = kind.job && (await deps.quarantine?.enter(isSuspect, signal));
  try {
    const gate = await openGate(checked);
    if ("until" in gate) {
      await holdForModel(gate, checked);
      return release(current, before);
    }
    try {
      const parked = await admission?.start(current.run, deps.clock.now());
      if (parked) return await holdForLimit(parked, current);
      await takeTurn(checked, gate).finally(() => release(current, before));
    } finally {
      gate.close();
    }
  } finally {
    leave?.();
  }
}

/** Gives back what a run has taken of its limits. `before`: the run as it was before the try. */
function release({ admission, end }: Try, before: RunRecord): void {
  const { status, usage } = end ?? {};
  const again = status === undefined || status === "queued" || status === "parked";
  admission?.release(before, { usage, again });
}

const buildFailure = ({ code, message }: RunError): FailedTurn => ({
  ok: false,
  code,
  message,
  retryable: false,
  warnings: [],
});

/** Resolves what a run is executed with, or says why it cannot be. */
function checkRun(current: Try): CheckedTry | RunError {
  const { run, agent, isStored, crashes } = current;
  const { context, job } = current.kind;
  if (crashes >= MAX_CRASHES)
    return { code: "crashed", message: `started ${MAX_CRASHES} times without coming to an end` };
  if (isStored && job && job.attempts > MAX_TAKEN)
    return { code: "crashed", message: `taken up ${MAX_TAKEN} times without coming to a start` };
  if (!agent) return { code: "unknown_agent", message: "the agent is no longer in agents.list" };
  const own = getOwnModel(run);
  const model = own === undefined ? agent.resolved : context.models.resolve(own);
  return model.ok ? Object.assign(current, { agent, model: model.model }) : model;
}

/** Takes the turn of a run, with all that it waits for people, and writes what becomes of the run. */
async function takeTurn(current: CheckedTry, gate: AttemptGate): Promise<void> {
  const { kind, deps, signal } = current;
  const { id: runId } = current.run;
  const start = (): ReturnType<typeof startTurn> => startTurn(current, gate);
  const route = kind.getReplyRoute?.(current.run);
  const { channels } = kind.context;
  const started = await (route
    ? withTypingSign({ ...deps, runId, route, channels }, signal, start)
    : start());
  if (!started) return;
  if (!("turn" in started)) return putBackOrEnd(started, false, current);
  const { turn } = started;
  let result = started.first;
  // A run without a job goes on after the decisions.
  while (isPaused(result) && (await waitForPeople(result, current)))
    result = await takeModelTurn(turn, current);
  if (isPaused(result) && result.code === "waiting")
    return void (current.end = { status: "waiting", usage: addRunUsage(current) });
  if (isPaused(result) || signal.reason === LOST) return void (current.end = { status: "lost" });
  // A caller that has gone is no failure.
  if (!result.ok && (kind.job || result.code !== "cancelled"))
    deps.log.warn({ runId, code: result.code, attempts: current.run.attempts }, "a turn failed");
  return result.ok || !kind.job
    ? endRun(result, current)
    : putBackOrEnd(result, turn.journal.committed > 0, current);
}

/**
 * Starts a try and takes its first turn; people see meanwhile that the agent works. Returns undefined if another gateway has
 * the run, and a failure if the try cannot begin.
 */
async function startTurn(
  current: CheckedTry,
  gate: AttemptGate,
): Promise<{ first: ModelTurn | PausedTurn; turn: ModelTurnParts } | FailedTurn | undefined> {
  const { kind, deps, run: before, steps, agent, model } = current;
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
  const isBefore = !kind.start || (kind.start === "never" && current.isStored);
  if (isBefore && !(await writeStart(start, before.status, prepared, current))) return undefined;
  const journal = createJournal(current, storeWithStep(current));
  const live = kind.live?.begin(current);
  const input = { ...prepared.input, ...live?.input };
  const turn = { prepared: { ...prepared, input }, journal, gate };
  const [first] = await Promise.all([
    takeModelTurn(turn, current),
    kind.start === "meanwhile" ? writeStart(start, before.status, prepared, current) : undefined,
  ]).finally(() => void live?.end());
  const shown = await live?.end();
  if (shown) current.run = withChange(run, { live: shown });
  if (!first.ok) await kind.live?.withdraw(current);
  return { first, turn };
}

/**
 * Writes that the run is under way. False if another gateway has the job by now, or if the run was put back: a message of it
 * was edited, or it was cancelled, after it was read. `was`: its state when it was read.
 */
export async function writeStart(
  start: RunChange & { startedAt: Ms },
  was: RunRecord["status"],
  { write }: Prepared,
  current: Try,
): Promise<boolean> {
  const { kind, deps, run } = current;
  const commit = (): Promise<boolean> =>
    deps.store.commit((tx) => {
      if (!current.isStored) tx.runs.add(run);
      else if (kind.job) tx.runs.update(run.id, start, { status: was, edits: getEdits(run) });
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
  const { kind } = current;
  try {
    if (kind.job) return await kind.prepare(run, agent, true);
  } catch (error) {
    if (!(error instanceof NotNowError)) throw error;
    const failure = toFailure(error.message);
    if (planAfterFailure(failure, current, false).do === "retry") return failure;
  }
  return kind.prepare(run, agent, false);
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

const isPaused = (result: ModelTurn | PausedTurn): result is PausedTurn =>
  !result.ok && (result.code === "waiting" || result.code === "lost");
