import {
  ENDED,
  deliveryState,
  type DeliveryRecord,
  type DeliveryStatus,
  type EventRecord,
  type RunRecord,
  type RunStatus,
  type Store,
  type Writes,
} from "../store/types.ts";
import type { EndedDelivery, EndedRun, GatewayEvents, RecordedEvent } from "./types.ts";

type Name = keyof GatewayEvents;
type Listener<N extends Name> = (event: GatewayEvents[N]) => void | Promise<void>;

/** What a gateway reports to the program that it runs in. */
export interface Reporter {
  /** Calls `listener` after each such event, until the returned function is called. */
  on<N extends Name>(name: N, listener: Listener<N>): () => void;
  /** Calls the listeners in a turn of the event loop of their own: one that throws or rejects is reported to `failed`. */
  emit<N extends Name>(name: N, event: GatewayEvents[N]): void;
  isHeard(name: Name): boolean;
}

/** Calls a listener; what it throws rejects. */
const call = async <N extends Name>(listener: Listener<N>, event: GatewayEvents[N]): Promise<void> => listener(event);

/** @param failed is called when a listener throws or rejects. It must not emit anything itself. */
export function createReporter(failed: (name: Name, error: unknown) => void): Reporter {
  const listeners = new Map<Name, Set<Listener<never>>>();
  return {
    on(name, listener) {
      const own: Listener<typeof name> = (event) => listener(event);
      const all = listeners.get(name) ?? new Set();
      listeners.set(name, all.add(own));
      return () => void all.delete(own);
    },
    emit(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        setImmediate(() => {
          void call(listener as Listener<Name>, event).catch((error: unknown) => failed(name, error));
        });
      }
    },
    isHeard: (name) => (listeners.get(name)?.size ?? 0) > 0,
  };
}

const toRecordedEvent = ({
  id,
  receivedAt,
  path,
  outcome,
  reason,
  mapping,
  duplicateOf,
  replayOf,
  actions,
}: EventRecord): RecordedEvent => ({
  id,
  receivedAt,
  path,
  outcome,
  reason,
  mapping,
  duplicateOf,
  replayOf,
  runIds: actions.flatMap((action) => (action.kind === "run" ? [action.runId] : [])),
});

const toEndedRun = ({ id, eventId, kind, mapping, status, spec, model, reply, error, startedAt, endedAt }: RunRecord): EndedRun => ({
  id,
  eventId,
  kind,
  mapping,
  status: status as EndedRun["status"],
  agentId: spec.session.agentId,
  sessionKey: spec.session.key,
  model,
  reply,
  error,
  startedAt,
  endedAt,
});

const toEndedDelivery = (delivery: DeliveryRecord): EndedDelivery => ({
  id: delivery.id,
  runId: delivery.runId,
  channel: delivery.route.channel,
  to: delivery.route.to,
  status: deliveryState(delivery) as EndedDelivery["status"],
  error: delivery.error,
});

/** What a commit ends. */
interface Ends {
  runs: Set<string>;
  deliveries: Set<string>;
}

/** Passes everything on to `tx`, and notes what ends by it. */
function noting(tx: Writes, { runs, deliveries }: Ends): Writes {
  const note = (kind: "run" | "delivery", id: string, status: RunStatus | DeliveryStatus | undefined): void => {
    if (status === undefined || status === "pending") return;
    if (kind === "delivery") deliveries.add(id);
    else if (ENDED.some((ended) => ended === status)) runs.add(id);
  };
  return {
    ...tx,
    add(kind, ...of) {
      const [record] = of as [{ id: string; status?: RunStatus; error?: unknown }];
      if (kind === "run") note("run", record.id, record.status);
      // A delivery that is added with an error has failed already.
      if (kind === "delivery") note("delivery", record.id, record.error === undefined ? "pending" : "failed");
      tx.add(kind, ...of);
    },
    update(kind, ...of) {
      const [id, change] = of as [string, { status?: RunStatus | DeliveryStatus }];
      if (kind === "run" || kind === "delivery") note(kind, id, change.status);
      tx.update(kind, ...of);
    },
  };
}

/** The same store, whose commits are reported once they are on disk. Without listeners, commits are not wrapped. */
export function reportingStore(store: Store, reporter: Reporter): Store {
  const report = async ({ runs, deliveries }: Ends): Promise<void> => {
    for (const id of runs) {
      const run = await store.get("run", id);
      if (run) reporter.emit("run.ended", toEndedRun(run));
    }
    for (const id of deliveries) {
      const delivery = await store.get("delivery", id);
      if (delivery) reporter.emit("delivery.ended", toEndedDelivery(delivery));
    }
  };
  return {
    ...store,
    async accept(event, keys, fencingToken) {
      const result = await store.accept(event, keys, fencingToken);
      if (result.kind === "accepted") reporter.emit("event.recorded", toRecordedEvent(event));
      return result;
    },
    async commit(write, held) {
      if (!reporter.isHeard("run.ended") && !reporter.isHeard("delivery.ended")) return store.commit(write, held);
      const ends: Ends = { runs: new Set(), deliveries: new Set() };
      const isCommitted = await store.commit((tx) => {
        // A commit that is tried again writes everything again.
        ends.runs.clear();
        ends.deliveries.clear();
        write(noting(tx, ends));
      }, held);
      // A store that closes meanwhile has nothing to report.
      if (isCommitted) void report(ends).catch(() => undefined);
      return isCommitted;
    },
  };
}
