import type { RunRecord, Store } from "../store/types.ts";
import { deliveryStatus, eventReceipt, runReceipt } from "./receipts.ts";

/** A receipt, and the name of the credential by which its event came in: whoever has that may read it. */
export interface ReadableReceipt {
  credential: string | undefined;
  render(): Promise<object>;
}

/** How a run has ended, for a caller that waits for it. */
export interface RunSummary {
  runId: string;
  status: RunRecord["status"];
  reply: string | null;
  delivery: { status: string } | null;
}

export interface Receipts {
  /** Undefined if there is no event, or no run, with this id. `full` adds a run's reply and recipient. */
  find(kind: "events" | "runs", id: string, full: boolean): Promise<ReadableReceipt | undefined>;
  /** Returns a run that has ended; undefined if it has not within `ms`. */
  wait(runId: string, ms: number): Promise<RunSummary | undefined>;
}

/** Creates what tells senders what became of their events. */
export function createReceipts(deps: {
  store: Pick<Store, "get">;
  /** Resolves when the run has ended or the time is over. */
  waitForRun(runId: string, ms: number): Promise<void>;
}): Receipts {
  const { store } = deps;
  return {
    async find(kind, id, full) {
      if (kind === "events") {
        const event = await store.get("event", id);
        return event && { credential: event.credential, render: () => eventReceipt(store, event) };
      }
      const run = await store.get("run", id);
      const event = run?.eventId ? await store.get("event", run.eventId) : undefined;
      return run && { credential: event?.credential, render: () => runReceipt(store, run, full) };
    },
    async wait(runId, ms) {
      await deps.waitForRun(runId, ms);
      const run = await store.get("run", runId);
      if (run?.endedAt === undefined) return undefined;
      const delivery =
        run.deliveryId === undefined ? undefined : await store.get("delivery", run.deliveryId);
      const status = deliveryStatus(run, delivery);
      return {
        runId,
        status: run.status,
        reply: run.reply ?? null,
        delivery: status === undefined ? null : { status },
      };
    },
  };
}
