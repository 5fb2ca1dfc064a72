import { hostname } from "node:os";
import { retryOnRedelivery } from "./actions/retry-on-redelivery.ts";
import { systemClock } from "./core/clock.ts";
import { lazy } from "./core/lazy.ts";
import { VERSION } from "./core/version.ts";
import { layGround, type GatewayOptions, type Ground } from "./ground.ts";
import { createApps, type Apps } from "./http/app.ts";
import { createHooks, createServiceHook } from "./http/hooks.ts";
import { createIntake } from "./intake/receive.ts";
import { listen } from "./http/listen.ts";
import { createRejections } from "./http/rejections.ts";
import { createSharedCounts } from "./intake/shared-counts.ts";
import type { Gateway, GatewayStatus } from "./http/types.ts";
import { createServices, type Services } from "./plugin/services.ts";
import { createWork, restoreWork, startWork, type Work } from "./work.ts";

function createSurface(
  ground: Ground,
  work: Work,
  services: Services,
  input: ReturnType<typeof createInput>,
  status: () => GatewayStatus,
): Apps {
  const { store, queue, peers, log, metrics, snapshot, reloader, operatorToken } = ground;
  const { turns, chats, keys, knowledge, deliveries, runEnds, admission, health } = work;
  const { intake, sharedCounts } = input;
  const draining = (): boolean => status().draining;
  const admin = {
    store,
    queue,
    peers,
    snapshot,
    status,
    refusals: intake.denials.list,
    signatures: intake.signatures,
    runs: { ...turns, cancel: work.cancel },
    limits: admission.usage,
    channels: health,
    replay: intake.replay,
    retryDelivery: deliveries.retry,
    reload: reloader.reload,
    metrics: metrics.render,
    keys,
    chats,
    knowledge,
  };
  const { startedAt } = status();
  const platform = lazy(async () => {
    const { createPlatform } = await import("./http/platform/app.ts");
    return createPlatform({ sharedCounts, chats, keys, knowledge, store, clock: systemClock, log, snapshot, draining, startedAt });
  });
  const serviceRequest = services.request;
  return createApps({
    admin,
    hooks: createHooks({ intake, store, snapshot, waitForRun: runEnds.wait }),
    hasCredential: intake.hasCredential,
    bodyBudget: intake.bodyBudget,
    denials: intake.denials,
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

/** What takes hooks and messages in: from HTTP, from services and channels of plugins, and replays. */
function createInput(
  { store, peers, log, metrics, snapshot, reloader }: Ground,
  { turns, deliveries, admission }: Work,
  draining: () => boolean,
) {
  const sharedCounts = createSharedCounts(peers);
  const intake = createIntake({
    sharedCounts,
    store,
    clock: systemClock,
    log,
    metrics,
    snapshot,
    hookTokens: ({ config }) => [config.hooks.token ?? reloader.keptToken()].flat(),
    draining,
    admit: admission.admit,
    retryFailed: (record) => retryOnRedelivery(record, { store, restart: turns.restart, retryDelivery: deliveries.retry }),
  });
  return { intake, sharedCounts };
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
  const { log, lock, peers, cursorOf, reloader, snapshot, ended, operatorToken } = ground;
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
    channels: work.health.states(),
  });
  peers.describe(() => ({
    host: hostname(),
    pid: process.pid,
    version: VERSION,
    url,
    snapshot: snapshot().commonHash,
    workers: options.workers,
    startedAt,
  }));
  const work = createWork(ground);
  const input = createInput(ground, work, () => draining);
  const services = createServices({
    hook: createServiceHook(input.intake),
    peers,
    cursorOf,
    clock: systemClock,
    log,
  });
  const apps = createSurface(ground, work, services, input, status);

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
      await restoreWork(ground, work);
      const { adminPort, port } = snapshot().config.gateway;
      url = await serve(apps.main, port);
      const adminUrl = adminPort === undefined ? url : await serve(apps.admin, adminPort);
      await lock.describe({ pid: process.pid, url, adminUrl, startedAt, version: VERSION, config: snapshot().configFile ?? null });
      reloader.watch();
      if (options.workers) await startWork(ground, work, services, input.intake);
      for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
      log.info({ url, workers: options.workers, version: VERSION }, "the gateway is ready");
      return { url, adminUrl };
    },
    async stop() {
      draining = true;
      await services.close();
      await work.heartbeat.stop();
      const drainMs = snapshot().config.gateway.drainSeconds * 1000;
      await Promise.all([work.turns.stop(drainMs), work.chats.stop(drainMs)]);
      await work.deliveries.stop();
      ended.abort();
      await opened.disposeAsync();
      log.info("the gateway has stopped");
    },
  };
}
