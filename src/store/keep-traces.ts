import type { TraceContext, Traces } from "../core/trace-context.ts";
import type {
  EventRecord,
  NewDelivery,
  NewSystemEvent,
  RunChange,
  RunRecord,
  RunSpec,
  Store,
  StoredAction,
  Writes,
} from "./types.ts";

const stampSpec = (spec: RunSpec, trace: TraceContext): RunSpec =>
  spec.trace ? spec : { ...spec, trace };

function stampAction(action: StoredAction, trace: TraceContext): StoredAction {
  if (action.kind === "wake") return { ...action, trace };
  const { spec, collect } = action;
  return {
    ...action,
    spec: stampSpec(spec, trace),
    ...(collect && { collect: { ...collect, event: { ...collect.event, trace } } }),
  };
}

const stampEvent = (event: EventRecord, trace: TraceContext): EventRecord => ({
  ...event,
  trace,
  actions: event.actions.map((action) => stampAction(action, trace)),
});

/** Adds the trace to runs, deliveries and system events as they are written. */
function stamping(tx: Writes, trace: TraceContext): Writes {
  return {
    ...tx,
    add(kind, ...of) {
      const [record, ...rest] = of as [RunRecord | NewDelivery | NewSystemEvent, ...unknown[]];
      let stamped: unknown = record;
      if (kind === "run")
        stamped = { ...record, spec: stampSpec((record as RunRecord).spec, trace) };
      else if (kind === "delivery" || kind === "systemEvent") stamped = { ...record, trace };
      tx.add(kind, ...([stamped, ...rest] as typeof of));
    },
    update(kind, ...of) {
      const [id, change, ...rest] = of as [string, RunChange, ...unknown[]];
      const stamped =
        kind === "run" && change.spec ? { ...change, spec: stampSpec(change.spec, trace) } : change;
      tx.update(kind, ...([id, stamped, ...rest] as typeof of));
    },
  };
}

/** The same store; events, runs, deliveries and system events keep the span that is active when they are written, and so carry the trace on. */
export function keepTraces(store: Store, { current }: Traces): Store {
  return {
    ...store,
    accept(event, keys, fencingToken) {
      const trace = current();
      return store.accept(trace ? stampEvent(event, trace) : event, keys, fencingToken);
    },
    commit(write, held) {
      const trace = current();
      return store.commit(trace ? (tx) => write(stamping(tx, trace)) : write, held);
    },
  };
}
