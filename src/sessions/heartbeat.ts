import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { sessionId, type Held, type NewJob, type Cluster, type Store } from "../store/types.ts";
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
  cluster: Pick<Cluster, "shared" | "hold">;
  clock: Clock;
  log: Logger;
  /** Read at each tick, so that a reload takes effect. `everyMs` 0 stops the timer. */
  settings(): { agentId: string; everyMs: number };
}

const LAST_RUN_KEY = "heartbeat.last:";
/** How often the timer looks, so that a changed interval is noticed: at most a minute late. */
const LOOK_MS = 60_000;
/** Between looks for wakes that another gateway has left behind. */
const LEFT_MS = 10_000;
/** How long a requested heartbeat counts as waiting: another gateway may have executed it. */
const SHARED_MS = 1000;
const MAX_LOOKED_AT = 1000;

/**
 * When heartbeats start: periodically, and when woken. The turn itself is a job of the queue with the main
 * session's key, so that it is in order with everything else that talks to it, and survives a crash.
 */
class HeartbeatTimer implements Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #stopped = new AbortController();
  #isWaiting = false;
  /** Another was requested while one waits. */
  #isAgain = false;
  #requests = 0;
  /** What is being queued, and the timer's loop. */
  #queueing: Promise<void> = Promise.resolve();
  #looping: Promise<void> = Promise.resolve();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  request(): void {
    const { store, clock, log, settings } = this.#options;
    if (this.#stopped.signal.aborted) return;
    if (this.#isWaiting) {
      this.#isAgain = true;
      return;
    }
    this.#beginWaiting();
    const queued = store.commit((tx) => tx.add("job", this.#buildJob(settings().agentId)));
    this.#queueing = queued.then(
      () => undefined,
      (error: unknown) => {
        this.#isWaiting = false;
        log.error({ err: safeError(error) }, "a heartbeat could not be queued; it is tried again");
        void clock.sleep(1000, this.#stopped.signal).then(() => this.request());
      },
    );
  }

  ended(): void {
    const { cluster, log } = this.#options;
    this.#isWaiting = false;
    if (!this.#isAgain) return;
    this.#isAgain = false;
    if (!cluster.shared) return this.request();
    // It may have been seen to elsewhere.
    this.#requestIfWanted().catch((error: unknown) =>
      log.error({ err: safeError(error) }, "wakes could not be looked for; it is tried again"),
    );
  }

  async start(): Promise<void> {
    await this.#requestIfWanted();
    this.#looping = this.#options.cluster.hold("heartbeat", this.#stopped.signal, (held) => this.#loop(held));
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all([this.#queueing, this.#looping]);
  }

  #buildJob(agentId: string): NewJob {
    const data: HeartbeatJob = { type: "heartbeat", agentId };
    const enqueuedAt = this.#options.clock.now();
    return { id: `heartbeat:${agentId}`, kind: "turn", key: sessionId(mainSession(agentId)), data, enqueuedAt };
  }

  async #requestIfWanted(): Promise<void> {
    const { store, settings } = this.#options;
    const queued = await store.list("queuedSystemEvents", { agentId: settings().agentId, limit: MAX_LOOKED_AT });
    if (queued.some((event) => event.mode === "now")) this.request();
  }

  /** Counts a heartbeat as waiting: in a cluster for a limited time. */
  #beginWaiting(): void {
    const { cluster, clock } = this.#options;
    this.#isWaiting = true;
    const mine = ++this.#requests;
    if (!cluster.shared) return;
    void clock.sleep(SHARED_MS, this.#stopped.signal).then(() => (this.#isWaiting && mine === this.#requests ? this.ended() : undefined));
  }

  async #tick({ fencingToken }: Held): Promise<void> {
    const { store, clock, settings } = this.#options;
    const { agentId, everyMs } = settings();
    if (everyMs === 0) return;
    const last = await store.get("value", LAST_RUN_KEY + agentId);
    const due = (typeof last === "number" ? last : 0) + everyMs;
    if (typeof last === "number" && due > clock.now()) return;
    const isDue = typeof last === "number";
    if (isDue && !this.#isWaiting) this.#beginWaiting();
    // One commit: whoever has the timer next finds both done, or neither.
    await store.commit((tx) => {
      tx.set("value", LAST_RUN_KEY + agentId, clock.now());
      if (isDue) tx.add("job", this.#buildJob(agentId));
    }, fencingToken);
  }

  async #loop(held: Held): Promise<void> {
    const { cluster, clock, log, settings } = this.#options;
    while (!held.signal.aborted) {
      await this.#tick(held).catch((error: unknown) => log.error({ err: safeError(error) }, "the heartbeat timer failed; it goes on"));
      if (cluster.shared) await this.#requestIfWanted().catch(() => undefined);
      const { everyMs } = settings();
      const lookMs = cluster.shared ? LEFT_MS : LOOK_MS;
      await clock.sleep(everyMs === 0 ? lookMs : Math.min(everyMs, lookMs), held.signal);
    }
  }
}

/** Creates what starts the heartbeats of the main session. */
export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  return new HeartbeatTimer(options);
}
