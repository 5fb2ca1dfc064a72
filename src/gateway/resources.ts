import { ensureState, stateSecret } from "../config/state.ts";
import { systemClock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import { createLogger, type Logger } from "../core/log.ts";
import { createMetrics, type Metrics } from "../core/metrics.ts";
import type { Snapshot } from "../http/types.ts";
import { createTransformPool } from "../mapping/pool.ts";
import { createReloader, type Reloader } from "./reload.ts";
import { buildSnapshot, type LoadedSnapshot } from "./snapshot.ts";
import { acquireLock, type Lock } from "../store/lock.ts";
import { isShared, openStore, storeUrl } from "../store/open.ts";
import type { CommonValues, Cursor } from "../plugin/api.ts";
import { keptCursor } from "../store/cursor.ts";
import type { Fence, StoreHandle } from "../store/types.ts";

export interface GatewayOptions {
  /** Path of the config file; undefined looks in the usual places (see `config/load.ts`). */
  configFile?: string;
  cwd: string;
  env: Record<string, string | undefined>;
  /** False: accepts and runs nothing. */
  workers: boolean;
  /** Overrides of the config, from flags. */
  port?: number;
  host?: string;
  print?: (text: string) => void;
  log?: Logger;
}

/** What stands for as long as the gateway does. */
export interface Resources extends StoreHandle {
  options: GatewayOptions;
  log: Logger;
  metrics: Metrics;
  lock: Lock;
  reloader: Reloader;
  operatorToken: string;
  stateDir: string;
  snapshot(): Snapshot;
  /** The place of a plugin's service. */
  cursorOf(service: string, fence: Fence | undefined): Cursor;
  /** Called with each snapshot that takes another's place. */
  swapped: ((loaded: LoadedSnapshot) => void)[];
  /** Aborts when the gateway stops. */
  ended: AbortController;
  /** What has to be closed, in reverse order of its making. */
  opened: AsyncDisposableStack;
}

function configInvalid({ issues, file }: Extract<Awaited<ReturnType<typeof buildSnapshot>>, { ok: false }>): RouseError {
  const where = file === undefined ? "" : ` ${file}`;
  const message = `the config${where} has ${issues.length} problem${issues.length === 1 ? "" : "s"}`;
  return new RouseError({ code: "config_invalid", message, issues });
}

/** Builds the first snapshot, takes the lock and opens the store. Whatever was opened is in `opened`, also on an error. */
export async function openResources(options: GatewayOptions, opened: AsyncDisposableStack): Promise<Resources> {
  const clock = systemClock;
  const print = options.print ?? ((text: string) => void process.stdout.write(text));
  const log = options.log ?? createLogger((options.env["ROUSE_LOG_LEVEL"] as "info" | undefined) ?? "info");
  const metrics = createMetrics();
  opened.defer(() => metrics.close());
  const pool = createTransformPool({ log });
  opened.defer(() => pool.close());
  let shared: CommonValues | undefined;
  const common = (): CommonValues | undefined => shared;
  const build = () => buildSnapshot({ ...options, clock, log, pool, print, common });
  const first = await build();
  if (!first.ok) throw configInvalid(first);
  const ended = new AbortController();
  const applySettings = ({ snapshot }: LoadedSnapshot): void => {
    metrics.setPaths(snapshot.mappings.paths.map((rules) => rules.path));
    if (options.log === undefined && options.env["ROUSE_LOG_LEVEL"] === undefined) log.level = snapshot.config.log.level;
  };
  const { stateDir, snapshot: firstSnapshot } = first.loaded;
  applySettings(first.loaded);
  await ensureState(stateDir);
  const url = storeUrl(firstSnapshot.config.store.url, stateDir);
  const lock = await acquireLock(stateDir, undefined, { shared: isShared(url) }).catch(async (error: unknown) => {
    await first.loaded.dispose();
    throw error;
  });
  opened.defer(() => lock.release());
  const keptToken = await stateSecret(stateDir, "hook-token");
  const swapped: Resources["swapped"] = [];
  const onSwap = (loaded: LoadedSnapshot): void => {
    // Children may hold modules, or what these import, as they were.
    pool.recycle();
    applySettings(loaded);
    for (const listener of swapped) listener(loaded);
  };
  const reloader = createReloader({ first: first.loaded, build, keptToken, clock, log, signal: ended.signal, onSwap });
  const handle = await openStore({ url, clock, log }).catch(async (error: unknown) => {
    await reloader.close();
    throw error;
  });
  opened.defer(() => handle.store.close());
  if (isShared(url)) {
    shared = {
      get: (key) => handle.store.getValue(key),
      set: async (key, value) => void (await handle.store.commit((tx) => tx.setValue(key, value))),
    };
  }
  opened.defer(() => reloader.close());
  metrics.watchCounts(() => handle.store.counts());
  const operatorToken = firstSnapshot.config.gateway.token ?? (await stateSecret(stateDir, "gateway-token"));
  return {
    ...handle,
    options,
    log,
    metrics,
    lock,
    reloader,
    operatorToken,
    stateDir,
    snapshot: () => reloader.loaded().snapshot,
    cursorOf: (service, fence) => keptCursor(handle.store, `service.cursor:${service}`, fence),
    swapped,
    ended,
    opened,
  };
}
