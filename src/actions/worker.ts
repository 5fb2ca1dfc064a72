import { backOff } from "../core/backoff.ts";
import { safeError, type Failure } from "../core/errors.ts";
import type { HeartbeatJob } from "../sessions/heartbeat.ts";
import { ENDED, sessionId, STORE_UNAVAILABLE, type Job, type RunError, type RunRecord } from "../store/types.ts";
import { executeCollect, type CollectJob } from "./collect.ts";
import { executeCommand } from "./commands.ts";
import { writeEnd } from "./finish.ts";
import { createJobPool } from "./job-pool.ts";
import { executeHeartbeat } from "./main-turn.ts";
import { executeRun } from "./run.ts";
import type { RunJob, RunOperations, TurnDeps } from "./types.ts";

export interface TurnWorker extends RunOperations {
  start(): void;
  /** Takes no more jobs, waits `drainMs` for turns under way, then puts the rest back in the queue. */
  stop(drainMs: number): Promise<void>;
  /** Starts a run that failed for good again, under the same id. */
  restart(run: RunRecord): Promise<void>;
  /** Whether this process carries the run out. */
  isActive(id: string): boolean;
}

/** The waits between attempts to put a job back. */
const PUT_BACK = { firstMs: 1000, longestMs: 10_000 };

/** Commands at the same time: `/stop` may wait for the end of the turns that it cancels. */
const MAX_COMMANDS = 16;

/** The answer to an attempt to cancel a run that has ended: its state, and what to do instead. */
function runEnded({ id, kind, status }: RunRecord): Failure {
  const instead =
    kind === "hook" && status !== "succeeded"
      ? `to start it again, use \`rouse runs retry ${id}\``
      : `to see how it ended, use \`rouse runs show ${id}\``;
  return { code: "run_ended", message: `the run has ended already (${status}), so it cannot be cancelled; ${instead}` };
}

/** Takes turns from the queue, `agents.defaults.maxConcurrent` at a time, and commands beside them. */
export function createTurnWorker(deps: TurnDeps): TurnWorker {
  const { store, queue, clock, log } = deps;
  const stopping = new AbortController();

  const execute = async (job: Job, abort: AbortController): Promise<void> => {
    const data = job.data as RunJob | HeartbeatJob | CollectJob;
    try {
      if (data.type === "run" && job.kind === "command") await executeCommand(job, data, deps);
      else if (data.type === "run") await executeRun(job, data, deps, abort.signal);
      else if (data.type === "collect") await executeCollect(job, data, deps);
      else await executeHeartbeat(job, data, deps, abort.signal);
    } catch (error) {
      log.error({ err: safeError(error), jobId: job.id }, "a turn could not be carried out; it is put back");
      // That the store was away is no fault of the turn.
      await putBack(job, safeError(error).code === STORE_UNAVAILABLE.code);
    }
  };

  /** Tries until the store takes it: nobody else does while this process lives. What is left at its end, the next start takes up. */
  const putBack = async (job: Job, resetAttempts: boolean): Promise<void> => {
    for (let failures = 1; ; failures++) {
      await deps.clock.sleep(backOff(failures, PUT_BACK), stopping.signal);
      try {
        await store.commit((tx) => tx.retryJob(job, deps.clock.now() + PUT_BACK.firstMs, { resetAttempts }), job);
        return;
      } catch (error) {
        log.error({ err: safeError(error), jobId: job.id }, "a job could not be put back; it is tried again");
        if (stopping.signal.aborted) return;
      }
    }
  };

  const turns = createJobPool({
    queue,
    clock,
    log,
    kind: "turn",
    limit: () => deps.context().config.agents.defaults.maxConcurrent,
    execute,
  });
  const commands = createJobPool({ queue, clock, log, kind: "command", limit: () => MAX_COMMANDS, execute });
  const pools = [turns, commands];
  const { active } = turns;

  const restart = async (run: RunRecord): Promise<void> => {
    const { parked } = deps.admission.place(run, deps.clock.now());
    const status = parked ? { status: "parked" as const, parked } : { status: "queued" as const };
    await store.commit((tx) => {
      tx.updateRun(run.id, { ...status, restarts: run.restarts + 1, attempts: 0, cutOff: 0, error: null, endedAt: null });
      tx.enqueue({
        id: run.id,
        kind: "turn",
        key: sessionId(run.spec.session),
        data: { type: "run", runId: run.id } satisfies RunJob,
        enqueuedAt: deps.clock.now(),
        ...(parked?.until === undefined ? {} : { runAt: parked.until }),
      });
    });
  };

  const notFound: Failure = { code: "not_found", message: "there is no run with this id" };

  return {
    restart,
    isActive: (id) => active.has(id),
    start: () => pools.forEach((pool) => pool.start()),
    async stop(drainMs) {
      for (const pool of pools) pool.halt();
      const left = () => pools.flatMap((pool) => [...pool.active.values()]);
      const ended = () => Promise.all(left().map((job) => job.done));
      await Promise.race([ended(), clock.sleep(drainMs)]);
      stopping.abort();
      for (const job of left()) job.abort.abort("drain");
      await ended();
    },
    async cancel(id) {
      const run = await store.getRun(id);
      if (!run) return { ok: false, failure: notFound };
      if (ENDED.includes(run.status)) return { ok: false, failure: runEnded(run) };
      const turn = active.get(id);
      if (turn) {
        turn.abort.abort("cancel");
        await turn.done;
      } else {
        await deps.admission.dropWindow(id);
        const now = deps.clock.now();
        await store.commit((tx) => {
          tx.removeJob("turn", id);
          tx.dropCollected(id);
          const error: RunError = { code: "cancelled", message: "cancelled before it began" };
          writeEnd(tx, run, { status: "cancelled", endedAt: now, error }, { context: deps.context(), now });
        });
        deps.admission.over(run, { tokens: 0, again: false });
        deps.onRunEnd(id);
      }
      return { ok: true, run: (await store.getRun(id)) ?? run };
    },
    async retry(id) {
      const run = await store.getRun(id);
      if (!run) return { ok: false, failure: notFound };
      if (run.kind !== "hook")
        return {
          ok: false,
          failure: { code: "invalid_body", message: "only hook runs can be retried; a heartbeat's events stay queued by themselves" },
        };
      if (!ENDED.includes(run.status) || run.status === "succeeded") {
        return {
          ok: false,
          failure: { code: "invalid_body", message: `only a run that failed can be retried; this one is ${run.status}` },
        };
      }
      await restart(run);
      return { ok: true, run: (await store.getRun(id)) ?? run };
    },
  };
}
