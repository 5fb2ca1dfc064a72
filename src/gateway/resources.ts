import { NO_TRACES } from "../core/http/trace-context.ts";
import { createMetrics } from "../core/metrics.ts";
import type { IntakeDeps } from "../intake/context.ts";
import { createTransformPool, type TransformPool } from "../mapping/transforms/pool.ts";
import { createConfigLog, type ConfigLog } from "../operate/records/config-log.ts";
import type { Progress } from "../operate/status.ts";
import type { PartContext } from "../store/context.ts";
import type { Reporter } from "./library.ts";
import { openGatewayStore } from "./open-store.ts";
import { createReloader, type Reloader } from "./reload.ts";
import {
  buildFirst,
  buildSnapshot,
  type BuildResult,
  type LoadedSnapshot,
  type SnapshotOptions,
} from "./snapshot.ts";
import { takeStateFolder } from "./state-folder.ts";
import type { ListenAddress } from "./types.ts";

type Snapshot = LoadedSnapshot["snapshot"];
type OpenedStore = Awaited<ReturnType<typeof openGatewayStore>>;
type StateFolder = Awaited<ReturnType<typeof takeStateFolder>>;

export interface ResourceOptions extends Omit<
  SnapshotOptions,
  "pool" | "sharedValues" | "traces" | "withoutSecrets"
> {
  /** Applies `log.level` of the config to `log`; absent if the level is none of the config's business. */
  setLogLevel?(level: Snapshot["config"]["log"]["level"]): void;
  /** Hears of what is recorded and of what ends. */
  reporter?: Reporter;
  recorded?: IntakeDeps["options"]["recorded"];
}

/** The parts that stand for as long as the gateway does. */
export interface Resources
  extends PartContext, Pick<OpenedStore, "createCursor">, Pick<StateFolder, "lock" | "localToken"> {
  options: ResourceOptions;
  reloader: Reloader;
  configs: ConfigLog;
  progress: Progress;
  operatorToken: string;
  snapshot(): Snapshot;
  /** Builds a snapshot from the files, with `texts` in place of some. `pool`: what runs its code apart from that of live hooks. */
  build(change?: Pick<SnapshotOptions, "texts"> & { pool?: TransformPool }): Promise<BuildResult>;
  /** Sets an address in place of that of the config, from now on. */
  setAddress(address: ListenAddress): void;
  /** Called with each snapshot that takes another's place. */
  swapped: ((loaded: LoadedSnapshot) => void)[];
}

/**
 * Builds the first snapshot, takes the state folder and opens the store. Whatever was opened is in `opened`, also on an error.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function openResources(
  options: ResourceOptions,
  opened: AsyncDisposableStack,
): Promise<Resources> {
  const { clock, log, env } = options;
  const metrics = opened.adopt(createMetrics(), (made) => made.close());
  const pool = opened.adopt(createTransformPool(env), (made) => made.close());
  /** In place of that of the config. */
  const address: ListenAddress = {};
  let records: OpenedStore | undefined;
  const parts = {
    pool,
    sharedValues: () => records?.sharedValues,
    traces: () => records?.traces ?? NO_TRACES,
  };
  const build: Resources["build"] = (change) =>
    buildSnapshot({ ...options, ...address, ...parts, ...change });
  const first = await buildFirst(build);
  const applySettings = ({ mappings, config }: Snapshot): void => {
    metrics.setPaths(mappings.paths.map((rules) => rules.path));
    options.setLogLevel?.(config.log.level);
  };
  applySettings(first.snapshot);
  const state = await takeStateFolder(first, opened, clock).catch(async (error: unknown) => {
    await first.dispose();
    throw error;
  });
  const { lock, localToken, keptToken, driver, url, sql } = state;
  const ended = new AbortController();
  const swapped: Resources["swapped"] = [];
  const reloader = createReloader({
    first,
    build,
    keptToken,
    clock,
    log,
    signal: ended.signal,
    onSwap(loaded) {
      // Children may hold modules, or what these import, as they were.
      pool.recycle();
      applySettings(loaded.snapshot);
      for (const listener of swapped) listener(loaded);
    },
  });
  const { snapshot } = reloader;
  opened.defer(() => records?.store.close());
  opened.defer(() => reloader.close());
  records = await openGatewayStore({ driver, url, options, metrics, snapshot, opened });
  const configs = createConfigLog({ store: records.store, clock, log, snapshot });
  swapped.push(() => void configs.use());
  return {
    ...records,
    configs,
    progress: { startedAt: clock.now(), url: undefined, workers: false, draining: false },
    options,
    clock,
    log,
    metrics,
    lock,
    reloader,
    operatorToken: snapshot().config.gateway.token ?? localToken,
    localToken,
    stateDir: first.stateDir,
    sql,
    snapshot,
    build,
    setAddress({ host, port }) {
      // A host that is undefined would be every address of the machine.
      Object.assign(address, host !== undefined && { host }, port !== undefined && { port });
      Object.assign(snapshot().config.gateway, address);
    },
    swapped,
    ended,
    opened,
  };
}
