import { safeError, type Failure } from "../core/errors.ts";
import type { HeartbeatJob } from "../sessions/heartbeat.ts";
import { ENDED, sessionId, STORE_UNAVAILABLE, type Job, type RunRecord } from "../store/types.ts";
import { executeCollect, type CollectJob } from "./collect.ts";
import { writeEnd } from "./finish.ts";
import { executeHeartbeat } from "./main-turn.ts";
import { executeRun, type RunJob } from "./run.ts";
import type { RunOperations, TurnDeps } from "./types.ts";

export interface TurnWorker extends RunOperations {
  start(): void;
  /** Takes no more jobs, waits `drainMs` for turns under way, then puts the rest back in the queue. */
  stop(drainMs: number): Promise<void>;
  /** Starts a run that failed for good again, under the same id. */
  restart(run: RunRecord): Promise<void>;
  /** Whether this process carries the run out. */
  isActive(id: string): boolean;
}

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 10_000;

/** Takes turns from the queue, `agents.defaults.maxConcurrent` at a time. */
export function createTurnWorker(deps: TurnDeps): TurnWorker {
  const { store, queue, log } = deps;
  const active = new Map<string, { done: Promise<void>; abort: AbortController }>();
  const stopping = new AbortController();
  let running = false;
  let fetching = false;
  let wanted = false;
  let unsubscribe: (() => void) | undefined;

  const execute = async (job: Job, abort: AbortController): Promise<void> => {
    const data = job.data as RunJob | HeartbeatJob | CollectJob;
    try {
      if (data.type === "run") await executeRun(job, data, deps, abort.signal);
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
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
      await deps.clock.sleep(wait, stopping.signal);
      try {
        await store.commit((tx) => tx.retryJob(job, deps.clock.now() + FIRST_WAIT_MS, { resetAttempts }), job);
        return;
      } catch (error) {
        log.error({ err: safeError(error), jobId: job.id }, "a job could not be put back; it is tried again");
        if (stopping.signal.aborted) return;
      }
    }
  };

  const fill = async (): Promise<void> => {
    if (fetching) {
      wanted = true;
      return;
    }
    fetching = true;
    try {
      do {
        wanted = false;
        const free = deps.context().config.agents.defaults.maxConcurrent - active.size;
        if (!running || free <= 0) break;
        const jobs = await queue.fetch("turn", free);
        for (const job of jobs) begin(job);
        if (jobs.length > 0) wanted = true;
      } while (wanted);
    } catch (error) {
      log.error({ err: safeError(error) }, "the queue could not be read; it is tried again");
      void deps.clock.sleep(1000).then(() => (running ? fill() : undefined));
    } finally {
      fetching = false;
    }
  };

  const begin = (job: Job): void => {
    const abort = new AbortController();
    const done = execute(job, abort).finally(() => {
      active.delete(job.id);
      if (running) void fill();
    });
    active.set(job.id, { done, abort });
  };

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
    start() {
      running = true;
      unsubscribe = queue.onReady((kind) => {
        if (kind === "turn") void fill();
      });
      void fill();
    },
    async stop(drainMs) {
      running = false;
      unsubscribe?.();
      const all = Promise.all([...active.values()].map((turn) => turn.done));
      await Promise.race([all, deps.clock.sleep(drainMs)]);
      stopping.abort();
      for (const turn of active.values()) turn.abort.abort("drain");
      await Promise.all([...active.values()].map((turn) => turn.done));
    },
    async cancel(id) {
      const run = await store.getRun(id);
      if (!run) return { ok: false, failure: notFound };
      if (ENDED.includes(run.status))
        return { ok: false, failure: { code: "invalid_body", message: `the run has ended already: ${run.status}` } };
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
          const error = { code: "cancelled", message: "cancelled by the operator" };
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
