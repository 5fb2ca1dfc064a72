import {
  getOwnModel,
  deliveryState,
  NO_ROUTE,
  type DeliveryRecord,
  type EventRecord,
  type Reads,
  type RunRecord,
  type Usage,
} from "../store/types.ts";
import type { RunEnds } from "./types.ts";

/** The status of a run's delivery, as receipts name it. */
export function deliveryStatus(
  run: RunRecord,
  delivery: DeliveryRecord | undefined,
): string | undefined {
  if (delivery) return deliveryState(delivery);
  if (run.route === undefined) return undefined;
  if (run.route.status !== "route") return run.route.status;
  // A run that ended without a reply has nothing to deliver.
  return run.endedAt === undefined ? "pending" : "skipped";
}

/** `GET {base}/events/{id}`: what became of an event. Actions have the status that they have now. */
async function eventReceipt(store: Reads, event: EventRecord): Promise<object> {
  const actions = await Promise.all(
    event.actions.map(async (action) => {
      const mapping = action.mapping ?? null;
      if (action.kind === "wake")
        return { kind: "wake", systemEventId: action.systemEventId, mapping, status: "accepted" };
      const run = await store.runs.get(action.runId);
      return { kind: "run", runId: action.runId, mapping, status: run?.status ?? "forgotten" };
    }),
  );
  return {
    ok: true,
    event: {
      id: event.id,
      receivedAt: new Date(event.receivedAt).toISOString(),
      path: event.path,
      outcome: event.outcome,
      reason: event.reason ?? null,
      mapping: event.mapping ?? null,
      missing: event.missing ?? [],
      duplicateOf: event.duplicateOf ?? null,
      actions,
    },
  };
}

const iso = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(ms).toISOString();

function deliveryReceipt(
  run: RunRecord,
  delivery: DeliveryRecord | undefined,
  full: boolean,
): ({ status: string } & Record<string, unknown>) | null {
  const status = deliveryStatus(run, delivery);
  if (status === undefined) return null;
  // The target of a reply without a route is no recipient.
  const route =
    status === NO_ROUTE
      ? undefined
      : (delivery?.route ?? (run.route?.status === "route" ? run.route.route : undefined));
  const reason =
    run.route && run.route.status !== "route"
      ? { code: run.route.status, message: run.route.reason }
      : null;
  const receipt = {
    status,
    channel: route?.channel ?? null,
    messageIds: delivery?.messageIds ?? [],
    error: delivery?.error ?? reason,
  };
  return full ? { ...receipt, to: route?.to ?? null } : receipt;
}

/** The usage that a sender may know: what it has cost is for the operator. */
const toCountedTokens = ({ inputTokens, outputTokens, totalTokens }: Usage): Usage => ({
  ...(inputTokens !== undefined && { inputTokens }),
  ...(outputTokens !== undefined && { outputTokens }),
  ...(totalTokens !== undefined && { totalTokens }),
});

/** A run as its sender may know it; `reply` only if `hooks.receipts` is "full". */
export type RunReceipt = ReturnType<typeof runReceipt>;

/** `GET {base}/runs/{id}`, and what a callback carries. `full` false leaves the reply and the recipient out. */
export function runReceipt(run: RunRecord, delivery: DeliveryRecord | undefined, full: boolean) {
  const receipt = {
    id: run.id,
    status: run.status,
    agentId: run.spec.session.agentId,
    sessionKey: run.spec.session.key,
    model: run.model ?? getOwnModel(run) ?? null,
    name: run.spec.name,
    // The provider's words are for the operator.
    error: run.error ? { code: run.error.code, message: run.error.message } : null,
    warnings: run.warnings,
    usage: run.usage ? toCountedTokens(run.usage) : null,
    attempts: run.attempts,
    delivery: deliveryReceipt(run, delivery, full),
    createdAt: iso(run.createdAt),
    startedAt: iso(run.startedAt),
    endedAt: iso(run.endedAt),
  };
  return full ? { ...receipt, reply: run.reply ?? null } : receipt;
}

const findDelivery = async (
  { deliveryId }: RunRecord,
  store: Reads,
): Promise<DeliveryRecord | undefined> =>
  deliveryId === undefined ? undefined : store.deliveries.get(deliveryId);

/** Creates what tells senders what became of their events. */
export function createReceipts({ store, runEnds }: { store: Reads; runEnds: RunEnds }) {
  const render = async (run: RunRecord, full: boolean): Promise<RunReceipt> =>
    runReceipt(run, await findDelivery(run, store), full);
  return {
    /**
     * Finds a receipt, and the name of the credential by which its event came in: whoever has that may read it. Undefined if there
     * is no event, or no run, with this id. `full` adds a run's reply and recipient.
     */
    async find(kind: "events" | "runs", id: string, full: boolean) {
      if (kind === "events") {
        const event = await store.events.get(id);
        return event && { credential: event.credential, render: () => eventReceipt(store, event) };
      }
      const run = await store.runs.get(id);
      const event = run?.eventId ? await store.events.get(run.eventId) : undefined;
      return (
        run && {
          credential: event?.credential,
          render: async () => ({ ok: true, run: await render(run, full) }),
        }
      );
    },
    /** Returns a run that has ended; undefined if it has not within `ms`. */
    async wait(runId: string, ms: number, full: boolean): Promise<RunReceipt | undefined> {
      await runEnds.wait(runId, ms);
      const run = await store.runs.get(runId);
      return run?.endedAt === undefined ? undefined : render(run, full);
    },
  };
}
