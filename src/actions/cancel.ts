import type { Peers, RunRecord, Store } from "../store/types.ts";
import type { Chats } from "./chat-types.ts";
import type { RunEnds } from "./run-ends.ts";
import type { RunOperations } from "./types.ts";

export interface CancelDeps {
  store: Pick<Store, "getRun">;
  peers: Pick<Peers, "shared" | "tell">;
  chats: Pick<Chats, "cancel">;
  turns: Pick<RunOperations, "cancel"> & { isActive(id: string): boolean };
  runEnds: Pick<RunEnds, "wait">;
}

type Cancelled = ReturnType<RunOperations["cancel"]>;

/** A gateway that is gone is known to be after ten seconds, and another one begins its runs afresh. */
const TELLS = 15;
const TELL_EVERY_MS = 1000;

/** Asks the gateway that carries the run out to end it, and again until the run has ended. */
async function cancelElsewhere(run: RunRecord, { store, peers, runEnds }: CancelDeps): Cancelled {
  for (let told = 0; told < TELLS; told++) {
    peers.tell("cancel", [run.id]);
    await runEnds.wait(run.id, TELL_EVERY_MS);
    const now = await store.getRun(run.id);
    if (now?.endedAt !== undefined) return { ok: true, run: now };
  }
  const message = "the gateway that carries the run out has not answered; `rouse doctor` shows which ones live, then try again";
  return { ok: false, failure: { code: "store_unavailable", message, retryAfterSeconds: 5 } };
}

/** Cancels a run, whichever gateway carries it out. Runs of the API's users do not wait in the queue. */
export async function cancelRun(id: string, deps: CancelDeps): Cancelled {
  const { store, peers, chats, turns } = deps;
  const chat = await chats.cancel(id);
  if (chat) return { ok: true, run: chat };
  if (!peers.shared || turns.isActive(id)) return turns.cancel(id);
  const run = await store.getRun(id);
  if (run && (run.status === "running" || (run.kind === "api" && run.status === "queued"))) return cancelElsewhere(run, deps);
  const cancelled = await turns.cancel(id);
  // One may have begun it meanwhile.
  if (cancelled.ok) peers.tell("cancel", [id]);
  return cancelled;
}
