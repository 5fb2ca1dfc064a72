import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createTurnWorker } from "./actions/worker.ts";
import { ensureState, stateSecret } from "./config/state.ts";
import { watchFiles } from "./config/watch.ts";
import { systemClock } from "./core/clock.ts";
import { RouseError, safeError, type Issue } from "./core/errors.ts";
import { createLogger, type Logger } from "./core/log.ts";
import { createMetrics } from "./core/metrics.ts";
import { createDeliveryWorker } from "./delivery/deliver.ts";
import { createApps } from "./http/app.ts";
import { createHooks } from "./http/hooks.ts";
import type { AdminDeps, Gateway, GatewayStatus, Snapshot } from "./http/types.ts";
import { createTransformPool } from "./mapping/pool.ts";
import { createHeartbeat } from "./sessions/heartbeat.ts";
import { buildSnapshot, type Built } from "./snapshot.ts";
import { acquireLock } from "./store/lock.ts";
import { openStore } from "./store/open.ts";
import { ENDED, type DedupeRecord } from "./store/types.ts";

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

const SWEEP_MS = 600_000;
/** Runs of a repeated event are started again at most so often. */
const MAX_RESTARTS = 5;

function versionOf(): string {
  for (const up of ["..", "../.."]) {
    try {
      const found = JSON.parse(readFileSync(new URL(`${up}/package.json`, import.meta.url), "utf8")) as { name?: string; version?: string };
      if (found.name === "rouse" && found.version) return found.version;
    } catch {
      // One folder further up: the built package lies deeper.
    }
  }
  return "0";
}

const VERSION = versionOf();

/** Closes a server: no new connections, idle ones at once, the others when their answer is out. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
    setTimeout(() => server.closeAllConnections(), 2000).unref();
  });
}

export type SnapshotCheck =
  | { ok: true; file?: string; mappings: number; warnings: readonly Issue[] }
  | { ok: false; file?: string; issues: Issue[] };

/** Checks what a gateway would start with, and starts nothing. */
export async function checkSnapshot(options: Pick<GatewayOptions, "configFile" | "cwd" | "env">): Promise<SnapshotCheck> {
  const log = createLogger("silent");
  const pool = createTransformPool({ log });
  const result = await buildSnapshot({ ...options, clock: systemClock, log, pool, print: () => undefined });
  await pool.close();
  if (!result.ok) return result;
  const { snapshot } = result.built;
  await result.built.dispose();
  return {
    ok: true,
    mappings: snapshot.mappings.mappings.length,
    warnings: snapshot.warnings,
    ...(snapshot.configFile === undefined ? {} : { file: snapshot.configFile }),
  };
}

