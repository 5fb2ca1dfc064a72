import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { sessionId, type Store } from "../store/types.ts";
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
  clock: Clock;
  log: Logger;
  /** Read at each tick, so that a reload takes effect. `everyMs` 0 stops the timer. */
  settings(): { agentId: string; everyMs: number };
}

const LAST = "heartbeat.last:";
/** How often the timer looks, so that a changed interval is noticed: at most a minute late. */
const LOOK_MS = 60_000;

/**
 * When heartbeats start: periodically, and when woken. The turn itself is a job of the queue with the main
 * session's key, so that it is in order with everything else that talks to it, and survives a crash.
 */
export function createHeartbeat({ store, clock, log, settings }: HeartbeatOptions): Heartbeat {
  const stopped = new AbortController();
  let waiting = false;
  let again = false;
  /** What is being queued, and the timer's loop. */
  let queueing: Promise<void> = Promise.resolve();
  let looping: Promise<void> = Promise.resolve();

  const enqueue = async (): Promise<void> => {
    const { agentId } = settings();
    const data: HeartbeatJob = { type: "heartbeat", agentId };
    const job = { id: `heartbeat:${agentId}`, kind: "turn" as const, key: sessionId(mainSession(agentId)), data, enqueuedAt: clock.now() };
    await store.commit((tx) => tx.enqueue(job));
  };

  const request = (): void => {
    if (stopped.signal.aborted) return;
    if (waiting) {
      again = true;
      return;
    }
    waiting = true;
    queueing = enqueue().catch((error: unknown) => {
      waiting = false;
      log.error({ err: safeError(error) }, "a heartbeat could not be queued; it is tried again");
      void clock.sleep(1000, stopped.signal).then(request);
    });
  };

  const tick = async (): Promise<void> => {
    const { agentId, everyMs } = settings();
    if (everyMs === 0) return;
    const last = await store.getValue(LAST + agentId);
    const due = (typeof last === "number" ? last : 0) + everyMs;
    if (typeof last === "number" && due > clock.now()) return;
    await store.commit((tx) => tx.setValue(LAST + agentId, clock.now()));
    if (typeof last === "number") request();
  };

  const loop = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      await tick().catch((error: unknown) => log.error({ err: safeError(error) }, "the heartbeat timer failed; it goes on"));
      const { everyMs } = settings();
      await clock.sleep(everyMs === 0 ? LOOK_MS : Math.min(everyMs, LOOK_MS), stopped.signal);
    }
  };

  return {
    request,
    ended() {
      waiting = false;
      if (!again) return;
      again = false;
      request();
    },
    async start() {
      const queued = await store.queuedSystemEvents(settings().agentId, 1000);
      if (queued.some((event) => event.mode === "now")) request();
      looping = loop();
    },
    async stop() {
      stopped.abort();
      await Promise.all([queueing, looping]);
    },
  };
}
