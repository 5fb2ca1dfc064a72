import { hostname } from "node:os";
import { retryOnRedelivery } from "../runs/retry-on-redelivery.ts";
import { RouseError } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import { openResources, type ResourceOptions, type Resources } from "./resources.ts";
import type { Apps } from "../http/app.ts";
import { createDirectHooks, type DirectHandler } from "../http/direct-hooks.ts";
import { createServiceHook } from "../http/hooks.ts";
import { listenHttp } from "../http/listen.ts";
import { createRejections } from "../http/errors.ts";
import { breakerView } from "../operate/records/views.ts";
import type { AdminDeps, RuntimeStatus } from "../operate/types.ts";
import { createIntake, type Intake } from "../intake/receive.ts";
import { createSharedCounts } from "../intake/callers.ts";
import { createReceive } from "./library.ts";
import { createDocumentSync } from "./document-sync.ts";
import { createServices, type Services } from "../plugin/services.ts";
import type { Addresses, Gateway as Library, ListenAddress, StartOptions } from "./types.ts";
import { createSurface } from "./surface.ts";
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

/** What takes hooks and messages in: from HTTP, from services and channels of plugins, and replays. */
function createInput(
  { store, cluster, clock, log, metrics, traces, snapshot, reloader, options }: Resources,
  { turns, deliveries, admission, approvals, people }: Workers,
  draining: () => boolean,
) {
  const sharedCounts = createSharedCounts(cluster);
  const intake = createIntake({
    approvals,
    people,
    steer(runId) {
      turns.steer(runId);
      cluster.tell("steer", [runId]);
    },
    showThatItWaits: turns.showThatItWaits,
    sharedCounts,
    store,
    clock,
    log,
    metrics,
    traces,
    snapshot,
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

type AnswerRequest = (app: Apps["main"], request: Request, env?: object) => Promise<Response>;

/** What answers requests. */
interface Serving {
  apps: Apps;
  answer: AnswerRequest;
  /** Asked before `apps.main`. Absent where traces are collected: they see requests in the apps. */
  direct: DirectHandler | undefined;
}

/** Listens for senders and callers, and for the operator too, unless `gateway.adminPort` separates them. */
async function openListeners(
  { snapshot, opened, swapped }: Resources,
  { apps, answer, direct, progress }: Serving & { progress: Progress },
): Promise<Addresses> {
  const { gateway, hooks } = snapshot().config;
  const serve = async (app: Apps["main"], port: number): Promise<string> => {
    const listener = await listenHttp((request, env) => answer(app, request, env), {
      host: gateway.host,
      port,
      bodyTimeoutMs: hooks.bodyTimeoutSeconds * 1000,
      keepAliveSeconds: gateway.keepAliveSeconds,
      draining: () => progress.draining,
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

interface Parts extends Serving {
  intake: Intake;
  resources: Resources;
  workers: Workers;
  services: Services;
  progress: Progress;
  status(): RuntimeStatus;
}

async function startParts(parts: Parts, options: StartOptions): Promise<Addresses | undefined> {
  const { resources, intake, workers, services, progress, status } = parts;
  const { lock, reloader, snapshot, opened, log, configs, ended } = resources;
  const { listen: address = false, workers: isWorking = true, watch = false } = options;
  await restoreWorkers(resources, workers);
  await configs.use();
  void configs.run(ended.signal);
  void resources.hookShapes.refresh();
  resources.swapped.push(() => void resources.hookShapes.refresh());
  if (typeof address === "object") resources.setAddress(address);
  const addresses = address === false ? undefined : await openListeners(resources, parts);
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
  const { clock, log, cluster, createCursor, reloader, snapshot, operatorToken } = resources;
  const progress: Progress = {
    startedAt: clock.now(),
    url: undefined,
    workers: false,
    draining: false,
  };
  const workers = createWorkers(resources);
  const workbench = createWorkbench(resources);
  const input = createInput(resources, workers, () => progress.draining);
  const services = createServices({
    hook: createServiceHook(input.intake),
    cluster,
    createCursor,
    createDocuments: (plugin) =>
      createDocumentSync(plugin, {
        knowledge: workers.knowledge,
        maxBytes: () => snapshot().config.platform.knowledge.fileMb * 1e6,
      }),
    clock,
    log,
  });
  const status = createStatus(resources, workers, services, progress);
  const { hooks, ...apps } = createSurface(
    resources,
    workers,
    services,
    { ...input, workbench },
    status,
  );
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
  const rejections = createRejections({
    log,
    trustedProxies: () => snapshot().config.gateway.trustedProxies,
  });
  opened.defer(rejections.close);
  const answer: AnswerRequest = async (app, request, env) =>
    rejections.see(request, env, await app.fetch(request, env));

  const direct = resources.traces.isOn
    ? undefined
    : createDirectHooks({ answer: hooks, snapshot, rejections, log });

  const parts: Parts = {
    resources,
    intake: input.intake,
    workers,
    services,
    apps,
    answer,
    direct,
    progress,
    status,
  };
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
    return startParts(parts, startOptions);
  }
  return {
    operatorToken,
    indexDocuments: workers.knowledge.start,
    status,
    reload: reloader.reload,
    fetch: (request, bindings) =>
      answer(
        new URL(request.url).pathname.startsWith("/admin/") ? apps.admin : apps.main,
        request,
        bindings,
      ),
    receive: createReceive(input.intake, () => `http://localhost${snapshot().config.hooks.path}`),
    start,
    stop: () => (stopped ??= stopParts(parts)),
  };
}
