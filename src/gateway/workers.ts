import { createAdmission } from "../actions/admission.ts";
import { createSharedAdmission } from "../actions/shared-admission.ts";
import { cancelRun } from "../actions/cancel.ts";
import { createChats } from "../actions/chat.ts";
import type { Chats } from "../actions/chat-types.ts";
import { createRunEnds, type RunEnds } from "../actions/run-ends.ts";
import type { Admission, RunOperations } from "../actions/types.ts";
import { createTurnWorker, type TurnWorker } from "../actions/worker.ts";
import { safeError } from "../core/errors.ts";
import { createCallbackChannel } from "../delivery/callback.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../delivery/deliver.ts";
import { channelServices } from "../delivery/listen.ts";
import { createChannelHealth, type ChannelHealth } from "../delivery/health.ts";
import type { Resources } from "./resources.ts";
import type { Intake } from "../intake/receive.ts";
import { combineEvents } from "../intake/resolve.ts";
import type { LoadedSnapshot } from "./snapshot.ts";
import type { Services } from "../plugin/services.ts";
import { configuredEmbedder, sharedUrl } from "../knowledge/configured.ts";
import { createLazyKnowledge, type LazyKnowledge } from "../knowledge/lazy.ts";
import { createApiKeys, type ApiKeys } from "../http/platform/keys.ts";
import { knowledgeFor } from "../http/platform/knowledge-scope.ts";
import { createHeartbeat, type Heartbeat } from "../sessions/heartbeat.ts";
import { sweepRegularly } from "../store/sweeper.ts";
import type { Held, Peers } from "../store/types.ts";

/** What carries accepted work out. */
export interface Workers {
  heartbeat: Heartbeat;
  deliveries: DeliveryWorker;
  turns: TurnWorker;
  /** Cancels a run, whichever gateway carries it out. */
  cancel: RunOperations["cancel"];
  /** Turns of the API's users: they do not wait in the queue, since somebody waits for them. */
  chats: Chats;
  keys: ApiKeys;
  knowledge: LazyKnowledge;
  runEnds: RunEnds;
  admission: Admission;
  health: ChannelHealth;
}

/** The documents: their threads and the code that reads files are loaded when something first needs them. */
function createDocuments({ stateDir, options: { env, fetch }, clock, log, snapshot, opened }: Resources): LazyKnowledge {
  const knowledge = createLazyKnowledge({
    dir: stateDir,
    shared: sharedUrl(snapshot().config) !== undefined,
    embeds: () => snapshot().config.platform.knowledge.embeddings !== undefined,
    async open() {
      const { createKnowledge } = await import("../knowledge/knowledge.ts");
      const { config } = snapshot();
      const embed = configuredEmbedder(config, env, fetch);
      const url = sharedUrl(config);
      const common = { dir: stateDir, env, clock, log, config: config.platform.knowledge, ...(url === undefined ? {} : { url }) };
      return createKnowledge(embed ? { ...common, embed } : common);
    },
  });
  opened.defer(() => knowledge.close());
  return knowledge;
}

/** Makes what carries accepted work out, and starts none of it. */
export function createWorkers(resources: Resources): Workers {
  const { store, queue, peers, ledger, clock, log, metrics, snapshot, ended } = resources;
  const heartbeat = createHeartbeat({
    store,
    peers,
    clock,
    log,
    settings: () => ({ agentId: snapshot().agents.standard.id, everyMs: snapshot().config.agents.defaults.heartbeat.every }),
  });
  const deliveries = createDeliveryWorker({
    store,
    queue,
    channels: () => snapshot().channels,
    mainAgentId: () => snapshot().agents.standard.id,
    callbacks: createCallbackChannel({
      callbackOf: (mapping) => snapshot().callbackOf(mapping),
      hosts: () => snapshot().config.hooks.callbackHosts,
      clock,
    }),
    maxAgeMs: () => snapshot().config.delivery.maxAge,
    clock,
    log,
    onOutcome: ({ channel, status }) => metrics.deliveryEnded({ channel, status }),
  });
  const runEnds = createRunEnds({ store, peers, clock, signal: ended.signal });
  const admissionDeps = { store, clock, log, context: snapshot };
  const admission = ledger ? createSharedAdmission(admissionDeps, ledger) : createAdmission(admissionDeps);
  const keys = createApiKeys({ store, peers, clock, config: () => snapshot().config });
  const knowledge = createDocuments(resources);
  const found = knowledgeFor(knowledge, keys);
  const cancel: Workers["cancel"] = (id) => cancelRun(id, { store, peers, chats, turns, runEnds });
  const turns: TurnWorker = createTurnWorker({
    store,
    queue,
    clock,
    log,
    context: snapshot,
    heartbeat,
    onRunEnd: runEnds.ended,
    admission,
    cancel,
    combine: (mapping, events) => combineEvents(mapping, events, snapshot()),
    metrics,
    knowledge: found,
  });
  const health = createChannelHealth({ channels: () => snapshot().channels, clock, log });
  metrics.watchChannels(health.states);
  const chats = createChats({
    gateway: peers.id,
    store,
    clock,
    log,
    context: snapshot,
    onRunEnd: runEnds.ended,
    metrics,
    knowledge: found,
  });
  return { heartbeat, deliveries, turns, cancel, chats, keys, knowledge, runEnds, admission, health };
}

