import type { Failure } from "../core/errors.ts";
import type { HeartbeatJob } from "../sessions/heartbeat.ts";
import {
  countUsedTokens,
  ENDED,
  getJobId,
  type Job,
  type RunRecord,
  type Writes,
} from "../store/types.ts";
import { executeAwayNotice, type AwayNoticeJob } from "./channel/away-notice.ts";
import { executeBatch, type BatchJob } from "./batch.ts";
import { executeCommand } from "./channel/commands.ts";
import { toQueued } from "./hold.ts";
import { replyRoute, writeEnd, writeRemoval } from "./run-result.ts";
import { buildRunJob } from "../store/sql/materialize.ts";
import { PullWorker } from "../queue/worker.ts";
import { fromParkedKey } from "../queue/parking-lot.ts";
import { Quarantine } from "./quarantine.ts";
import { findRetryProblem } from "./retry-on-redelivery.ts";
import { execute as executeRun } from "./execute.ts";
import { createHeartbeatRun } from "./heartbeat.ts";
import { createHookRun } from "./hook.ts";
import { createMessageRun } from "./channel/message-run.ts";
import { createScheduleRun } from "./schedules/fire.ts";
import { SteerableTurns } from "./channel/steering.ts";
import { TypingSigns } from "./channel/typing.ts";
import type { RunJob, RunOperations, TurnDeps } from "./types.ts";
import { commitEnd } from "./waiting.ts";

export interface TurnWorker extends RunOperations {
  start(): void;
  /** Takes no more jobs, waits `drainMs` for turns under way, then puts the rest back in the queue. */
  stop(drainMs: number): Promise<void>;
  /** Starts a run that failed for good again, under the same id. */
  restart(run: RunRecord): Promise<void>;
  /** True if this process executes the run. */
  isActive(id: string): boolean;
  /** Starts a turn of this process again, with the messages that have come since; not one that has called tools. */
  steer(id: string): void;
  /** Shows a person that their message waits for its turn. */
  showThatItWaits(id: string): void;
}

/** Commands at the same time: `/stop` may wait for the end of the turns that it cancels. */
const MAX_COMMANDS = 16;

/** The answer to an attempt to cancel a run that has ended: its state, and what to do instead. */
function runEnded({ id, kind, status }: RunRecord): Failure {
  const instead =
    (kind === "hook" || kind === "schedule") && status !== "succeeded"
      ? `to start it again, use \`rouse runs retry ${id}\``
      : `to see how it ended, use \`rouse runs ${id}\``;
  return {
    code: "run_ended",
    message: `the run has ended already (${status}), so it cannot be cancelled; ${instead}`,
  };
}

const NOT_FOUND: Failure = { code: "not_found", message: "there is no run with this id" };

/** Starts a run again, after the steps that it has. */
async function restartRun(run: RunRecord, { store, admission, clock }: TurnDeps): Promise<void> {
  const now = clock.now();
  const parked = run.kind === "hook" ? admission.place(run, now) : undefined;
  await store.commit((tx) => {
    tx.runs.update(run.id, {
      ...toQueued(parked, now),
      restarts: run.restarts + 1,
      attempts: 0,
      crashCount: 0,
      failures: 0,
      // It may be tried for as long as a new run.
      waitedMs: now - run.createdAt,
      error: null,
      endedAt: null,
    });
    tx.jobs.add(buildRunJob(run, now, parked));
  });
}

