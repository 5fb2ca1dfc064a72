import { join } from "node:path";
import { reviveEvent } from "./actions/revive.ts";
import { createRunEnds, type RunEnds } from "./actions/run-ends.ts";
import { createTurnWorker, type TurnWorker } from "./actions/worker.ts";
import { ensureState, stateSecret } from "./config/state.ts";
import { systemClock } from "./core/clock.ts";
import { RouseError } from "./core/errors.ts";
import { createLogger, type Logger } from "./core/log.ts";
import { createMetrics, type Metrics } from "./core/metrics.ts";
import { VERSION } from "./core/version.ts";
import { createDeliveryWorker, type DeliveryWorker } from "./delivery/deliver.ts";
import { createApps, type Apps } from "./http/app.ts";
import { createHooks } from "./http/hooks.ts";
import { listen } from "./http/listen.ts";
import type { Gateway, GatewayStatus, Snapshot } from "./http/types.ts";
import { createTransformPool } from "./mapping/pool.ts";
import { createServices, type Services } from "./plugin/services.ts";
import { createReloader, type Reloader } from "./reload.ts";
import { createHeartbeat, type Heartbeat } from "./sessions/heartbeat.ts";
import { buildSnapshot, type Built } from "./snapshot.ts";
import { acquireLock, type Lock } from "./store/lock.ts";
import { openStore } from "./store/open.ts";
import { sweepRegularly } from "./store/sweeper.ts";
import type { StoreHandle } from "./store/types.ts";

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
interface Ground extends StoreHandle {
  options: GatewayOptions;
  log: Logger;
  metrics: Metrics;
  lock: Lock;
  reloader: Reloader;
  operatorToken: string;
  snapshot(): Snapshot;
  /** Called with each snapshot that takes another's place. */
  swapped: ((built: Built) => void)[];
  /** Aborts when the gateway stops. */
  ended: AbortController;
  /** What has to be closed, in reverse order of its making. */
  opened: AsyncDisposableStack;
}

/** What carries accepted work out. */
interface Work {
  heartbeat: Heartbeat;
  deliveries: DeliveryWorker;
  turns: TurnWorker;
  runEnds: RunEnds;
}

function configInvalid({ issues, file }: Extract<Awaited<ReturnType<typeof buildSnapshot>>, { ok: false }>): RouseError {
  const where = file === undefined ? "" : ` ${file}`;
  const message = `the config${where} has ${issues.length} problem${issues.length === 1 ? "" : "s"}`;
  return new RouseError({ code: "config_invalid", message, issues });
}

/** Builds the first snapshot, takes the lock and opens the store. Whatever was opened is in `opened`, also on an error. */
async function layGround(options: GatewayOptions, opened: AsyncDisposableStack): Promise<Ground> {
  const clock = systemClock;
  const print = options.print ?? ((text: string) => void process.stdout.write(text));
  const log = options.log ?? createLogger((options.env["ROUSE_LOG_LEVEL"] as "info" | undefined) ?? "info");
  const metrics = createMetrics();
  opened.defer(() => metrics.close());
  const pool = createTransformPool({ log });
  opened.defer(() => pool.close());
  const build = () => buildSnapshot({ ...options, clock, log, pool, print });
  const first = await build();
  if (!first.ok) throw configInvalid(first);
  const ended = new AbortController();
  const applySettings = ({ snapshot }: Built): void => {
    metrics.setPaths(snapshot.mappings.paths.map((rules) => rules.path));
    if (options.log === undefined && options.env["ROUSE_LOG_LEVEL"] === undefined) log.level = snapshot.config.log.level;
  };
  const { stateDir, snapshot: firstSnapshot } = first.built;
  applySettings(first.built);
  await ensureState(stateDir);
  const lock = await acquireLock(stateDir).catch(async (error: unknown) => {
    await first.built.dispose();
    throw error;
  });
  opened.defer(() => lock.release());
  const keptToken = await stateSecret(stateDir, "hook-token");
  const swapped: Ground["swapped"] = [];
  const onSwap = (built: Built): void => {
    // Children may hold modules, or what these import, as they were.
    pool.recycle();
    applySettings(built);
    for (const listener of swapped) listener(built);
  };
  const reloader = createReloader({ first: first.built, build, keptToken, clock, log, signal: ended.signal, onSwap });
  const handle = await openStore({ url: firstSnapshot.config.store.url ?? `sqlite:${join(stateDir, "rouse.db")}`, clock, log }).catch(
    async (error: unknown) => {
      await reloader.close();
      throw error;
    },
  );
  opened.defer(() => handle.store.close());
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
    snapshot: () => reloader.built().snapshot,
    swapped,
    ended,
    opened,
  };
}

