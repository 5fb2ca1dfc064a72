import type { TraceContext, Traces } from "../core/http/trace-context.ts";
import type { EventRecord, RunRecord, RunSpec, Store, StoredAction, Writes } from "./types.ts";

const stampSpec = <S extends RunSpec>(spec: S, trace: TraceContext): S =>
  spec.trace ? spec : { ...spec, trace };

const stampRun = <R extends Pick<RunRecord, "spec">>(run: R, trace: TraceContext): R => ({
  ...run,
  spec: stampSpec(run.spec, trace),
});

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
const stamping = (tx: Writes, trace: TraceContext): Writes => ({
  ...tx,
  runs: {
    ...tx.runs,
    add: (run) => tx.runs.add(stampRun(run, trace)),
    update: (id, change, expected) =>
      tx.runs.update(
        id,
        change.spec ? { ...change, spec: stampSpec(change.spec, trace) } : change,
        expected,
      ),
  },
  deliveries: {
    ...tx.deliveries,
    add: (delivery) => tx.deliveries.add({ ...delivery, trace }),
  },
  systemEvents: { ...tx.systemEvents, add: (event) => tx.systemEvents.add({ ...event, trace }) },
});

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
