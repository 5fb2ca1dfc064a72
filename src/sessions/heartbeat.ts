import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { sessionId, type NewJob, type Cluster, type Store } from "../store/types.ts";
import { mainSession } from "./keys.ts";

/** What the queue's job of a heartbeat carries. */
export interface HeartbeatJob {
  type: "heartbeat";
  agentId: string;
}

/** The heartbeats of all agents. The schedules say when they come by themselves. */
export interface Heartbeat {
  /** Starts a heartbeat of an agent as soon as its main session is free. Requests that come while one waits share it. */
  request(agentId: string): void;
  /** Makes the job of a heartbeat, which the caller commits: it counts as waiting. */
  plan(agentId: string): NewJob;
  /** To be called when a heartbeat's turn has ended. */
  ended(agentId: string): void;
  /** Requests a heartbeat of each agent whose queue has a wake that none has seen. */
  resume(): Promise<void>;
  /** Starts no more; resolves when nothing is being written any more. */
  stop(): Promise<void>;
}

export interface HeartbeatOptions {
  store: Store;
  cluster: Pick<Cluster, "shared">;
  clock: Clock;
  log: Logger;
  /** The agents of the current snapshot. */
  agentIds(): readonly string[];
}

/** How long a requested heartbeat counts as waiting: another gateway may have executed it. */
const SHARED_MS = 1000;
const MAX_LOOKED_AT = 1000;

/** The requests for heartbeats of one agent. */
interface Requests {
  isWaiting: boolean;
  /** Another was requested while one waits. */
  isAgain: boolean;
  count: number;
}

/**
 * Starts heartbeats. The turn itself is a job of the queue with the main session's key, so that it is in order with everything
 * else that talks to it, and survives a crash.
 */
class Heartbeats implements Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #stopped = new AbortController();
  readonly #requests = new Map<string, Requests>();
  /** What is being queued. */
  #queueing: Promise<unknown> = Promise.resolve();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  request(agentId: string): void {
    const { store, clock, log } = this.#options;
    if (this.#stopped.signal.aborted) return;
    const requests = this.#requestsFor(agentId);
    if (requests.isWaiting) {
      requests.isAgain = true;
      return;
    }
    const job = this.plan(agentId);
    const queued = store
      .commit((tx) => tx.add("job", job))
      .catch((error: unknown) => {
        requests.isWaiting = false;
        log.error({ err: safeError(error) }, "a heartbeat could not be queued; it is tried again");
        void clock.sleep(1000, this.#stopped.signal).then(() => this.request(agentId));
      });
    this.#queueing = Promise.all([this.#queueing, queued]);
  }

  plan(agentId: string): NewJob {
    if (!this.#requestsFor(agentId).isWaiting) this.#beginWaiting(agentId);
    const data: HeartbeatJob = { type: "heartbeat", agentId };
    const enqueuedAt = this.#options.clock.now();
    return {
      id: `heartbeat:${agentId}`,
      kind: "turn",
      key: sessionId(mainSession(agentId)),
      data,
      enqueuedAt,
    };
  }

  ended(agentId: string): void {
    const { cluster, log } = this.#options;
    const requests = this.#requestsFor(agentId);
    requests.isWaiting = false;
    if (!requests.isAgain) return;
    requests.isAgain = false;
    if (!cluster.shared) return this.request(agentId);
    // It may have been seen to elsewhere.
    this.#requestIfWanted(agentId).catch((error: unknown) =>
      log.error({ err: safeError(error) }, "wakes could not be looked for; it is tried again"),
    );
  }

  async resume(): Promise<void> {
    for (const agentId of this.#options.agentIds()) await this.#requestIfWanted(agentId);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#queueing;
  }

  #requestsFor(agentId: string): Requests {
    const known = this.#requests.get(agentId) ?? { isWaiting: false, isAgain: false, count: 0 };
    this.#requests.set(agentId, known);
    return known;
  }

  async #requestIfWanted(agentId: string): Promise<void> {
    const queued = await this.#options.store.list("queuedSystemEvents", {
      agentId,
      limit: MAX_LOOKED_AT,
    });
    if (queued.some((event) => event.mode === "now")) this.request(agentId);
  }

  /** Counts a heartbeat as waiting: in a cluster for a limited time. */
  #beginWaiting(agentId: string): void {
    const { cluster, clock } = this.#options;
    const requests = this.#requestsFor(agentId);
    requests.isWaiting = true;
    const mine = ++requests.count;
    if (!cluster.shared) return;
    void clock
      .sleep(SHARED_MS, this.#stopped.signal)
      .then(() =>
        requests.isWaiting && mine === requests.count ? this.ended(agentId) : undefined,
      );
  }
}

/** Creates what starts the heartbeats of the main sessions. */
export function createHeartbeat(options: HeartbeatOptions): Heartbeat {
  return new Heartbeats(options);
}
