import { hostname } from "node:os";
import { createBookmarks } from "../operate/records/bookmarks.ts";
import { createFailureStates } from "../operate/watch/failure-states.ts";
import type { AdminDeps, RuntimeStatus } from "../operate/types.ts";
import { breakerView } from "../operate/records/views.ts";
import { createEarlierRuns } from "../chat/history.ts";
import { RouseError } from "../core/errors.ts";
import { lazy } from "../core/lazy.ts";
import { VERSION } from "../core/version.ts";
import { type Apps, createApps } from "../http/app.ts";
import { createDirectHooks } from "../http/direct-hooks.ts";
import { createRejections } from "../http/errors.ts";
import { createFirstAnswers } from "../http/first-answers.ts";
import { createHooks, createServiceHook } from "../http/hooks.ts";
import { listenHttp } from "../http/listen.ts";
import { createSharedCounts } from "../intake/callers.ts";
import { createIntake, type Intake } from "../intake/receive.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
import { createServices, type Services } from "../plugin/services.ts";
import { createReceipts } from "../turns/receipts.ts";
import { retryOnRedelivery } from "../turns/retry-on-redelivery.ts";
import { STORE_UNAVAILABLE } from "../store/types.ts";
import { createDecidedBy } from "../operate/records/decided-by.ts";
import { createDocumentSync } from "./document-sync.ts";
import { createReceive } from "./library.ts";
import { openResources, type ResourceOptions, type Resources } from "./resources.ts";
import type { Addresses, Gateway as Library, ListenAddress, StartOptions } from "./types.ts";
import { createWorkbench } from "./workbench.ts";
import { createWorkers, restoreWorkers, startWorkers, type Workers } from "./workers.ts";

const ALIVE_MS = 2 ** 30;

export interface RunningGateway extends Pick<Library, "receive" | "start" | "stop"> {
  /** Answers a request as the HTTP server would. `bindings`: what the server knows of it, as `{ incoming }`. */
  fetch(request: Request, bindings?: object): Promise<Response>;
  /** Builds a new snapshot and swaps it in, or keeps the old one. */
  reload: AdminDeps["reload"];
  /** The operator's token. */
  readonly operatorToken: string;
  /** Starts the indexing of documents without the other workers. */
  indexDocuments(): Promise<void>;
  readonly status: () => RuntimeStatus;
}

/** Creates what takes hooks and messages in: from HTTP, from services and channels of plugins, and replays. */
function createInput(
  resources: Resources,
  workers: Workers,
  { draining }: Pick<Parts, "draining">,
) {
  const { store, cluster, reloader, options } = resources;
  const { turns, deliveries, admission } = workers;
  const sharedCounts = createSharedCounts(cluster);
  const intake = createIntake({
    ...resources,
    ...workers,
    steer(runId) {
      turns.steer(runId);
      cluster.tell("steer", [runId]);
    },
    showThatItWaits: turns.showThatItWaits,
    sharedCounts,
    hookTokens: ({ config }) => [config.hooks.token ?? reloader.keptToken()].flat(),
    draining,
    recorded: options.recorded,
    admit: (applicants, now) => admission.admit(applicants, now),
    retryFailed: (record) =>
      retryOnRedelivery(record, { store, restart: turns.restart, retryDelivery: deliveries.retry }),
  });
  return { intake, sharedCounts };
}

/** How far a gateway has come. */
interface Progress {
  readonly startedAt: number;
  url: string | undefined;
  workers: boolean;
  draining: boolean;
}

function createStatus(
  { snapshot, reloader, hookShapes }: Resources,
  workers: Workers,
  services: Services,
  progress: Progress,
): () => RuntimeStatus {
  return () => ({
    version: VERSION,
    pid: process.pid,
    ...progress,
    snapshot: snapshot().hash,
    configFile: snapshot().configFile,
    stateDir: reloader.loaded().stateDir,
    reloadProblems: reloader.problems(),
    warnings: [...snapshot().warnings, ...hookShapes.warnings()],
    services: services.states(),
    channels: workers.health.states(),
    mcpServers: snapshot().runtime.mcpServers(),
    breakers: workers.parking.states().map(breakerView),
  });
}