/**
 * The composition root: builds every part and hands each what it needs.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const clock = systemClock;
  const print = options.print ?? ((text: string) => void process.stdout.write(text));
  const log = options.log ?? createLogger((options.env["ROUSE_LOG_LEVEL"] as "info" | undefined) ?? "info");
  const metrics = createMetrics();
  const pool = createTransformPool({ log });
  const build = () => buildSnapshot({ ...options, clock, log, pool, print });
  const first = await build();
  if (!first.ok) {
    await pool.close();
    metrics.close();
    throw new RouseError({
      code: "config_invalid",
      message: `the config${first.file === undefined ? "" : ` ${first.file}`} has ${first.issues.length} problem${first.issues.length === 1 ? "" : "s"}`,
      issues: first.issues,
    });
  }
  let built: Built = first.built;
  if (options.log === undefined && options.env["ROUSE_LOG_LEVEL"] === undefined) log.level = built.snapshot.config.log.level;
  const { stateDir } = built;
  await ensureState(stateDir);
  const lock = await acquireLock(stateDir).catch(async (error: unknown) => {
    await pool.close();
    await built.dispose();
    metrics.close();
    throw error;
  });
  const { store, queue } = await openStore({ url: built.snapshot.config.store.url ?? `sqlite:${join(stateDir, "rouse.db")}`, clock, log });
  const operatorToken = built.snapshot.config.gateway.token ?? (await stateSecret(stateDir, "gateway-token"));
  let keptHookToken = await stateSecret(stateDir, "hook-token");
  const hookTokens = (snapshot: Snapshot): readonly string[] => [snapshot.config.hooks.token ?? keptHookToken].flat();

  const startedAt = clock.now();
  const ended = new AbortController();
  let servers: Server[] = [];
  let url: string | undefined;
  let draining = false;
  let listening = false;
  let reloadProblems: readonly Issue[] = [];
  let lastReload: Promise<unknown> = Promise.resolve();
  let watcher: { close(): void } | undefined;
  const runEnds = new Map<string, Set<() => void>>();
  const snapshot = (): Snapshot => built.snapshot;

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
  const onRunEnd = (runId: string): void => {
    for (const done of runEnds.get(runId) ?? []) done();
  };
  const turns = createTurnWorker({ store, queue, clock, log, context: snapshot, heartbeat, onRunEnd, metrics });

  const revive = async (record: DedupeRecord): Promise<void> => {
    const event = await store.getEvent(record.eventId);
    for (const action of event?.actions ?? []) {
      const run = action.kind === "run" ? await store.getRun(action.runId) : undefined;
      if (!run || !ENDED.includes(run.status)) continue;
      if ((run.status === "failed" || run.status === "timed_out") && run.restarts < MAX_RESTARTS) await turns.restart(run);
      else if (run.deliveryId !== undefined && (await store.getDelivery(run.deliveryId))?.status === "failed")
        await deliveries.retry(run.deliveryId);
    }
  };

  const waitForRun = async (runId: string, ms: number): Promise<void> => {
    const over = new AbortController();
    const listeners = runEnds.get(runId) ?? new Set();
    runEnds.set(runId, listeners);
    const done = (): void => over.abort();
    listeners.add(done);
    ended.signal.addEventListener("abort", done, { once: true });
    const run = await store.getRun(runId);
    if (run?.endedAt === undefined) await clock.sleep(ms, over.signal);
    ended.signal.removeEventListener("abort", done);
    listeners.delete(done);
    if (listeners.size === 0) runEnds.delete(runId);
  };

  const hooks = createHooks({ store, clock, log, metrics, snapshot, hookTokens, draining: () => draining, revive, waitForRun });

  const status = (): GatewayStatus => ({
    version: VERSION,
    pid: process.pid,
    startedAt,
    url,
    workers: options.workers,
    draining,
    snapshot: snapshot().hash,
    configFile: snapshot().configFile,
    stateDir,
    reloadProblems,
    warnings: snapshot().warnings,
  });

  const watch = (): void => {
    watcher?.close();
    watcher = watchFiles({ ...built.watched, debounceMs: 200, log, onChange: () => void reload() });
  };

  const reloadNow: Gateway["reload"] = async () => {
    const next = await build().catch((error: unknown) => {
      log.error({ err: safeError(error) }, "the new config could not be built");
      return { ok: false as const, issues: [{ path: "", message: "the config could not be read; the log says why" }] };
    });
    if (!next.ok) {
      reloadProblems = next.issues;
      log.error({ issues: next.issues }, "the config was changed and has problems; the one before it stays in use");
      return { ok: false, issues: next.issues };
    }
    reloadProblems = [];
    const kept = await stateSecret(stateDir, "hook-token");
    const rotated = kept !== keptHookToken;
    keptHookToken = kept;
    if (!rotated && next.built.snapshot.hash === built.snapshot.hash) {
      await next.built.dispose();
      return { ok: true, hash: built.snapshot.hash };
    }
    const before = built;
    built = next.built;
    // Children may hold modules, or what these import, as they were.
    pool.recycle();
    metrics.setPaths(built.snapshot.mappings.paths.map((rules) => rules.path));
    if (options.log === undefined && options.env["ROUSE_LOG_LEVEL"] === undefined) log.level = built.snapshot.config.log.level;
    if (listening) watch();
    log.info({ snapshot: built.snapshot.hash.slice(0, 12) }, "the config was reloaded");
    // Work under way keeps the snapshot it began with; its runtime goes once the longest turn can be over.
    void clock.sleep(before.snapshot.config.agents.defaults.maxTimeoutSeconds * 1000, ended.signal).then(() => before.dispose());
    return { ok: true, hash: built.snapshot.hash };
  };

  const reload: Gateway["reload"] = () => {
    const next = lastReload.then(reloadNow);
    lastReload = next;
    return next;
  };

  const admin: AdminDeps = {
    store,
    queue,
    snapshot,
    status,
    refusals: hooks.refusals,
    runs: turns,
    replay: hooks.replay,
    retryDelivery: (id) => deliveries.retry(id),
    reload,
    metrics: () => metrics.render(),
  };
  const apps = createApps({ admin, hooks, store, log, snapshot, hookTokens, operatorToken, ready: () => !draining });
  metrics.setPaths(snapshot().mappings.paths.map((rules) => rules.path));
  metrics.watchCounts(() => store.counts());

  const sweep = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const { store: settings, hooks: hookSettings } = snapshot().config;
      await store
        .sweep(clock.now(), { bodies: hookSettings.retention, ...settings.retention })
        .catch((error: unknown) => log.error({ err: safeError(error) }, "old records could not be removed; it is tried again"));
      await clock.sleep(hookSettings.retention === 0 ? SWEEP_MS / 20 : SWEEP_MS, ended.signal);
    }
  };

  const listen = async (fetchApp: (request: Request, env: object) => Response | Promise<Response>, port: number): Promise<string> => {
    const { createAdaptorServer } = await import("@hono/node-server");
    const { host } = snapshot().config.gateway;
    const server = createAdaptorServer({ fetch: fetchApp }) as Server;
    server.requestTimeout = 0;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error: NodeJS.ErrnoException) => {
        const message =
          error.code === "EADDRINUSE"
            ? `port ${port} of ${host} is taken; set gateway.port, or use --port`
            : `cannot listen on ${host}:${port} (${error.code ?? "error"})`;
        reject(new RouseError({ code: "config_invalid", message, issues: [{ path: "gateway.port", message }] }));
      });
      server.listen(port, host, resolve);
    });
    servers.push(server);
    const { port: bound } = server.address() as AddressInfo;
    return `http://${host.includes(":") ? `[${host}]` : host}:${bound}`;
  };

  return {
    operatorToken,
    status,
    reload,
    fetch: async (request) => (new URL(request.url).pathname.startsWith("/admin/") ? apps.admin : apps.main).fetch(request),
    async start() {
      await queue.recover();
      const { adminPort, port } = snapshot().config.gateway;
      url = await listen((request, env) => apps.main.fetch(request, env), port);
      const adminUrl = adminPort === undefined ? url : await listen((request, env) => apps.admin.fetch(request, env), adminPort);
      await lock.describe({ pid: process.pid, url, adminUrl, startedAt, version: VERSION });
      listening = true;
      watch();
      for (const { id, service } of built.services) {
        if (options.workers)
          void service
            .start(ended.signal)
            .catch((error: unknown) => log.error({ err: safeError(error), plugin: id }, "a plugin's service ended with an error"));
      }
      if (options.workers) {
        store.onSystemEvents((_agentId, mode) => {
          if (mode === "now") heartbeat.request();
        });
        turns.start();
        deliveries.start();
        await heartbeat.start();
        void sweep();
      }
      for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
      log.info({ url, workers: options.workers, version: VERSION }, "the gateway is ready");
      return { url, adminUrl };
    },
    async stop() {
      draining = true;
      watcher?.close();
      heartbeat.stop();
      await turns.stop(snapshot().config.gateway.drainSeconds * 1000);
      await deliveries.stop();
      ended.abort();
      await Promise.all(servers.map(closeServer));
      servers = [];
      await lastReload.catch(() => undefined);
      await built.dispose();
      await pool.close();
      await store.close();
      metrics.close();
      lock.release();
      log.info("the gateway has stopped");
    },
  };
}
