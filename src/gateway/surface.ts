import { createBookmarks } from "../operate/records/bookmarks.ts";
import { createFailureStates } from "../operate/watch/failure-states.ts";
import { createEarlierRuns } from "../chat/history.ts";
import { createReceipts } from "../runs/receipts.ts";
import { lazy } from "../core/lazy.ts";
import type { Resources } from "./resources.ts";
import { createApps, type Apps } from "../http/app.ts";
import { createFirstAnswers } from "../http/first-answers.ts";
import { STORE_UNAVAILABLE } from "../store/types.ts";
import type { PlatformDeps } from "../http/platform/types.ts";
import { type AnswerHook, createHooks, createServiceHook } from "../http/hooks.ts";
import type { AdminDeps, RuntimeStatus } from "../operate/types.ts";
import type { Intake } from "../intake/receive.ts";
import type { createSharedCounts } from "../intake/callers.ts";
import { createDecidedBy, type DecidedByDeps } from "../operate/records/decided-by.ts";
import { createTransformPool } from "../mapping/transform-pool.ts";
import type { Services } from "../plugin/services.ts";
import type { Workbench } from "../operate/workbench.ts";
import type { Workers } from "./workers.ts";

/** The platform API, which is loaded when the first request for it comes. */
function createLazyPlatform(
  { options, store, clock, log, snapshot }: Resources,
  { chats, keys, knowledge, approvals }: Workers,
  shared: Pick<PlatformDeps, "sharedCounts" | "firstAnswers">,
  status: () => RuntimeStatus,
) {
  const { startedAt } = status();
  return lazy(async () => {
    const { createPlatform } = await import("../http/platform/app.ts");
    return createPlatform({
      ...shared,
      chats,
      keys,
      knowledge,
      approvals,
      earlierRuns: createEarlierRuns(store),
      clock,
      fetch: options.fetch,
      log,
      snapshot,
      draining: () => status().draining,
      startedAt,
    });
  });
}

/** What the operator's interface reads and does. */
function createAdminDeps(
  resources: Resources,
  workers: Workers,
  intake: Intake,
  status: () => RuntimeStatus,
): AdminDeps {
  const {
    store,
    queue,
    cluster,
    clock,
    log,
    metrics,
    snapshot,
    reloader,
    configs,
    hookShapes,
    opened,
    options,
  } = resources;
  const {
    turns,
    chats,
    keys,
    knowledge,
    deliveries,
    approvals,
    rules,
    people,
    memory,
    admission,
    health,
    schedules,
  } = workers;
  // Apart from the pool of the mappings in use: a reload ends its children, and what they were doing.
  const pool = createTransformPool({ log, env: options.env });
  opened.defer(() => pool.close());
  const decided: DecidedByDeps = {
    store,
    snapshot,
    since: configs.since,
    baseDir: () => reloader.loaded().baseDir,
    env: options.env,
    pool,
  };
  return {
    clock,
    log,
    store,
    queue,
    cluster,
    snapshot,
    decidedBy: createDecidedBy(decided),
    status,
    recorded: hookShapes.recorded,
    refusals: intake.denials.list,
    signatures: intake.signatures,
    runs: { ...turns, cancel: workers.cancel },
    approvals,
    rules,
    schedules,
    pairings: people.pairings,
    memory,
    links: people.links,
    limits: () => admission.usage(),
    channels: health,
    replay: intake.replay,
    retryDelivery: deliveries.retry,
    sendEvent: createServiceHook(intake),
    reload: reloader.reload,
    metrics: metrics.render,
    latencies: metrics.latencies,
    keys,
    bookmarks: createBookmarks({ store, cluster, clock }),
    failures: createFailureStates({ store, cluster, clock }),
    chats,
    knowledge,
  };
}

/** What the gateway answers over HTTP, and what answers hooks in it. */
export function createSurface(
  resources: Resources,
  workers: Workers,
  services: Services,
  input: {
    intake: Intake;
    sharedCounts: ReturnType<typeof createSharedCounts>;
    workbench: Workbench;
  },
  status: () => RuntimeStatus,
): Apps & { hooks: AnswerHook } {
  const { store, cluster, clock, log, traces, snapshot, operatorToken, localToken, stateDir } =
    resources;
  const { keys, runEnds } = workers;
  const { intake, sharedCounts, workbench } = input;
  const draining = (): boolean => status().draining;
  const admin = createAdminDeps(resources, workers, intake, status);
  const firstAnswers =
    cluster.responding && createFirstAnswers(cluster.responding, STORE_UNAVAILABLE);
  const platform = createLazyPlatform(resources, workers, { sharedCounts, firstAnswers }, status);
  const serviceRequest = services.request;
  const receipts = createReceipts({ store, waitForRun: runEnds.wait });
  const hooks = createHooks({ intake, snapshot, receipts, firstAnswers });
  const apps = createApps({
    admin,
    workbench,
    hooks,
    firstAnswers,
    receipts,
    hasCredential: intake.hasCredential,
    bodyBudget: intake.bodyBudget,
    denials: intake.denials,
    platform,
    keys,
    clock,
    log,
    snapshot,
    operatorTokens: [...new Set([operatorToken, localToken])],
    stateDir,
    ready: () => !draining() && cluster.reachable(),
    sharedCounts,
    serviceRequest,
    traces,
  });
  return { ...apps, hooks };
}