const aliveIds = async (peers: Peers): Promise<Set<string>> =>
  new Set((await peers.list()).filter((peer) => peer.alive).map((peer) => peer.id));

/** Between looks for what gateways that are gone have left behind. */
const LEFT_MS = 10_000;

/** Turns of the API's users end with their gateway, and what runs had of budgets is still taken; one of the others says so. */
async function recoverLeft({ signal, fence }: Held, { peers, clock, log }: Resources, { chats, admission }: Workers): Promise<void> {
  while (!signal.aborted) {
    await aliveIds(peers)
      .then((alive) => chats.recover(alive, fence))
      .then(() => admission.tidy?.())
      .catch((error: unknown) => log.warn({ err: safeError(error) }, "what gateways that are gone have left could not be looked for"));
    await clock.sleep(LEFT_MS, signal);
  }
}

/** Counts what waits and what has been spent, before anything is accepted: also without workers. */
export async function restoreWorkers({ queue, peers, swapped, log }: Resources, { admission, chats, knowledge }: Workers): Promise<void> {
  peers.on("cancel", (runIds) => {
    for (const id of runIds) void chats.cancel(id);
  });
  await knowledge.sweep();
  await queue.recover();
  await chats.recover(await aliveIds(peers));
  await admission.recount();
  // Limits may have changed with the config: those that wait get their moment afresh.
  swapped.push(() => {
    admission.recount().catch((error: unknown) => log.error({ err: safeError(error) }, "limits could not be counted afresh"));
  });
}

/** Starts all that carries work out, and what only one gateway does at a time. */
export async function startWorkers(
  resources: Resources,
  workers: Workers,
  services: Services,
  { receiveMessage: receive }: Intake,
): Promise<void> {
  const { heartbeat, turns, deliveries, health, knowledge } = workers;
  const { store, peers, clock, log, snapshot, ended, reloader, swapped } = resources;
  const servicesOf = ({ services: own, snapshot: { channels } }: LoadedSnapshot) => [
    ...own,
    ...channelServices(channels, { store, receive }),
  ];
  await services.replace(servicesOf(reloader.loaded()));
  swapped.push((loaded) => void services.replace(servicesOf(loaded)));
  store.onSystemEvents((_agentId, mode) => {
    if (mode === "now") heartbeat.request();
  });
  peers.on("cancel", (runIds) => {
    for (const id of runIds) if (turns.isActive(id)) void turns.cancel(id);
  });
  turns.start();
  deliveries.start();
  await heartbeat.start();
  // Hooks and chats do not wait for documents, nor fail with them.
  knowledge.start().catch((error: unknown) => log.error({ err: safeError(error) }, "the documents could not be opened"));
  const settings = () => ({ bodies: snapshot().config.hooks.retention, ...snapshot().config.store.retention });
  void health.watch(ended.signal);
  void peers.hold("sweep", ended.signal, (held) => sweepRegularly(held, { store, clock, log, settings }));
  if (peers.shared) void peers.hold("recovery", ended.signal, (held) => recoverLeft(held, resources, workers));
}
