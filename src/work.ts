import { createAdmission } from "./actions/admission.ts";
import { createReceiver } from "./actions/receive.ts";
import { createChats } from "./actions/chat.ts";
import type { Chats } from "./actions/chat-types.ts";
import { createRunEnds, type RunEnds } from "./actions/run-ends.ts";
import type { Admission } from "./actions/types.ts";
import { createTurnWorker, type TurnWorker } from "./actions/worker.ts";
import { systemClock } from "./core/clock.ts";
import { safeError } from "./core/errors.ts";
import { createCallbackChannel } from "./delivery/callback.ts";
import { createDeliveryWorker, type DeliveryWorker } from "./delivery/deliver.ts";
import { channelServices } from "./delivery/listen.ts";
import { createChannelHealth, type ChannelHealth } from "./delivery/health.ts";
import type { Ground } from "./ground.ts";
import { combineEvents } from "./http/resolve.ts";
import type { Built } from "./snapshot.ts";
import type { Services } from "./plugin/services.ts";
import { createHeartbeat, type Heartbeat } from "./sessions/heartbeat.ts";
import { sweepRegularly } from "./store/sweeper.ts";

/** What carries accepted work out. */
export interface Work {
  heartbeat: Heartbeat;
  deliveries: DeliveryWorker;
  turns: TurnWorker;
  /** Turns of the API's users: they do not wait in the queue, since somebody waits for them. */
  chats: Chats;
  runEnds: RunEnds;
  admission: Admission;
  health: ChannelHealth;
}

/** Makes what carries accepted work out, and starts none of it. */
export function createWork({ store, queue, log, metrics, snapshot, ended }: Ground): Work {
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
  const runEnds = createRunEnds({ store, clock, signal: ended.signal });
  const admission = createAdmission({ store, clock, log, context: snapshot });
  const turns = createTurnWorker({
    store,
    queue,
    clock,
    log,
    context: snapshot,
    heartbeat,
    onRunEnd: runEnds.ended,
    admission,
    combine: (mapping, events) => combineEvents(mapping, events, snapshot()),
    metrics,
  });
  const health = createChannelHealth({ channels: () => snapshot().channels, clock, log });
  metrics.watchChannels(health.states);
  const chats = createChats({ store, clock, log, context: snapshot, metrics });
  return { heartbeat, deliveries, turns, chats, runEnds, admission, health };
}

/** Counts what waits and what has been spent, before anything is accepted: also without workers. */
export async function restoreWork({ queue, swapped, log }: Ground, { admission, chats }: Work): Promise<void> {
  await queue.recover();
  await chats.recover();
  await admission.recount();
  // Limits may have changed with the config: those that wait get their moment afresh.
  swapped.push(() => {
    admission.recount().catch((error: unknown) => log.error({ err: safeError(error) }, "limits could not be counted afresh"));
  });
}

/** Starts all that carries work out. */
export async function startWork(ground: Ground, { heartbeat, turns, deliveries, health }: Work, services: Services): Promise<void> {
  const { store, log, snapshot, ended, reloader, swapped } = ground;
  const receive = createReceiver({ store, clock: systemClock, log, context: snapshot });
  const servicesOf = ({ services: own, snapshot: { channels } }: Built) => [...own, ...channelServices(channels, { store, receive })];
  await services.replace(servicesOf(reloader.built()));
  swapped.push((built) => void services.replace(servicesOf(built)));
  store.onSystemEvents((_agentId, mode) => {
    if (mode === "now") heartbeat.request();
  });
  turns.start();
  deliveries.start();
  await heartbeat.start();
  const settings = () => ({ bodies: snapshot().config.hooks.retention, ...snapshot().config.store.retention });
  void health.watch(ended.signal);
  void sweepRegularly({ store, clock: systemClock, log, settings, signal: ended.signal });
}
