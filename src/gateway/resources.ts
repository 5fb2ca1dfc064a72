import type { Config } from "../config/schema/index.ts";
import { ensureState, stateSecret } from "../config/state.ts";
import { RouseError } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import type { Clock } from "../core/clock.ts";
import { addLogFields } from "../core/log.ts";
import { NO_TRACES, type Traces } from "../core/http/trace-context.ts";
import { createMetrics, type Metrics } from "../core/metrics.ts";
import type { IntakeDeps } from "../intake/context.ts";
import type { Snapshot } from "../intake/types.ts";
import { createTransformPool, type TransformPool } from "../mapping/transforms/pool.ts";
import { reportingStore, type Reporter } from "./library.ts";
import { createConfigLog, type ConfigLog } from "../operate/records/config-log.ts";
import { createReloader, type Reloader } from "./reload.ts";
import type { ListenAddress } from "./types.ts";
import { getBodiesOverdue } from "../store/sweeper.ts";
import {
  buildSnapshot,
  type BuildResult,
  type LoadedSnapshot,
  type SnapshotOptions,
} from "./snapshot.ts";
import type { Progress } from "../operate/status.ts";
import { removeUnfinishedSaves } from "../operate/edits/user-files.ts";
import { acquireLock, type Lock } from "../store/lock.ts";
import { findStoreDriver, getSqlSource, storeUrl } from "../store/open.ts";
import type { Cursor, SharedValues } from "../contract/channel.ts";
import { keepTraces } from "../store/keep-traces.ts";
import { keptCursor } from "../store/cursor.ts";
import { openTraces } from "../telemetry/open.ts";
import type { PartContext } from "../store/context.ts";
import type { FencingToken, Store, StoreDriver, StoreHandle } from "../store/types.ts";
import { plural } from "../core/text.ts";

export interface ResourceOptions extends Omit<
  SnapshotOptions,
  "pool" | "sharedValues" | "traces" | "withoutSecrets"
> {
  /** Applies `log.level` of the config to `log`; absent if the level is none of the config's business. */
  setLogLevel?(level: Config["log"]["level"]): void;
  /** Hears of what is recorded and of what ends. */
  reporter?: Reporter;
  recorded?: IntakeDeps["options"]["recorded"];
}

/** What stands for as long as the gateway does. */
export interface Resources extends PartContext {
  options: ResourceOptions;
  lock: Lock;
  reloader: Reloader;
  configs: ConfigLog;
  progress: Progress;
  operatorToken: string;
  /** Kept in the state folder: commands on this machine show it, whatever `gateway.token` is and whoever can read it. */
  localToken: string;
  snapshot(): Snapshot;
  /** Builds a snapshot from the files, with `texts` in place of some. `pool`: what runs its code apart from that of live hooks. */
  build(change?: { texts: FileTexts; pool?: TransformPool }): Promise<BuildResult>;
  /** Sets an address in place of that of the config, from now on. */
  setAddress(address: ListenAddress): void;
  /** The place of a plugin's service. */
  createCursor(service: string, fencingToken: FencingToken | undefined): Cursor;
  /** Called with each snapshot that takes another's place. */
  swapped: ((loaded: LoadedSnapshot) => void)[];
}

function configInvalid({
  issues,
  file,
}: Extract<Awaited<ReturnType<typeof buildSnapshot>>, { ok: false }>): RouseError {
  const where = file === undefined ? "" : ` ${file}`;
  const message = `the config${where} has ${plural(issues.length, "problem")}`;
  return new RouseError({ code: "config_invalid", message, issues });
}

