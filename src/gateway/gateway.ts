import { hostname } from "node:os";
import { reviveEvent } from "../actions/revive.ts";
import { systemClock } from "../core/clock.ts";
import { lazy } from "../core/lazy.ts";
import { VERSION } from "../core/version.ts";
import { openResources, type GatewayOptions, type Resources } from "./resources.ts";
import { createApps, type Apps } from "../http/app.ts";
import { createFailureLimiter } from "../http/auth.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createHooks } from "../http/hooks.ts";
import { listen } from "../http/listen.ts";
import { createRefusals } from "../http/refusals.ts";
import { createRejections } from "../http/rejections.ts";
import { createSharedCounts } from "../http/shared-counts.ts";
import type { Gateway, GatewayStatus, Snapshot } from "../http/types.ts";
import { createServices, type Services } from "../plugin/services.ts";
import type { Fence } from "../store/types.ts";
import { createWorkers, restoreWorkers, startWorkers, type Workers } from "./workers.ts";

function createSurface(resources: Resources, workers: Workers, services: Services, status: () => GatewayStatus): Apps {
  const { store, queue, peers, log, metrics, snapshot, reloader, operatorToken } = resources;
  const { turns, chats, keys, knowledge, deliveries, runEnds, admission, health } = workers;
  const hookTokens = ({ config }: Snapshot): readonly string[] => [config.hooks.token ?? reloader.keptToken()].flat();
  const draining = (): boolean => status().draining;
  const sharedCounts = createSharedCounts(peers);
  const bodyBudget = createBodyBudget(systemClock);
  const limiter = createFailureLimiter(systemClock, sharedCounts?.("hooks"));
  const refusals = createRefusals({ clock: systemClock, log, metrics, limiter });
  const hooks = createHooks({
    sharedCounts,
    bodyBudget,
    limiter,
    refusals,
    store,
    clock: systemClock,
    log,
    metrics,
    snapshot,
    hookTokens,
    draining,
    admit: admission.admit,
    revive: (record) => reviveEvent(record, { store, restart: turns.restart, retryDelivery: deliveries.retry }),
    waitForRun: runEnds.wait,
  });
  const admin = {
    store,
    queue,
    peers,
    snapshot,
    status,
    refusals: refusals.list,
    signatures: hooks.signatures,
    runs: { ...turns, cancel: workers.cancel },
    limits: admission.usage,
    channels: health,
    replay: hooks.replay,
    retryDelivery: deliveries.retry,
    reload: reloader.reload,
    metrics: metrics.render,
    keys,
    chats,
    knowledge,
  };
  const { startedAt } = status();
  const platform = lazy(async () => {
    const { createPlatform } = await import("../http/platform/app.ts");
    return createPlatform({ sharedCounts, chats, keys, knowledge, store, clock: systemClock, log, snapshot, draining, startedAt });
  });
  const serviceRequest = services.request;
  return createApps({
    admin,
    hooks,
    bodyBudget,
    refusals,
    platform,
    store,
    clock: systemClock,
    log,
    snapshot,
    operatorToken,
    ready: () => !draining() && peers.reachable(),
    sharedCounts,
    serviceRequest,
  });
}

/** Posts to a hook of this gateway, as a caller with the hook token would. */
async function postHook(
  { snapshot, reloader }: Resources,
  apps: Apps,
  path: string,
  body: unknown,
  fence: Fence | undefined,
): Promise<{ status: number; body: unknown }> {
  const { hooks } = snapshot().config;
  const token = [hooks.token ?? reloader.keptToken()].flat()[0] ?? "";
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const request = new Request(`http://localhost${hooks.path}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const response = await apps.main.fetch(request, { fence });
  return { status: response.status, body: await response.json().catch(() => undefined) };
}

/**
 * The composition root: builds every part and hands each what it needs.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const opened = new AsyncDisposableStack();
  const resources = await openResources(options, opened).catch(async (error: unknown) => {
    await opened.disposeAsync();
    throw error;
  });
  const { log, lock, peers, cursorOf, reloader, snapshot, ended, operatorToken } = resources;
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
    stateDir: reloader.loaded().stateDir,
    reloadProblems: reloader.problems(),
    warnings: snapshot().warnings,
    services: services.states(),
    channels: workers.health.states(),
  });
  peers.describe(() => ({
    host: hostname(),
    pid: process.pid,
    version: VERSION,
    url,
    snapshot: snapshot().clusterHash,
    workers: options.workers,
    startedAt,
  }));
  const workers = createWorkers(resources);
  const services = createServices({
    hook: (path, body, fence) => postHook(resources, apps, path, body, fence),
    peers,
    cursorOf,
    clock: systemClock,
    log,
  });
  const apps = createSurface(resources, workers, services, status);

  const rejections = createRejections({ log, trustedProxies: () => snapshot().config.gateway.trustedProxies });
  opened.defer(rejections.close);
  const answer = async (app: Apps["main"], request: Request, env?: object): Promise<Response> =>
    rejections.see(request, env, await app.fetch(request, env));

  const serve = async (app: Apps["main"], port: number): Promise<string> => {
    const { gateway, hooks } = snapshot().config;
    const options = { host: gateway.host, port, bodyTimeoutMs: hooks.bodyTimeoutSeconds * 1000 };
    const listener = await listen((request, env) => answer(app, request, env), options);
    opened.defer(() => listener.close());
    return listener.url;
  };

  return {
    operatorToken,
    status,
    reload: reloader.reload,
    fetch: (request) => answer(new URL(request.url).pathname.startsWith("/admin/") ? apps.admin : apps.main, request),
    async start() {
      await restoreWorkers(resources, workers);
      const { adminPort, port } = snapshot().config.gateway;
      url = await serve(apps.main, port);
      const adminUrl = adminPort === undefined ? url : await serve(apps.admin, adminPort);
      await lock.describe({ pid: process.pid, url, adminUrl, startedAt, version: VERSION, config: snapshot().configFile ?? null });
      reloader.watch();
      if (options.workers) await startWorkers(resources, workers, services);
      for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
      log.info({ url, workers: options.workers, version: VERSION }, "the gateway is ready");
      return { url, adminUrl };
    },
    async stop() {
      draining = true;
      await services.close();
      await workers.heartbeat.stop();
      const drainMs = snapshot().config.gateway.drainSeconds * 1000;
      await Promise.all([workers.turns.stop(drainMs), workers.chats.stop(drainMs)]);
      await workers.deliveries.stop();
      ended.abort();
      await opened.disposeAsync();
      log.info("the gateway has stopped");
    },
  };
}