/** What an operator does with runs. `active`: those that this process executes. */
function createRunOperations(
  deps: TurnDeps,
  active: PullWorker["active"],
): RunOperations & Pick<TurnWorker, "restart"> {
  const { store } = deps;

  const restart = (run: RunRecord): Promise<void> => restartRun(run, deps);

  /** Cancels a run that no process executes. */
  const cancelWaiting = async (run: RunRecord): Promise<void> => {
    const { id } = run;
    await deps.admission.dropBatch(id);
    const now = deps.clock.now();
    const message =
      run.status === "waiting"
        ? "cancelled while it waited for a person"
        : "cancelled before it began";
    const write = (tx: Writes): void => {
      tx.jobs.delete("turn", getJobId(run));
      tx.runs.dropCollected(id);
      // A heartbeat that has called tools must not be repeated by the next one.
      if (run.kind === "heartbeat") tx.systemEvents.update(run.systemEventIds, { state: "parked" });
      const end = {
        status: "cancelled" as const,
        endedAt: now,
        error: { code: "cancelled" as const, message },
      };
      writeEnd(tx, run, end, { context: deps.context(), now });
      writeRemoval(tx, run, now);
    };
    await commitEnd(run, write, { ...deps, now, by: "operator" });
    deps.admission.release(run, {
      tokens: countUsedTokens(run),
      costUsd: run.usage?.costUsd,
      again: false,
    });
    deps.onRunEnd(id);
  };

  return {
    restart,
    async cancel(id) {
      const run = await store.runs.get(id);
      if (!run) return { ok: false, failure: NOT_FOUND };
      if (ENDED.includes(run.status)) return { ok: false, failure: runEnded(run) };
      const turn = active.get(id);
      if (turn) {
        turn.abort.abort("cancel");
        await turn.done;
      } else await cancelWaiting(run);
      return { ok: true, run: (await store.runs.get(id)) ?? run };
    },
    async retry(id) {
      const run = await store.runs.get(id);
      if (!run) return { ok: false, failure: NOT_FOUND };
      const failure = findRetryProblem(run);
      if (failure) return { ok: false, failure };
      await restart(run);
      return { ok: true, run: (await store.runs.get(id)) ?? run };
    },
  };
}

/** Puts a job that has waited for a provider back into the queue of its session. */
async function returnToSession(job: Job, key: string, { store, clock }: TurnDeps): Promise<void> {
  await store.commit((tx) => tx.jobs.settle(job, clock.now(), { key }), job);
}

/** Takes turns from the queue, `agents.defaults.maxConcurrent` at a time, and commands beside them. */
export function createTurnWorker(parts: TurnDeps): TurnWorker {
  const steerable = new SteerableTurns();
  const typing = new TypingSigns({
    ...parts,
    channels: () => parts.context().channels,
    getRoute: ({ kind, spec }) =>
      kind === "channel" && !spec.command ? replyRoute(spec) : undefined,
  });
  const deps: TurnDeps = { ...parts, quarantine: new Quarantine(parts.clock), steerable, typing };
  const executeTurn = async (job: Job, { runId }: RunJob, signal: AbortSignal): Promise<void> => {
    const run = await deps.store.runs.get(runId);
    if (run && !ENDED.includes(run.status)) {
      if (run.kind === "hook") return executeRun(createHookRun(job, run, deps), deps, signal);
      if (run.kind === "schedule")
        return executeRun(createScheduleRun(job, run, deps), deps, signal);
      if (run.kind === "channel") {
        const turn = steerable.add(runId, signal);
        const kind = createMessageRun(job, run, deps, turn.signal);
        return executeRun(kind, deps, turn.signal).finally(turn.leave);
      }
    }
    await deps.store.commit((tx) => tx.jobs.settle(job), job);
    deps.parking.arrived(job.id);
  };
  const executeJob = async (job: Job, signal: AbortSignal): Promise<void> => {
    const data = job.data as RunJob | HeartbeatJob | BatchJob | AwayNoticeJob;
    const parked = fromParkedKey(job.key);
    if (parked) return returnToSession(job, parked.key, deps);
    if (data.type === "heartbeat")
      return executeRun(createHeartbeatRun(job, data, deps), deps, signal);
    if (data.type === "away-notice") return executeAwayNotice(job, data, deps);
    if (data.type === "collect") return executeBatch(job, data, deps);
    return job.kind === "command"
      ? executeCommand(job, data, deps)
      : executeTurn(job, data, signal);
  };
  // A job may be taken up while a request is under way, and is no part of it.
  const execute = (job: Job, signal: AbortSignal): Promise<void> =>
    deps.traces.within(undefined, () => executeJob(job, signal));
  const turns = new PullWorker({
    ...deps,
    kind: "turn",
    limit: () => deps.context().config.agents.defaults.maxConcurrent,
    execute,
  });
  const commands = new PullWorker({
    ...deps,
    kind: "command",
    limit: () => MAX_COMMANDS,
    execute,
  });
  const workers = [turns, commands];

  return {
    ...createRunOperations(deps, turns.active),
    isActive: (id) => turns.active.has(id),
    steer: (id) => steerable.steer(id),
    showThatItWaits: (id) => typing.whileWaiting(id),
    start: () => workers.forEach((worker) => worker.start()),
    async stop(drainMs) {
      typing.stop();
      await Promise.all(workers.map((worker) => worker.stop(drainMs)));
    },
  };
}
