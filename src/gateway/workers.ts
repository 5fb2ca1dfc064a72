import { Approvals } from "../people/approvals.ts";
import { createApprovalRules, type ApprovalRules } from "../people/rules.ts";
import { Memory } from "../people/notes.ts";
import { createPeople, type KnownPeople } from "../people/links.ts";
import { Admission } from "../queue/admission.ts";
import { cancelRun, createRunEnds, type RunEnds } from "../turns/run-waiters.ts";
import { createChats } from "../chat/chats.ts";
import type { Chats } from "../chat/types.ts";
import type { RunOperations } from "../turns/types.ts";
import { ParkingLot } from "../queue/parking-lot.ts";
import { restoreWaitingRuns } from "../turns/model-gate.ts";
import { configuredTranscriber } from "../agent/transcribe.ts";
import { stageFile } from "../knowledge/upload-staging.ts";
import type { AttachmentDeps } from "../turns/channel/attachments.ts";
import { createTurnWorker, type TurnWorker } from "../turns/worker.ts";
import { safeError } from "../core/errors.ts";
import { createCallbackChannel } from "../delivery/callback.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../delivery/deliver.ts";
import { channelServices, type ListenDeps } from "../plugin/channel-services.ts";
import { createChannelHealth, type ChannelHealth } from "../delivery/health.ts";
import type { TurnExtension } from "../agent/types.ts";
import { collectSchedules } from "../turns/schedules/list.ts";
import { createApprovedSchedules, createPauses } from "../turns/schedules/proposals.ts";
import { Scheduler } from "../turns/schedules/scheduler.ts";
import { createSchedules, type Schedules } from "../turns/schedules/schedules.ts";
import { createScheduleTool } from "../turns/schedules/tool.ts";
import { Heartbeat } from "../sessions/heartbeat.ts";
import type { Resources } from "./resources.ts";
import type { Intake } from "../intake/receive.ts";
import { combineEvents } from "../intake/resolve.ts";
import type { LoadedSnapshot } from "./snapshot.ts";
import type { Services } from "../plugin/services.ts";
import { configuredSearchModels } from "../knowledge/models/configured.ts";
import { createQuestions, recordLost } from "../people/notify.ts";
import { createLazyKnowledge, type LazyKnowledge } from "../knowledge/lazy.ts";
import { createApiKeys, type ApiKeys, knowledgeFor } from "../chat/api-keys.ts";
import { findLostRequests } from "../operate/watch/lost-requests.ts";
import { createFailureAlerts } from "./failure-alerts.ts";
import { sweepRegularly } from "../store/sweeper.ts";
import type { Held, Cluster } from "../store/types.ts";

/** The parts that start heartbeats and fire schedules, what people do with schedules, and the tool that proposes them. */
interface ScheduleParts {
  heartbeat: Heartbeat;
  scheduler: Scheduler;
  schedules: Schedules;
  scheduleTool: TurnExtension;
}

/** Everything that executes accepted work. */
export interface Workers extends ScheduleParts {
  deliveries: DeliveryWorker;
  turns: TurnWorker;
  /** Cancels a run, whichever gateway executes it. */
  cancel: RunOperations["cancel"];
  /** Turns of API users: they are not queued, since a person waits for them. */
  chats: Chats;
  keys: ApiKeys;
  knowledge: LazyKnowledge;
  runEnds: RunEnds;
  approvals: Approvals;
  rules: ApprovalRules;
  people: KnownPeople;
  memory: Memory;
  admission: Admission;
  health: ChannelHealth;
  /** Where runs and deliveries wait for what is away. */
  parking: ParkingLot;
}

/** The documents: their threads and the code that reads files are loaded when something first needs them. */
function createDocuments(
  { stateDir, options: { env, fetch }, clock, log, sql, snapshot, opened }: Resources,
  { breaker }: ParkingLot,
): LazyKnowledge {
  const extractors = () => snapshot().offers.extractors.map(({ value }) => value);
  const place = { dir: stateDir, sql, env, log };
  const knowledge = createLazyKnowledge({
    ...place,
    extractors,
    config: () => snapshot().config.platform.knowledge,
    async open(extractor) {
      const { createKnowledge } = await import("../knowledge/knowledge.ts");
      const { config, models } = snapshot();
      const searchModels = configuredSearchModels({ config, env, fetch, kinds: models.kinds });
      const settings = { extractor, clock, config: config.platform.knowledge, breaker };
      return createKnowledge({ ...place, ...settings, ...searchModels });
    },
  });
  opened.defer(() => knowledge.close());
  return knowledge;
}

