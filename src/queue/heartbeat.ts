import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import {
  mainSession,
  sessionId,
  type NewJob,
  type Cluster,
  type Reads,
  type Store,
  type Ms,
  type NewSystemEvent,
  type HeartbeatRun,
  type SystemEvent,
} from "../store/types.ts";
import { newId } from "../core/ids.ts";
import { plainText, type TextPart } from "../core/text.ts";

/** Builds a system event that the next heartbeat sees. */
export function buildHeartbeatEvent(
  agentId: string,
  at: Ms,
  source: string,
  text: string,
  outside = false,
): NewSystemEvent {
  return {
    id: newId("sev", at),
    agentId,
    at,
    text: [{ text, outside }],
    source,
    mode: "next-heartbeat",
    unsafe: false,
  };
}

/** The maximum of events and of characters in one heartbeat. */
const MAX_BATCH_EVENTS = 50;
const MAX_BATCH_CHARS = 16_000;
/** From this number of failures on, each failure halves the batch. */
const FAILURES_BEFORE_HALVING = 3;

/** Returns the maximum of events in a heartbeat, depending on the failures of the oldest event. */
export function batchSize(failures: number): number {
  return Math.max(1, MAX_BATCH_EVENTS >> Math.max(0, failures - FAILURES_BEFORE_HALVING + 1));
}

/**
 * Selects the events of the next heartbeat, oldest first, within the limits. Always selects the first event; its failures
 * limit the number of the following ones.
 */
export function selectBatch(queued: readonly SystemEvent[]): SystemEvent[] {
  const first = queued[0];
  if (!first) return [];
  const batch: SystemEvent[] = [];
  let chars = 0;
  for (const event of queued.slice(0, batchSize(first.failures))) {
    chars += plainText(event.text).length;
    if (batch.length > 0 && chars > MAX_BATCH_CHARS) break;
    batch.push(event);
  }
  return batch;
}

/** Returns whether a batch of one event has failed too often: it cannot be halved any more. */
export function isHopeless(batch: readonly SystemEvent[]): boolean {
  const only = batch[0];
  return (
    batch.length === 1 &&
    only !== undefined &&
    batchSize(only.failures) === 1 &&
    only.failures >= FAILURES_BEFORE_HALVING
  );
}

/** The input of a heartbeat: one numbered entry for each event, its text marked as outside text. */
export function renderBatch(batch: readonly SystemEvent[]): TextPart[] {
  const parts: TextPart[] = [];
  for (const [index, event] of batch.entries()) {
    const lead = index === 0 ? "System events since the last heartbeat:\n" : "\n";
    parts.push({
      text: `${lead}${index + 1}. [${new Date(event.at).toISOString()}] `,
      outside: false,
    });
    parts.push(
      ...event.text.map((part) =>
        event.unsafe && part.outside
          ? { text: part.text, outside: false, by: "sender" as const }
          : part,
      ),
    );
  }
  return parts;
}

/** The data of a heartbeat's job. */
export interface HeartbeatJob {
  type: "heartbeat";
  agentId: string;
}

/** Names the run of an agent's heartbeat that has called tools: as long as it has not ended, the job continues it. */
export const HEARTBEAT_RUN_KEY = "heartbeat.run:";

/** The run of a heartbeat that has steps and has not ended. */
export async function findHeartbeatRun(
  agentId: string,
  store: Reads,
): Promise<HeartbeatRun | undefined> {
  const id = await store.values.get(HEARTBEAT_RUN_KEY + agentId);
  const run = typeof id === "string" ? await store.runs.get(id) : undefined;
  return run?.kind === "heartbeat" && run.endedAt === undefined ? run : undefined;
}

interface HeartbeatOptions {
  store: Store;
  cluster: Pick<Cluster, "shared">;
  clock: Clock;
  log: Logger;
  /** The agents of the current snapshot. */
  agentIds(): readonly string[];
}

/** The time for which a requested heartbeat counts as waiting: another gateway may have executed it. */
const SHARED_MS = 1000;
const MAX_LOOKED_AT = 1000;

/** A heartbeat that was requested and has not ended. */
interface WaitingHeartbeat {
  /** Another was requested meanwhile. */
  isAgain: boolean;
}

/**
 * Starts the heartbeats of all agents. The schedules say when they come by themselves. The turn itself is a job of the queue with
 * the main session's key, so that it is in order with everything else that talks to it, and survives a crash.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #stopped = new AbortController();
  /** By agent. */
  readonly #waiting = new Map<string, WaitingHeartbeat>();
  /** The commits of jobs that are under way. */
  #queueing: Promise<unknown> = Promise.resolve();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Starts a heartbeat of an agent as soon as its main session is free. Requests that come while one waits share it. */
  request(agentId: string): void {
    const { store, clock, log } = this.#options;
    if (this.#stopped.signal.aborted) return;
    const waiting = this.#waiting.get(agentId);
    if (waiting) return void (waiting.isAgain = true);
    const job = this.plan(agentId);
    const queued = store
      .commit((tx) => tx.jobs.add(job))
      .catch((error: unknown) => {
        this.#waiting.delete(agentId);
        log.error({ err: safeError(error) }, "a heartbeat could not be queued; it is tried again");
        void clock.sleep(1000, this.#stopped.signal).then(() => this.request(agentId));
      });
    this.#queueing = Promise.all([this.#queueing, queued]);
  }

  /** Makes the job of a heartbeat, which the caller commits: it counts as waiting. */
  plan(agentId: string): NewJob {
    if (!this.#waiting.has(agentId)) this.#beginWaiting(agentId);
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

  /** To be called when a heartbeat's turn has ended. */
  ended(agentId: string): void {
    const { cluster, log } = this.#options;
    const isAgain = this.#waiting.get(agentId)?.isAgain;
    this.#waiting.delete(agentId);
    if (!isAgain) return;
    if (!cluster.shared) return this.request(agentId);
    // It may have been seen to elsewhere.
    this.#requestIfWanted(agentId).catch((error: unknown) =>
      log.error({ err: safeError(error) }, "wakes could not be looked for; it is tried again"),
    );
  }

  /** Requests a heartbeat of each agent whose queue has a wake that none has seen. */
  async resume(): Promise<void> {
    for (const agentId of this.#options.agentIds()) await this.#requestIfWanted(agentId);
  }

  /** Starts no more; resolves when nothing is being written any more. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#queueing;
  }

  async #requestIfWanted(agentId: string): Promise<void> {
    const queued = await this.#options.store.systemEvents.listQueued({
      agentId,
      limit: MAX_LOOKED_AT,
    });
    if (queued.some((event) => event.mode === "now")) this.request(agentId);
  }

  /** Counts a heartbeat as waiting: in a cluster for a limited time. */
  #beginWaiting(agentId: string): void {
    const { cluster, clock } = this.#options;
    const waiting = { isAgain: false };
    this.#waiting.set(agentId, waiting);
    if (!cluster.shared) return;
    void clock
      .sleep(SHARED_MS, this.#stopped.signal)
      .then(() => (this.#waiting.get(agentId) === waiting ? this.ended(agentId) : undefined));
  }
}
