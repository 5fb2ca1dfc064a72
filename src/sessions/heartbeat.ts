import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { sessionId, type Held, type NewJob, type Peers, type Store } from "../store/types.ts";
import { mainSession } from "./keys.ts";

/** What the queue's job of a heartbeat carries. */
export interface HeartbeatJob {
  type: "heartbeat";
  agentId: string;
}

export interface Heartbeat {
  /** Starts a heartbeat as soon as the main session is free. Requests that come while one waits share it. */
  request(): void;
  /** To be called when a heartbeat's turn has ended. */
  ended(): void;
  start(): Promise<void>;
  /** Starts no more; resolves when nothing is being written any more. */
  stop(): Promise<void>;
}

export interface HeartbeatOptions {
  store: Store;
  /** The timer runs in one gateway at a time. */
  peers: Pick<Peers, "shared" | "hold">;
  clock: Clock;
  log: Logger;
  /** Read at each tick, so that a reload takes effect. `everyMs` 0 stops the timer. */
  settings(): { agentId: string; everyMs: number };
}

const LAST = "heartbeat.last:";
/** How often the timer looks, so that a changed interval is noticed: at most a minute late. */
const LOOK_MS = 60_000;
/** Between looks for wakes that a gateway has left behind: where there are several. */
const LEFT_MS = 10_000;
/** Another gateway may have carried the heartbeat out without this one hearing of it: it counts as waiting for so long. */
const SHARED_MS = 1000;
const MAX_LOOKED_AT = 1000;

/**
 * When heartbeats start: periodically, and when woken. The turn itself is a job of the queue with the main
 * session's key, so that it is in order with everything else that talks to it, and survives a crash.
 */
export function createHeartbeat({ store, peers, clock, log, settings }: HeartbeatOptions): Heartbeat {
  const stopped = new AbortController();
  let waiting = false;
  let again = false;
  /** Counts the heartbeats that were asked for. */
  let asked = 0;
  /** What is being queued, and the timer's loop. */
  let queueing: Promise<void> = Promise.resolve();
  let looping: Promise<void> = Promise.resolve();

  const jobOf = (agentId: string): NewJob => {
    const data: HeartbeatJob = { type: "heartbeat", agentId };
    return { id: `heartbeat:${agentId}`, kind: "turn", key: sessionId(mainSession(agentId)), data, enqueuedAt: clock.now() };
  };

  const isWanted = async (): Promise<boolean> => {
    const queued = await store.queuedSystemEvents(settings().agentId, MAX_LOOKED_AT);
    return queued.some((event) => event.mode === "now");
  };

  const requestIfWanted = async (): Promise<void> => {
    if (await isWanted()) request();
  };

  const over = (): void => {
    waiting = false;
    if (!again) return;
    again = false;
    if (!peers.shared) return request();
    // It may have been seen to elsewhere.
    requestIfWanted().catch((error: unknown) => log.error({ err: safeError(error) }, "wakes could not be looked for; it is tried again"));
  };

  const isAsked = (): void => {
    waiting = true;
    const mine = ++asked;
    if (peers.shared) void clock.sleep(SHARED_MS, stopped.signal).then(() => (waiting && mine === asked ? over() : undefined));
  };

  const request = (): void => {
    if (stopped.signal.aborted) return;
    if (waiting) {
      again = true;
      return;
    }
    isAsked();
    const queued = store.commit((tx) => tx.enqueue(jobOf(settings().agentId)));
    queueing = queued.then(
      () => undefined,
      (error: unknown) => {
        waiting = false;
        log.error({ err: safeError(error) }, "a heartbeat could not be queued; it is tried again");
        void clock.sleep(1000, stopped.signal).then(request);
      },
    );
  };

  const tick = async ({ fence }: Held): Promise<void> => {
    const { agentId, everyMs } = settings();
    if (everyMs === 0) return;
    const last = await store.getValue(LAST + agentId);
    const due = (typeof last === "number" ? last : 0) + everyMs;
    if (typeof last === "number" && due > clock.now()) return;
    const isDue = typeof last === "number";
    if (isDue && !waiting) isAsked();
    // One commit: whoever has the timer next finds both done, or neither.
    await store.commit((tx) => {
      tx.setValue(LAST + agentId, clock.now());
      if (isDue) tx.enqueue(jobOf(agentId));
    }, fence);
  };

  const loop = async (held: Held): Promise<void> => {
    while (!held.signal.aborted) {
      await tick(held).catch((error: unknown) => log.error({ err: safeError(error) }, "the heartbeat timer failed; it goes on"));
      if (peers.shared) await requestIfWanted().catch(() => undefined);
      const { everyMs } = settings();
      const lookMs = peers.shared ? LEFT_MS : LOOK_MS;
      await clock.sleep(everyMs === 0 ? lookMs : Math.min(everyMs, lookMs), held.signal);
    }
  };

  return {
    request,
    ended: over,
    async start() {
      await requestIfWanted();
      looping = peers.hold("heartbeat", stopped.signal, loop);
    },
    async stop() {
      stopped.abort();
      await Promise.all([queueing, looping]);
    },
  };
}