/** Everything that the operator's operations need. */
function createAdminDeps({ resources, workers, intake, status }: Parts): AdminDeps {
  const { log, metrics, reloader, configs, hookShapes, opened, options } = resources;
  const { turns, cancel, deliveries, people, admission, health } = workers;
  const { env } = options;
  // Apart from the pool of the mappings in use: a reload ends its children, and what they were doing.
  const pool = createTransformPool({ log, env });
  opened.defer(() => pool.close());
  const baseDir = (): string => reloader.loaded().baseDir;
  return {
    ...resources,
    ...workers,
    decidedBy: createDecidedBy({ ...resources, since: configs.since, baseDir, env, pool }),
    status,
    recorded: hookShapes.recorded,
    refusals: intake.denials.list,
    signatures: intake.signatures,
    runs: { ...turns, cancel },
    pairings: people.pairings,
    links: people.links,
    limits: () => admission.usage(),
    channels: health,
    replay: intake.replay,
    retryDelivery: deliveries.retry,
    sendEvent: createServiceHook(intake),
    reload: reloader.reload,
    metrics: metrics.render,
    latencies: metrics.latencies,
    bookmarks: createBookmarks(resources),
    failures: createFailureStates(resources),
  };
}

/** Creates what answers requests. `direct` is asked before `answer`, unless traces are collected: they see requests in the apps. */
function createServing(parts: Parts) {
  const { resources, workers, services, intake, sharedCounts, status, draining } = parts;
  const { store, cluster, log, traces, snapshot, operatorToken, localToken, opened } = resources;
  const { startedAt } = status();
  const firstAnswers =
    cluster.responding && createFirstAnswers(cluster.responding, STORE_UNAVAILABLE);
  const receipts = createReceipts({ store, waitForRun: workers.runEnds.wait });
  const hooks = createHooks({ intake, snapshot, receipts, firstAnswers });
  const shared = { ...resources, ...workers, sharedCounts, firstAnswers, draining, startedAt };
  const apps = createApps({
    ...shared,
    ...intake,
    admin: createAdminDeps(parts),
    workbench: createWorkbench(resources),
    hooks,
    receipts,
    // Loaded when the first request for it comes.
    platform: lazy(async () => {
      const { createPlatform } = await import("../http/platform/app.ts");
      const { fetch } = resources.options;
      return createPlatform({ ...shared, earlierRuns: createEarlierRuns(store), fetch });
    }),
    operatorTokens: [...new Set([operatorToken, localToken])],
    ready: () => !draining() && cluster.reachable(),
    serviceRequest: services.request,
  });
  const trustedProxies = (): readonly string[] => snapshot().config.gateway.trustedProxies;
  const rejections = createRejections({ log, trustedProxies });
  opened.defer(rejections.close);
  return {
    apps,
    answer: async (app: Apps["main"], request: Request, env?: object): Promise<Response> =>
      rejections.see(request, env, await app.fetch(request, env)),
    direct: traces.isOn
      ? undefined
      : createDirectHooks({ answer: hooks, snapshot, rejections, log }),
  };
}

/** Listens for senders and callers, and for the operator too, unless `gateway.adminPort` separates them. */
async function openListeners(
  { resources, draining }: Parts,
  { apps, answer, direct }: ReturnType<typeof createServing>,
): Promise<Addresses> {
  const { snapshot, opened, swapped } = resources;
  const { gateway, hooks } = snapshot().config;
  const serve = async (app: Apps["main"], port: number): Promise<string> => {
    const listener = await listenHttp((request, env) => answer(app, request, env), {
      host: gateway.host,
      port,
      bodyTimeoutMs: hooks.bodyTimeoutSeconds * 1000,
      keepAliveSeconds: gateway.keepAliveSeconds,
      draining,
      direct: app === apps.main ? direct : undefined,
    });
    swapped.push((loaded) =>
      listener.setKeepAlive(loaded.snapshot.config.gateway.keepAliveSeconds),
    );
    opened.defer(() => listener.close());
    return listener.url;
  };
  const url = await serve(apps.main, gateway.port);
  return {
    url,
    adminUrl: gateway.adminPort === undefined ? url : await serve(apps.admin, gateway.adminPort),
  };
}

/** The parts of a gateway that its start, its requests and its stop need. */
interface Parts {
  resources: Resources;
  workers: Workers;
  services: Services;
  intake: Intake;
  sharedCounts: ReturnType<typeof createSharedCounts>;
  progress: Progress;
  status(): RuntimeStatus;
  draining(): boolean;
}