function createWork({ store, queue, log, metrics, snapshot, ended }: Ground): Work {
  const clock = systemClock;
  const heartbeat = createHeartbeat({
    store,
    clock,
    log,
    settings: () => ({ agentId: snapshot().agents.standard.id, everyMs: snapshot().config.agents.defaults.heartbeat.every }),
  });
  const deliveries = createDeliveryWorker({
    store,
    queue,
    channels: () => snapshot().channels,
    maxAgeMs: () => snapshot().config.delivery.maxAge,
    clock,
    log,
    onOutcome: ({ channel, status }) => metrics.deliveryEnded({ channel, status }),
  });
  const runEnds = createRunEnds({ store, clock, signal: ended.signal });
  const turns = createTurnWorker({ store, queue, clock, log, context: snapshot, heartbeat, onRunEnd: runEnds.ended, metrics });
  return { heartbeat, deliveries, turns, runEnds };
}

function createSurface(ground: Ground, work: Work, services: Services, status: () => GatewayStatus): Apps {
  const { store, queue, log, metrics, snapshot, reloader, operatorToken } = ground;
  const { turns, deliveries, runEnds } = work;
  const hookTokens = ({ config }: Snapshot): readonly string[] => [config.hooks.token ?? reloader.keptToken()].flat();
  const draining = (): boolean => status().draining;
  const hooks = createHooks({
    store,
    clock: systemClock,
    log,
    metrics,
    snapshot,
    hookTokens,
    draining,
    revive: (record) => reviveEvent(record, { store, restart: turns.restart, retryDelivery: deliveries.retry }),
    waitForRun: runEnds.wait,
  });
  const admin = {
    store,
    queue,
    snapshot,
    status,
    refusals: hooks.refusals,
    signatures: hooks.signatures,
    runs: turns,
    replay: hooks.replay,
    retryDelivery: deliveries.retry,
    reload: reloader.reload,
    metrics: metrics.render,
  };
  const serviceRequest = services.request;
  return createApps({ admin, hooks, store, clock: systemClock, log, snapshot, operatorToken, ready: () => !draining(), serviceRequest });
}

/** Posts to a hook of this gateway, as a caller with the hook token would. */
async function postHook(
  { snapshot, reloader }: Ground,
  apps: Apps,
  path: string,
  body: unknown,
): Promise<{ status: number; body: unknown }> {
  const { hooks } = snapshot().config;
  const token = [hooks.token ?? reloader.keptToken()].flat()[0] ?? "";
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const request = new Request(`http://localhost${hooks.path}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await apps.main.fetch(request);
  return { status: response.status, body: await response.json().catch(() => undefined) };
}

async function startWork(ground: Ground, { heartbeat, turns, deliveries }: Work, services: Services): Promise<void> {
  const { store, log, snapshot, ended, reloader, swapped } = ground;
  await services.replace(reloader.built().services);
  swapped.push((built) => void services.replace(built.services));
  store.onSystemEvents((_agentId, mode) => {
    if (mode === "now") heartbeat.request();
  });
  turns.start();
  deliveries.start();
  await heartbeat.start();
  const settings = () => ({ bodies: snapshot().config.hooks.retention, ...snapshot().config.store.retention });
  void sweepRegularly({ store, clock: systemClock, log, settings, signal: ended.signal });
}

/**
 * The composition root: builds every part and hands each what it needs.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const opened = new AsyncDisposableStack();
  const ground = await layGround(options, opened).catch(async (error: unknown) => {
    await opened.disposeAsync();
    throw error;
  });
  const { log, queue, lock, reloader, snapshot, ended, operatorToken } = ground;
  const startedAt = systemClock.now();
  let url: string | undefined;
  let draining = false;
  const status = (): GatewayStatus => ({
    version: VERSION,
    pid: process.pid,
    startedAt,
    url,
    workers: options.workers,
    draining,
    snapshot: snapshot().hash,
    configFile: snapshot().configFile,
    stateDir: reloader.built().stateDir,
    reloadProblems: reloader.problems(),
    warnings: snapshot().warnings,
    services: services.states(),
  });
  const work = createWork(ground);
  const services = createServices({ gateway: { hook: (path, body) => postHook(ground, apps, path, body) }, clock: systemClock, log });
  const apps = createSurface(ground, work, services, status);

  const serve = async (app: Apps["main"], port: number): Promise<string> => {
    const listener = await listen((request, env) => app.fetch(request, env), { host: snapshot().config.gateway.host, port });
    opened.defer(() => listener.close());
    return listener.url;
  };

  return {
    operatorToken,
    status,
    reload: reloader.reload,
    fetch: async (request) => (new URL(request.url).pathname.startsWith("/admin/") ? apps.admin : apps.main).fetch(request),
    async start() {
      await queue.recover();
      const { adminPort, port } = snapshot().config.gateway;
      url = await serve(apps.main, port);
      const adminUrl = adminPort === undefined ? url : await serve(apps.admin, adminPort);
      await lock.describe({ pid: process.pid, url, adminUrl, startedAt, version: VERSION });
      reloader.watch();
      if (options.workers) await startWork(ground, work, services);
      for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
      log.info({ url, workers: options.workers, version: VERSION }, "the gateway is ready");
      return { url, adminUrl };
    },
    async stop() {
      draining = true;
      await services.close();
      await work.heartbeat.stop();
      await work.turns.stop(snapshot().config.gateway.drainSeconds * 1000);
      await work.deliveries.stop();
      ended.abort();
      await opened.disposeAsync();
      log.info("the gateway has stopped");
    },
  };
}