/** What reads the files of messages. */
function createAttachmentDeps(
  { stateDir, options: { env, fetch }, clock, snapshot }: Resources,
  knowledge: LazyKnowledge,
): AttachmentDeps {
  return {
    clock,
    stage: (source, maxBytes) => stageFile(stateDir, source, maxBytes),
    async readText({ maxChars, limits, ...document }, signal) {
      const wanted = {
        ...document,
        limits: { ...limits, textChars: maxChars },
        text: "cut",
      } as const;
      const read = await knowledge.readText(wanted, signal);
      return read.ok ? read : { ok: false, reason: read.error.message };
    },
    transcriber: () =>
      configuredTranscriber({
        config: snapshot().config,
        env,
        fetch,
        kinds: snapshot().models.kinds,
      }),
  };
}

/** Creates what sends replies and receipts. */
function createDeliveries(resources: Resources, parking: ParkingLot): DeliveryWorker {
  const { store, clock, metrics, snapshot } = resources;
  return createDeliveryWorker({
    ...resources,
    parking,
    channels: () => snapshot().channels,
    mainAgentId: () => snapshot().agents.default.id,
    callbacks: createCallbackChannel({
      ...resources,
      getCallback: (mapping) =>
        mapping === undefined
          ? snapshot().config.tools.approvalCallback
          : snapshot().getCallback(mapping),
      hosts: () => snapshot().config.hooks.callbackHosts,
    }),
    isDecided: async (id) => {
      const approval = await store.approvals.get(id);
      return !approval || approval.decision !== undefined || approval.expiresAt <= clock.now();
    },
    maxAgeMs: () => snapshot().config.delivery.maxAge,
    onOutcome: ({ channel, status }) => metrics.deliveryEnded({ channel, status }),
  });
}

/** Creates the parts that schedules need, and starts none of them. */
function createScheduleParts(resources: Resources): ScheduleParts {
  const { store, snapshot } = resources;
  const heartbeat = new Heartbeat({
    ...resources,
    agentIds: () => snapshot().agents.list.map(({ id }) => id),
  });
  const approved = createApprovedSchedules(resources);
  const pauses = createPauses(resources);
  const scheduler = new Scheduler({
    ...resources,
    heartbeat,
    schedules: async () => collectSchedules(snapshot(), await approved.list()),
    paused: async () => new Set((await pauses.list()).map(({ name }) => name)),
  });
  const changed = (): void => scheduler.look();
  const add: typeof approved.add = async (schedule) => {
    const added = await approved.add(schedule);
    changed();
    return added;
  };
  return {
    heartbeat,
    scheduler,
    schedules: createSchedules({
      ...resources,
      heartbeat,
      approved,
      pauses,
      context: snapshot,
      changed,
    }),
    scheduleTool: createScheduleTool({ store, approved: { add } }),
  };
}

/** Creates the workers, and starts none of them. */
export function createWorkers(resources: Resources): Workers {
  const { cluster, metrics, snapshot, ended } = resources;
  const context = { ...resources, context: snapshot, channels: () => snapshot().channels };
  const parking = new ParkingLot({
    ...resources,
    signal: ended.signal,
    onAnswered: (jobId, of) => cluster.tell("answered", [JSON.stringify([jobId, of])]),
  });
  const timed = createScheduleParts(resources);
  const runEnds = createRunEnds({ ...resources, signal: ended.signal });
  const keys = createApiKeys({ ...resources, config: () => snapshot().config });
  const questions = createQuestions(resources, snapshot);
  const rules = createApprovalRules(resources);
  // The words of all languages are loaded when notes are first searched.
  const memory = new Memory(resources, async (texts, query) =>
    (await import("../knowledge/short-texts.ts")).searchTexts(texts, query),
  );
  const knowledge = createDocuments(resources, parking);
  const runDeps = {
    ...context,
    parking,
    onRunEnd: runEnds.ended,
    questions,
    rules,
    memory,
    knowledge: knowledgeFor(knowledge, keys),
    scheduleTool: timed.scheduleTool,
  };
  const approvals = new Approvals({
    ...resources,
    approvers: () => snapshot().approvers,
    questions,
  });
  const people = createPeople(context);
  const admission = new Admission(context);
  const cancel: Workers["cancel"] = (id) => cancelRun(id, { ...resources, chats, turns, runEnds });
  const turns: TurnWorker = createTurnWorker({
    ...runDeps,
    attachments: createAttachmentDeps(resources, knowledge),
    heartbeat: timed.heartbeat,
    admission,
    approvals,
    people,
    cancel,
    combine: (mapping, events) => combineEvents(mapping, events, snapshot()),
  });
  const chats = createChats(runDeps);
  const health = createChannelHealth(context);
  metrics.watchChannels(health.states);
  metrics.watchBreakers(parking.states);
  metrics.watchMcpServers(() => snapshot().runtime.mcpServers());
  return {
    ...timed,
    deliveries: createDeliveries(resources, parking),
    turns,
    cancel,
    chats,
    keys,
    knowledge,
    runEnds,
    approvals,
    rules,
    people,
    memory,
    admission,
    health,
    parking,
  };
}

