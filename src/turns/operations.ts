import type { Failure } from "../core/errors.ts";
import type { PullWorker } from "../queue/worker.ts";
import { buildRunJob } from "../store/sql/record-writes.ts";
import {
  ENDED,
  getJobId,
  type Cluster,
  type DedupeRecord,
  type Reads,
  type RunRecord,
  type Store,
  type Writes,
} from "../store/types.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";
import type { TurnDeps } from "./context.ts";
import { writeEnd, writeRemoval } from "./end-run.ts";
import type { RunEnds, RunOperations } from "./types.ts";
import { commitEnd, toQueued } from "./journal.ts";

/** Returns why a run cannot be started again; undefined if it can. */
export function findRetryProblem({
  kind,
  status,
}: Pick<RunRecord, "kind" | "status">): Failure | undefined {
  if (kind !== "hook" && kind !== "schedule")
    return {
      code: "not_retryable",
      message:
        "only runs of hooks and schedules can be retried; a heartbeat's events stay queued by themselves",
    };
  if (!ENDED.includes(status) || status === "succeeded")
    return {
      code: "not_retryable",
      message: `only a run that failed can be retried; this one is ${status}`,
    };
  return undefined;
}

/** Runs of a repeated event are started again at most so often. */
const MAX_RESTARTS = 5;

interface RetryDeps {
  store: Store;
  restart(run: RunRecord): Promise<void>;
  retryDelivery(id: string): Promise<unknown>;
}

/**
 * Starts what a repeated event had brought and what failed for good: its runs, under their ids, and the deliveries that
 * failed, without a new turn.
 */
export async function retryOnRedelivery(
  record: DedupeRecord,
  { store, restart, retryDelivery }: RetryDeps,
): Promise<void> {
  const event = await store.events.get(record.eventId);
  // An action's own key brings back that action alone, an event's key all of them.
  const { runId: only } = (record.item ?? {}) as { runId?: string };
  for (const action of event?.actions ?? []) {
    if (record.item !== undefined && !(action.kind === "run" && action.runId === only)) continue;
    const run = action.kind === "run" ? await store.runs.get(action.runId) : undefined;
    if (!run || !ENDED.includes(run.status)) continue;
    if (run.status === "failed" || run.status === "timed_out") {
      if (run.restarts < MAX_RESTARTS) await restart(run);
    } else if (run.deliveryId !== undefined) {
      const delivery = await store.deliveries.get(run.deliveryId);
      if (delivery?.status === "failed") await retryDelivery(run.deliveryId);
    }
  }
}

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

/** Creates the operations of a gateway on the runs that it executes (`active`), and on those that wait. */
export function createRunOperations(
  deps: TurnDeps,
  active: PullWorker["active"],
): RunOperations & { restart(run: RunRecord): Promise<void> } {
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
      writeEnd(tx, run, end, { context: deps.snapshot(), now });
      writeRemoval(tx, run, now);
    };
    await commitEnd(run, write, { ...deps, now, by: "operator" });
    deps.admission.release(run, { usage: run.usage, again: false });
    deps.runEnds.ended(id);
  };

  return {
    /** Starts a run that failed for good again, under the same id. */
    restart,
    async cancel(id) {
      const run = await store.runs.get(id);
      if (!run) return { ok: false, failure: unknownId("run", id) };
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
      if (!run) return { ok: false, failure: unknownId("run", id) };
      const failure = findRetryProblem(run);
      if (failure) return { ok: false, failure };
      await restart(run);
      return { ok: true, run: (await store.runs.get(id)) ?? run };
    },
  };
}

interface CancelDeps {
  store: Reads;
  cluster: Pick<Cluster, "shared" | "tell">;
  /** Cancels a turn of the API in this process; undefined if there is none with this id. */
  chats: { cancel(runId: string): Promise<RunRecord | undefined> };
  turns: RunOperations & { isActive(id: string): boolean };
  runEnds: RunEnds;
}

type Cancelled = ReturnType<RunOperations["cancel"]>;

/** After ten seconds a gateway that died is known to be gone, and another gateway starts its runs again. */
const TELLS = 15;
const TELL_EVERY_MS = 1000;

/** Asks the gateway that executes the run to end it, until the run has ended. */
async function cancelElsewhere(
  run: RunRecord,
  { store, cluster, turns, runEnds }: CancelDeps,
): Cancelled {
  for (let asked = 0; asked < TELLS; asked++) {
    cluster.tell("cancel", [run.id]);
    await runEnds.wait(run.id, TELL_EVERY_MS);
    // The gateway that executed the run is gone, and this gateway has continued it.
    if (turns.isActive(run.id)) return turns.cancel(run.id);
    const now = await store.runs.get(run.id);
    if (now?.endedAt !== undefined) return { ok: true, run: now };
  }
  const message =
    "the gateway that executes the run has not answered; `rouse doctor` shows which ones live, then try again";
  return { ok: false, failure: { code: "store_unavailable", message, retryAfterSeconds: 5 } };
}

/** Cancels a run, whichever gateway executes it. Runs of the API's users do not wait in the queue. */
export async function cancelRun(id: string, deps: CancelDeps): Cancelled {
  const { store, cluster, chats, turns } = deps;
  const chat = await chats.cancel(id);
  if (chat) return { ok: true, run: chat };
  if (!cluster.shared || turns.isActive(id)) return turns.cancel(id);
  const run = await store.runs.get(id);
  if (run && (run.status === "running" || (run.kind === "api" && run.status === "queued")))
    return cancelElsewhere(run, deps);
  const cancelled = await turns.cancel(id);
  // Another gateway may have begun it meanwhile.
  if (cancelled.ok) cluster.tell("cancel", [id]);
  return cancelled;
}
