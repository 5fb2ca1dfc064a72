import type { SharedValues } from "../contract/channel.ts";
import { addLogFields } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { keptCursor } from "../store/cursor.ts";
import { keepTraces } from "../store/keep-traces.ts";
import { getBodiesOverdue } from "../store/sweeper.ts";
import type { FencingToken, StoreDriver } from "../store/types.ts";
import { openTraces } from "../telemetry/open.ts";
import { reportingStore, type Reporter } from "./library.ts";
import type { LoadedSnapshot, SnapshotOptions } from "./snapshot.ts";

interface StoreContext {
  driver: StoreDriver;
  url: string;
  options: Pick<SnapshotOptions, "env" | "clock" | "log"> & { reporter?: Reporter };
  metrics: Metrics;
  snapshot(): LoadedSnapshot["snapshot"];
  opened: AsyncDisposableStack;
}

/** Opens the store, with all that hears of its commits: traces, metrics and the program around the gateway. The caller closes it. */
export async function openGatewayStore({
  driver,
  url,
  options: { env, clock, log, reporter },
  metrics,
  snapshot,
  opened,
}: StoreContext) {
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
    /** The values of plugins that all gateways on one database see; undefined if this gateway is the only one. */
    sharedValues: driver.shared ? sharedValues : undefined,
    /** Creates the place of a plugin's service. */
    createCursor: (service: string, fencingToken: FencingToken | undefined) =>
      keptCursor(store, `service.cursor:${service}`, fencingToken),
  };
}
