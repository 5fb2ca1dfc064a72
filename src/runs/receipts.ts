import {
  deliveryState,
  NO_ROUTE,
  type DeliveryRecord,
  type EventRecord,
  type RunRecord,
  type Store,
  type Usage,
} from "../store/types.ts";

/** A receipt, and the name of the credential by which its event came in: whoever has that may read it. */
interface ReadableReceipt {
  credential: string | undefined;
  render(): Promise<object>;
}

/** How a run has ended, for a caller that waits for it. */
interface RunSummary {
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
async function eventReceipt(store: Pick<Store, "get">, event: EventRecord): Promise<object> {
  const actions = await Promise.all(
    event.actions.map(async (action) => {
      const mapping = action.mapping ?? null;
      if (action.kind === "wake")
        return { kind: "wake", systemEventId: action.systemEventId, mapping, status: "accepted" };
      const run = await store.get("run", action.runId);
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
): object | null {
  const status = deliveryStatus(run, delivery);
  if (status === undefined) return null;
  // What a reply without a route asked for is no recipient.
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

/** What a sender may know of a run's usage: what it has cost is for the operator. */
const toCountedTokens = ({ inputTokens, outputTokens, totalTokens }: Usage): Usage => ({
  ...(inputTokens !== undefined && { inputTokens }),
  ...(outputTokens !== undefined && { outputTokens }),
  ...(totalTokens !== undefined && { totalTokens }),
});

/** `GET {base}/runs/{id}`. `full` false leaves the reply and the recipient out (`hooks.receipts: "status"`). */
async function runReceipt(
  store: Pick<Store, "get">,
  run: RunRecord,
  full: boolean,
): Promise<object> {
  return buildReceipt(
    run,
    run.deliveryId === undefined ? undefined : await store.get("delivery", run.deliveryId),
    full,
  );
}

/** The receipt of a run with its delivery as it is. */
export function buildReceipt(
  run: RunRecord,
  delivery: DeliveryRecord | undefined,
  full: boolean,
): object {
  const receipt = {
    id: run.id,
    status: run.status,
    agentId: run.spec.session.agentId,
    sessionKey: run.spec.session.key,
    model: run.model ?? run.spec.model ?? null,
    name: run.spec.name,
    // What the provider said is for the operator.
    error: run.error ? { code: run.error.code, message: run.error.message } : null,
    warnings: run.warnings,
    usage: run.usage ? toCountedTokens(run.usage) : null,
    attempts: run.attempts,
    delivery: deliveryReceipt(run, delivery, full),
    createdAt: iso(run.createdAt),
    startedAt: iso(run.startedAt),
    endedAt: iso(run.endedAt),
  };
  return { ok: true, run: full ? { ...receipt, reply: run.reply ?? null } : receipt };
}
