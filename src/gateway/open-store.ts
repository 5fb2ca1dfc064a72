import type { Cursor, SharedValues } from "../contract/channel.ts";
import { addLogFields } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { keptCursor } from "../store/cursor.ts";
import { keepTraces } from "../store/keep-traces.ts";
import { getBodiesOverdue } from "../store/sweeper.ts";
import type { FencingToken, StoreDriver, StoreHandle } from "../store/types.ts";
import { openTraces } from "../telemetry/open.ts";
import { reportingStore, type Reporter } from "./library.ts";
import type { LoadedSnapshot, SnapshotOptions } from "./snapshot.ts";

type Traces = Awaited<ReturnType<typeof openTraces>>;

interface StoreContext {
  driver: StoreDriver;
  url: string;
  options: Pick<SnapshotOptions, "env" | "clock" | "log"> & { reporter?: Reporter };
  metrics: Metrics;
  snapshot(): LoadedSnapshot["snapshot"];
  opened: AsyncDisposableStack;
}

/** The store, and what the gateway adds to it. */
interface OpenedStore extends StoreHandle {
  traces: Traces;
  /** The values of plugins that all gateways on one database see; undefined if this gateway is the only one. */
  sharedValues: SharedValues | undefined;
  /** The place of a plugin's service. */
  createCursor(service: string, fencingToken: FencingToken | undefined): Cursor;
}

/** Opens the store, with all that hears of its commits: traces, metrics and the program around the gateway. The caller closes it. */
export async function openGatewayStore({
  driver,
  url,
  options: { env, clock, log, reporter },
  metrics,
  snapshot,
  opened,
}: StoreContext): Promise<OpenedStore> {
  const handle = await driver.open({ url, env, clock, log });
  const traces = await openTraces(snapshot().config, { clock, log });
  opened.defer(() => traces.close());
  if (traces.isOn) addLogFields(log, traces.ids);
  const traced = traces.isOn ? keepTraces(handle.store, traces) : handle.store;
  const store = reporter ? reportingStore(traced, reporter) : traced;
  metrics.watchCounts(() => store.counts());
  metrics.watchBodies(() =>
    getBodiesOverdue(store, clock.now(), snapshot().config.hooks.retention),
  );
  const sharedValues: SharedValues = {
    get: (key) => store.values.get(key),
    set: async (key, value) => void (await store.commit((tx) => tx.values.set(key, value))),
  };
  return {
    ...handle,
    store,
    traces,
    sharedValues: driver.shared ? sharedValues : undefined,
    createCursor: (service, fencingToken) =>
      keptCursor(store, `service.cursor:${service}`, fencingToken),
  };
}
