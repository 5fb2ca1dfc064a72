import type { HeartbeatJob } from "../queue/heartbeat.ts";
import { ENDED, type Job } from "../store/types.ts";
import { executeBatch, type BatchJob } from "./batch.ts";
import { executeCommand } from "./channel/commands.ts";
import { PullWorker } from "../queue/worker.ts";
import { fromParkedKey } from "../queue/parking-lot.ts";
import { createRunOperations } from "./operations.ts";
import { execute as executeRun } from "./execute.ts";
import { createHeartbeatRun } from "./heartbeat.ts";
import { createHookRun, createScheduleRun } from "./hook.ts";
import { createMessageRun } from "./channel/message-run.ts";
import type { TurnDeps } from "./context.ts";
import type { RunJob } from "./types.ts";

export type TurnWorker = ReturnType<typeof createTurnWorker>;

/** Commands at the same time: `/stop` may wait for the end of the turns that it cancels. */
const MAX_COMMANDS = 16;

/** Takes turns from the queue, `agents.defaults.maxConcurrent` at a time, and commands beside them. */
export function createTurnWorker(deps: TurnDeps) {
  const executeTurn = async (job: Job, { runId }: RunJob, signal: AbortSignal): Promise<void> => {
    const run = await deps.store.runs.get(runId);
    if (run && !ENDED.includes(run.status)) {
      if (run.kind === "hook") return executeRun(createHookRun(job, run, deps), deps, signal);
      if (run.kind === "schedule")
        return executeRun(createScheduleRun(job, run, deps), deps, signal);
      if (run.kind === "channel")
        return executeRun(createMessageRun(job, run, deps, signal), deps, signal);
    }
    await deps.store.commit((tx) => tx.jobs.settle(job), job);
    deps.parking.arrived(job.id);
  };
  const executeJob = async (job: Job, signal: AbortSignal): Promise<void> => {
    const data = job.data as RunJob | HeartbeatJob | BatchJob;
    const parked = fromParkedKey(job.key);
    // A job that has waited for a provider goes back into the queue of its session.
    if (parked)
      return void (await deps.store.commit(
        (tx) => tx.jobs.settle(job, deps.clock.now(), { key: parked.key }),
        job,
      ));
    if (data.type === "heartbeat")
      return executeRun(createHeartbeatRun(job, data, deps), deps, signal);
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
    limit: () => deps.snapshot().config.agents.defaults.maxConcurrent,
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
    /** True if this process executes the run. */
    isActive: (id: string): boolean => turns.active.has(id),
    start: (): void => workers.forEach((worker) => worker.start()),
    /** Takes no more jobs, waits `drainMs` for turns under way, then puts the rest back in the queue. */
    async stop(drainMs: number): Promise<void> {
      await Promise.all(workers.map((worker) => worker.stop(drainMs)));
    },
  };
}
