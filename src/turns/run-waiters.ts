import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Ms, Cluster, Reads, Store, RunRecord } from "../store/types.ts";
import type { RunOperations } from "./types.ts";

interface CancelDeps {
  store: Reads;
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

/** The callers that wait for the ends of runs. */
export type RunEnds = ReturnType<typeof createRunEnds>;

/** Another gateway reports the end of runs that a caller waits for here; if the report gets lost, polling finds out. */
const LOOK_MS = 2000;
/** No caller waits for longer. */
const MAX_WAIT_MS = 60_000;
const MAX_AWAITED = 10_000;

export function createRunEnds(deps: {
  store: Store;
  cluster: Cluster;
  clock: Clock;
  signal: AbortSignal;
}) {
  const { store, cluster, clock, signal } = deps;
  const waiting = new Map<string, Set<() => void>>();
  /** Runs that somebody waits for at another gateway, and since when in monotonic time. */
  const awaited = new Map<string, Ms>();

  const release = (runId: string): void => {
    for (const done of waiting.get(runId) ?? []) done();
  };
  const note = (runIds: readonly string[]): void => {
    const now = readMonotonic(clock);
    for (const [id, since] of awaited) {
      if (since > now - MAX_WAIT_MS && awaited.size < MAX_AWAITED) break;
      awaited.delete(id);
    }
    for (const id of runIds) {
      awaited.delete(id);
      awaited.set(id, now);
    }
  };
  if (cluster.shared) {
    cluster.on("await", note);
    cluster.on("ended", (runIds) => runIds.forEach(release));
  }

  /** Sleeps until the run has ended, as far as is known. */
  const sleep = async (runId: string, ms: number, over: AbortSignal): Promise<void> => {
    if (!cluster.shared) return clock.sleep(ms, over);
    cluster.tell("await", [runId]);
    for (const until = readMonotonic(clock) + ms; !over.aborted;) {
      const left = until - readMonotonic(clock);
      if (left <= 0 || (await store.runs.get(runId))?.endedAt !== undefined) return;
      await clock.sleep(Math.min(left, LOOK_MS), over);
    }
  };

  return {
    /** To be called when a run has ended here. */
    ended(runId: string): void {
      release(runId);
      if (awaited.delete(runId)) cluster.tell("ended", [runId]);
    },
    /** Resolves when the run has ended, after `ms`, or when the gateway stops. */
    async wait(runId: string, ms: number): Promise<void> {
      const over = new AbortController();
      const done = (): void => over.abort();
      const listeners = waiting.get(runId) ?? new Set();
      waiting.set(runId, listeners.add(done));
      signal.addEventListener("abort", done, { once: true });
      try {
        const run = await store.runs.get(runId);
        if (run?.endedAt === undefined) await sleep(runId, ms, over.signal);
      } finally {
        signal.removeEventListener("abort", done);
        listeners.delete(done);
        if (listeners.size === 0) waiting.delete(runId);
      }
    },
  };
}
