import { ENDED, deliveryState, type DeliveryRecord, type EventRecord, type RunRecord, type Store, type Writes } from "../store/types.ts";
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
  const noted: Partial<Writes> = {
    insertRun(run) {
      if (ENDED.includes(run.status)) runs.add(run.id);
      tx.insertRun(run);
    },
    updateRun(id, change) {
      if (change.status !== undefined && ENDED.includes(change.status)) runs.add(id);
      tx.updateRun(id, change);
    },
    addDelivery(delivery) {
      if (delivery.error !== undefined) deliveries.add(delivery.id);
      tx.addDelivery(delivery);
    },
    updateDelivery(id, change) {
      if (change.status !== undefined && change.status !== "pending") deliveries.add(id);
      tx.updateDelivery(id, change);
    },
  };
  return new Proxy(tx, {
    get(target, name) {
      const own: unknown = Reflect.get(noted, name);
      const member: unknown = own ?? Reflect.get(target, name);
      return own === undefined && typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

/** The same store, whose commits are reported once they are on disk. Without listeners, commits are not wrapped. */
export function reportingStore(store: Store, reporter: Reporter): Store {
  const report = async ({ runs, deliveries }: Ends): Promise<void> => {
    for (const id of runs) {
      const run = await store.getRun(id);
      if (run) reporter.emit("run.ended", toEndedRun(run));
    }
    for (const id of deliveries) {
      const delivery = await store.getDelivery(id);
      if (delivery) reporter.emit("delivery.ended", toEndedDelivery(delivery));
    }
  };
  return {
    ...store,
    async accept(event, keys, fence) {
      const result = await store.accept(event, keys, fence);
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
