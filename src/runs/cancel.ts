import type { Cluster, RunRecord, Store } from "../store/types.ts";
import type { RunEnds } from "./run-waiters.ts";
import type { RunOperations } from "./types.ts";

export interface CancelDeps {
  store: Pick<Store, "get">;
  cluster: Pick<Cluster, "shared" | "tell">;
  /** Cancels a turn of the API in this process; undefined if there is none with this id. */
  chats: { cancel(runId: string): Promise<RunRecord | undefined> };
  turns: Pick<RunOperations, "cancel"> & { isActive(id: string): boolean };
  runEnds: Pick<RunEnds, "wait">;
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
    const now = await store.get("run", run.id);
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
  const run = await store.get("run", id);
  if (run && (run.status === "running" || (run.kind === "api" && run.status === "queued")))
    return cancelElsewhere(run, deps);
  const cancelled = await turns.cancel(id);
  // Another gateway may have begun it meanwhile.
  if (cancelled.ok) cluster.tell("cancel", [id]);
  return cancelled;
}