async function startParts(
  parts: Parts,
  serving: ReturnType<typeof createServing>,
  options: StartOptions,
): Promise<Addresses | undefined> {
  const { resources, intake, workers, services, progress, status } = parts;
  const { lock, reloader, snapshot, opened, log, configs, ended } = resources;
  const { listen: address = false, workers: isWorking = true, watch = false } = options;
  await restoreWorkers(resources, workers);
  await configs.use();
  void configs.run(ended.signal);
  void resources.hookShapes.refresh();
  resources.swapped.push(() => void resources.hookShapes.refresh());
  if (typeof address === "object") resources.setAddress(address);
  const addresses = address === false ? undefined : await openListeners(parts, serving);
  progress.url = addresses?.url;
  progress.workers = isWorking;
  const { pid, startedAt, version, configFile } = status();
  await lock.describe({ pid, ...addresses, startedAt, version, config: configFile ?? null });
  if (watch) reloader.watch();
  if (isWorking) {
    // Timers and connections of the workers keep no process alive: without a server of its own the program would end.
    const alive = setInterval(() => undefined, ALIVE_MS);
    opened.defer(() => clearInterval(alive));
    await startWorkers(resources, workers, services, intake);
    snapshot().runtime.start();
    resources.swapped.push((loaded) => loaded.snapshot.runtime.start());
  }
  for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
  log.info({ url: progress.url, workers: isWorking, version }, "the gateway is ready");
  return addresses;
}

async function stopParts({ resources, workers, services, progress }: Parts): Promise<void> {
  const { snapshot, ended, opened, log } = resources;
  progress.draining = true;
  await services.close();
  await workers.scheduler.stop();
  await workers.heartbeat.stop();
  const drainMs = snapshot().config.gateway.drainSeconds * 1000;
  await Promise.all([workers.turns.stop(drainMs), workers.chats.stop(drainMs)]);
  await workers.deliveries.stop();
  ended.abort();
  await opened.disposeAsync();
  // One that could not listen was never there.
  if (progress.workers || progress.url !== undefined) log.info("the gateway has stopped");
}

/**
 * The composition root: builds every part and hands each what it needs.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function openGateway(options: ResourceOptions): Promise<RunningGateway> {
  const opened = new AsyncDisposableStack();
  const resources = await openResources(options, opened).catch(async (error: unknown) => {
    await opened.disposeAsync();
    throw error;
  });
  const { clock, cluster, reloader, snapshot, operatorToken } = resources;
  const progress: Progress = {
    startedAt: clock.now(),
    url: undefined,
    workers: false,
    draining: false,
  };
  const draining = (): boolean => progress.draining;
  const workers = createWorkers(resources);
  const input = createInput(resources, workers, { draining });
  const services = createServices({
    ...resources,
    hook: createServiceHook(input.intake),
    createDocuments: (plugin) =>
      createDocumentSync(plugin, {
        knowledge: workers.knowledge,
        maxBytes: () => snapshot().config.platform.knowledge.fileMb * 1e6,
      }),
  });
  const status = createStatus(resources, workers, services, progress);
  cluster.describe(() => {
    const { version, pid, startedAt, url, workers } = status();
    return {
      host: hostname(),
      pid,
      version,
      url,
      snapshot: snapshot().clusterHash,
      workers,
      startedAt,
    };
  });
  const parts: Parts = { resources, workers, services, ...input, progress, status, draining };
  const serving = createServing(parts);
  let isStarted = false;
  let stopped: Promise<void> | undefined;
  function start(options: StartOptions & { listen: true | ListenAddress }): Promise<Addresses>;
  function start(options?: StartOptions): Promise<Addresses | undefined>;
  async function start(startOptions: StartOptions = {}): Promise<Addresses | undefined> {
    if (isStarted || stopped)
      throw new RouseError({
        code: "usage",
        message: "a gateway can be started once: create another one",
      });
    isStarted = true;
    return startParts(parts, serving, startOptions);
  }
  return {
    operatorToken,
    indexDocuments: workers.knowledge.start,
    status,
    reload: reloader.reload,
    fetch: (request, bindings) =>
      serving.answer(
        serving.apps[new URL(request.url).pathname.startsWith("/admin/") ? "admin" : "main"],
        request,
        bindings,
      ),
    receive: createReceive(input.intake, () => `http://localhost${snapshot().config.hooks.path}`),
    start,
    stop: () => (stopped ??= stopParts(parts)),
  };
}