/** The gateways that have not ended. One that cannot reach the store may still execute its runs. */
const listPresent = async (cluster: Cluster): Promise<Set<string>> =>
  new Set((await cluster.list()).filter((peer) => !peer.gone).map((peer) => peer.id));

/** Between looks for what gateways that are gone have left behind. */
const LEFT_MS = 10_000;

/** Ends the API turns of gateways that are gone, and gives back what their runs had taken of budgets. One gateway does this for all. */
async function recoverLeft(
  { signal, fencingToken }: Held,
  { cluster, clock, log }: Resources,
  { chats, admission }: Workers,
): Promise<void> {
  while (!signal.aborted) {
    await listPresent(cluster)
      .then((present) => chats.recover(present, fencingToken))
      .then(() => admission.tidy())
      .catch((error: unknown) =>
        log.warn(
          { err: safeError(error) },
          "what gateways that are gone have left could not be looked for",
        ),
      );
    await clock.sleep(LEFT_MS, signal);
  }
}

/** Counts what waits and what has been spent, before anything is accepted: also without workers. */
export async function restoreWorkers(
  { queue, cluster, swapped, log }: Resources,
  { admission, chats, knowledge }: Workers,
): Promise<void> {
  cluster.on("cancel", (runIds) => {
    for (const id of runIds) void chats.cancel(id);
  });
  await knowledge.sweep();
  await queue.recover();
  await chats.recover(await listPresent(cluster));
  await admission.recount();
  // Limits may have changed with the config: the start times of waiting runs are calculated again.
  swapped.push(() => {
    admission
      .recount()
      .catch((error: unknown) =>
        log.error({ err: safeError(error) }, "limits could not be counted again after a reload"),
      );
  });
}

/** Starts the workers, and what only one gateway does at a time. */
export async function startWorkers(
  resources: Resources,
  workers: Workers,
  services: Services,
  { receiveMessage: receive, receivePress: decide, denials }: Intake,
): Promise<void> {
  const { heartbeat, scheduler, turns, deliveries, health, knowledge, parking, admission } =
    workers;
  const { store, cluster, clock, log, snapshot, ended, reloader, swapped, hookShapes } = resources;
  const notDelivered: ListenDeps["notDelivered"] = (channel, message) =>
    recordLost(channel, message, { store, channels: () => snapshot().channels, clock });
  const getServices = ({ snapshot: { offers, channels } }: LoadedSnapshot) => [
    ...offers.sources.map(({ plugin: id, value: service }) => ({ id, service })),
    ...channelServices(channels, { store, receive, decide, notDelivered }),
  ];
  await services.replace(getServices(reloader.loaded()));
  swapped.push((loaded) => void services.replace(getServices(loaded)));
  store.onSystemEvents((agentId, mode) => {
    if (mode === "now") heartbeat.request(agentId);
  });
  cluster.on("cancel", (runIds) => {
    for (const id of runIds) if (turns.isActive(id)) void turns.cancel(id);
  });
  cluster.on("steer", (runIds) => runIds.forEach((id) => turns.steer(id)));
  cluster.on("answered", (values) => {
    for (const value of values)
      parking.answered(...(JSON.parse(value) as [jobId: string, of: string]));
  });
  await restoreWaitingRuns(parking, { store, clock, context: snapshot() });
  void admission.run(ended.signal);
  turns.start();
  deliveries.start();
  await scheduler.start();
  swapped.push(() => scheduler.look());
  // Hooks and chats do not wait for documents, nor fail with them.
  knowledge
    .start()
    .catch((error: unknown) =>
      log.error({ err: safeError(error) }, "the documents could not be opened"),
    );
  const settings = () => ({
    bodies: snapshot().config.hooks.retention,
    ...snapshot().config.store.retention,
  });
  void health.watch(ended.signal);
  const alerts = createFailureAlerts({
    ...resources,
    lost: (since) => findLostRequests(denials.list(), snapshot(), since),
    send: health.test,
  });
  void alerts.watchRefusals(ended.signal);
  void cluster.hold("sweep", ended.signal, async (held) => {
    // Bodies are counted before retention takes them.
    await hookShapes.count(held);
    await Promise.all([
      alerts.run(held),
      hookShapes.countRegularly(held),
      sweepRegularly(held, { store, clock, log, settings }),
    ]);
  });
  if (cluster.shared)
    void cluster.hold("recovery", ended.signal, (held) => recoverLeft(held, resources, workers));
}