/** Finds the driver of the store and takes the lock of the state folder. Disposes of the snapshot on an error. */
async function takeStateFolder(
  url: string,
  { stateDir, dispose }: LoadedSnapshot,
): Promise<{ driver: StoreDriver; lock: Lock }> {
  try {
    const driver = await findStoreDriver(url);
    return { driver, lock: await acquireLock(stateDir, undefined, driver) };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Opens the store. Closes the reloader on an error. */
async function openStore(
  driver: StoreDriver,
  url: string,
  { env, clock, log }: ResourceOptions,
  reloader: Reloader,
): Promise<StoreHandle> {
  return driver.open({ url, env, clock, log }).catch(async (error: unknown) => {
    await reloader.close();
    throw error;
  });
}

/** Applies what a snapshot says about things that outlive it. */
function applySettings(
  { snapshot }: LoadedSnapshot,
  metrics: Metrics,
  options: ResourceOptions,
): void {
  metrics.setPaths(snapshot.mappings.paths.map((rules) => rules.path));
  options.setLogLevel?.(snapshot.config.log.level);
}

/** The values of plugins that all gateways on one database see. */
function createSharedValues(store: StoreHandle["store"]): SharedValues {
  return {
    get: (key) => store.values.get(key),
    set: async (key, value) => void (await store.commit((tx) => tx.values.set(key, value))),
  };
}

/** Opens what collects traces, if anything does, and lets the log name them. */
async function startTraces(
  { snapshot }: LoadedSnapshot,
  { clock, log }: ResourceOptions,
  opened: AsyncDisposableStack,
) {
  const traces = await openTraces(snapshot.config, { clock, log });
  opened.defer(() => traces.close());
  if (traces.isOn) addLogFields(log, traces.ids);
  return traces;
}

/** Adds to a store what hears of its commits. */
function wrapStore(store: Store, traces: Traces, reporter: Reporter | undefined): Store {
  const traced = traces.isOn ? keepTraces(store, traces) : store;
  return reporter ? reportingStore(traced, reporter) : traced;
}

/** Records each config that comes into use. */
function recordConfigs(
  store: Store,
  { clock, log }: ResourceOptions,
  { snapshot }: Reloader,
  swapped: Resources["swapped"],
): ConfigLog {
  const configs = createConfigLog({ store, clock, log, snapshot });
  swapped.push(() => void configs.use());
  return configs;
}

/** Lets metrics tell what the store holds. */
function watchStore(metrics: Metrics, store: Store, clock: Clock, reloader: Reloader): void {
  metrics.watchCounts(() => store.counts());
  metrics.watchBodies(() =>
    getBodiesOverdue(store, clock.now(), reloader.snapshot().config.hooks.retention),
  );
}

/** Sets what is given in `address`, which snapshots to come take, and in the current snapshot. */
function setAddress(
  { host, port }: ListenAddress,
  address: ListenAddress,
  { snapshot }: Reloader,
): void {
  // A host that is undefined would be every address of the machine.
  Object.assign(address, host !== undefined && { host }, port !== undefined && { port });
  Object.assign(snapshot().config.gateway, address);
}

/** Builds the first snapshot, takes the lock and opens the store. Whatever was opened is in `opened`, also on an error. */
export async function openResources(
  options: ResourceOptions,
  opened: AsyncDisposableStack,
): Promise<Resources> {
  const { clock, log, env } = options;
  const metrics = opened.adopt(createMetrics(), (made) => made.close());
  const pool = opened.adopt(createTransformPool({ log, env }), (made) => made.close());
  const address: ListenAddress = {};
  let shared: SharedValues | undefined;
  let traces = NO_TRACES;
  const parts = { pool, sharedValues: () => shared, traces: () => traces };
  const build: Resources["build"] = (change) =>
    buildSnapshot({ ...options, ...address, ...parts, ...change });
  const first = await build();
  if (!first.ok) throw configInvalid(first);
  const ended = new AbortController();
  const { stateDir, snapshot: firstSnapshot } = first.loaded;
  applySettings(first.loaded, metrics, options);
  await ensureState(stateDir);
  const url = storeUrl(firstSnapshot.config.store.url, stateDir);
  const { driver, lock } = await takeStateFolder(url, first.loaded);
  opened.defer(() => lock.release());
  await removeUnfinishedSaves({ ...firstSnapshot, hooks: firstSnapshot.config.hooks, stateDir });
  const keptToken = await stateSecret(stateDir, "hook-token");
  const swapped: Resources["swapped"] = [];
  const onSwap = (loaded: LoadedSnapshot): void => {
    // Children may hold modules, or what these import, as they were.
    pool.recycle();
    applySettings(loaded, metrics, options);
    for (const listener of swapped) listener(loaded);
  };
  const reloader = createReloader({
    first: first.loaded,
    build,
    keptToken,
    clock,
    log,
    signal: ended.signal,
    onSwap,
  });
  const handle = await openStore(driver, url, options, reloader);
  opened.defer(() => handle.store.close());
  opened.defer(() => reloader.close());
  traces = await startTraces(first.loaded, options, opened);
  const localToken = await stateSecret(stateDir, "gateway-token");
  const store = wrapStore(handle.store, traces, options.reporter);
  const configs = recordConfigs(store, options, reloader, swapped);
  if (driver.shared) shared = createSharedValues(store);
  watchStore(metrics, store, clock, reloader);
  return {
    ...handle,
    store,
    configs,
    progress: { startedAt: clock.now(), url: undefined, workers: false, draining: false },
    options,
    clock,
    log,
    metrics,
    traces,
    lock,
    reloader,
    operatorToken: firstSnapshot.config.gateway.token ?? localToken,
    localToken,
    stateDir,
    sql: getSqlSource(driver, url),
    snapshot: reloader.snapshot,
    build,
    setAddress: (given) => setAddress(given, address, reloader),
    createCursor: (service, fencingToken) =>
      keptCursor(store, `service.cursor:${service}`, fencingToken),
    swapped,
    ended,
    opened,
  };
}
