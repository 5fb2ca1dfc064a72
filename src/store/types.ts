import type { WakeMode } from "../config/schema/common.ts";
import type { Failure } from "../core/errors.ts";
import type { EventOutcome, EventRecord } from "./event-record.ts";
import type { DeliveryChange, DeliveryRecord, DeliveryState, NewDelivery } from "./deliveries.ts";
import type { Job, JobKind, NewJob } from "./job-records.ts";
import type { Ledger } from "./ledger.ts";
import type { Fence, Peers } from "./peers.ts";
import type {
  Collected,
  DedupeEntry,
  DedupeRecord,
  LastRoute,
  Ms,
  NewSystemEvent,
  NewTurn,
  RunChange,
  RunRecord,
  RunStatus,
  SessionOrigin,
  SessionRecord,
  SessionRef,
  SystemEvent,
  SystemEventState,
  TurnRecord,
} from "./records.ts";

export * from "./event-record.ts";
export * from "./deliveries.ts";
export * from "./records.ts";
export * from "./routes.ts";
export type * from "./job-records.ts";
export type { Allowance, Ledger } from "./ledger.ts";
export type { Fence, Held, LeaseRecord, Peer, PeerInfo, Peers } from "./peers.ts";

/**
 * What one commit writes. Methods only collect or write, they never read; order is kept.
 * All of a commit is on disk, or none of it.
 */
export interface Writes {
  updateRun(id: string, change: RunChange): void;
  insertRun(run: RunRecord): void;
  appendTurn(session: SessionRef, turn: NewTurn): void;
  resetSession(session: SessionRef): void;
  deleteSession(session: SessionRef): void;
  addSystemEvent(event: NewSystemEvent): void;
  setSystemEvents(ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }): void;
  addDelivery(delivery: NewDelivery): void;
  updateDelivery(id: string, change: DeliveryChange): void;
  setLastRoute(route: LastRoute): void;
  setValue(key: string, value: unknown): void;
  /** Adds a job; one whose id is there already is left as it is. */
  enqueue(job: NewJob): void;
  /** Ends a job that this process holds, so that the next of its key may start. */
  completeJob(job: Job): void;
  /** Puts a job back, still first of its key, to start no earlier than `runAt`. `resetAttempts` forgets its starts. */
  retryJob(job: Job, runAt: Ms, options?: { resetAttempts?: boolean }): void;
  /** Changes when a job may start that nobody holds; it keeps its place within its key. */
  rescheduleJob(kind: JobKind, id: string, runAt: Ms): void;
  /** Drops the events that a run has collected. */
  dropCollected(runId: string): void;
  /** Takes a job out of the queue that nobody holds (a cancelled run). */
  removeJob(kind: JobKind, id: string): void;
}

export type AcceptResult =
  | { kind: "accepted" }
  | { kind: "duplicate"; record: DedupeRecord }
  /** A window that the event was to join has closed: nothing is written. */
  | { kind: "closed" };

export interface ListQuery {
  limit?: number;
  /** Ids older than this one (for paging). */
  before?: string;
  /** Ids that begin so. */
  idPrefix?: string;
  since?: Ms;
}

export interface Store {
  /**
   * Writes an event, its duplicate keys and its work in one durable commit, shared with all that come in during
   * the same turn of the event loop. Resolves once it is on disk. Where one of the keys is bound already, nothing
   * is written and the record that holds it comes back. Throws RouseError `store_unavailable` (disk full, …), also
   * where the lease of `fence` is lost.
   */
  accept(event: EventRecord, keys?: readonly DedupeEntry[], fence?: Fence): Promise<AcceptResult>;
  /**
   * Runs `write` inside a durable commit, grouped with others. With `held`, nothing is written and `false` comes
   * back when this process no longer holds that job or lease.
   */
  commit(write: (tx: Writes) => void, held?: Job | Fence): Promise<boolean>;

  /** Called after system events of accepted wakes have joined a main session's queue. Returns its undo. */
  onSystemEvents(listener: (agentId: string, mode: WakeMode) => void): () => void;

  findDuplicates(keys: readonly { scope: string; key: string }[]): Promise<(DedupeRecord | undefined)[]>;
  getEvent(id: string): Promise<EventRecord | undefined>;
  listEvents(query: ListQuery & { outcome?: EventOutcome; path?: string; mapping?: string; failedRuns?: boolean }): Promise<EventRecord[]>;
  getRun(id: string): Promise<RunRecord | undefined>;
  listRuns(query: ListQuery & { status?: RunStatus; sessionKey?: string; eventId?: string }): Promise<RunRecord[]>;
  /** The events that a run has collected so far, in the order in which they came. */
  getCollected(runId: string): Promise<Collected[]>;
  getDelivery(id: string): Promise<DeliveryRecord | undefined>;
  /** `failed` lists those without a route, too. */
  listDeliveries(query: ListQuery & { status?: DeliveryState; channel?: string }): Promise<DeliveryRecord[]>;
  /** The turns of a session, oldest first. */
  getTurns(session: SessionRef): Promise<TurnRecord[]>;
  getSession(session: SessionRef): Promise<SessionRecord | undefined>;
  /** The hook sessions of an agent that have this key: one for each path and credential, the last used first. */
  sessionsWithKey(agentId: string, key: string): Promise<SessionRecord[]>;
  listSessions(query: ListQuery & { origin?: SessionOrigin; agentId?: string }): Promise<SessionRecord[]>;
  /** Queued events of an agent's main session, oldest first. */
  queuedSystemEvents(agentId: string, limit: number): Promise<SystemEvent[]>;
  listSystemEvents(query: ListQuery & { agentId?: string; state?: SystemEventState }): Promise<SystemEvent[]>;
  /** Last routes of an agent's main session, newest first. */
  lastRoutes(agentId: string): Promise<LastRoute[]>;
  getValue(key: string): Promise<unknown>;
  /** Counts by table and state (`runs.queued`, `events.accepted`, `jobs.turn`), for metrics and `doctor`. */
  counts(): Promise<Record<string, number>>;

  /**
   * Deletes what retention says may go. `retention.bodies` 0 keeps a body only while its event has unfinished runs, and
   * then takes outside text from actions, inputs and system events as well. Ends where the lease of `fence` is lost.
   * Returns how many rows went or were changed.
   */
  sweep(
    now: Ms,
    retention: { bodies: Ms; events: Ms; runs: Ms; hookSessions: Ms; apiSessions: Ms; deliveries: Ms },
    fence?: Fence,
  ): Promise<number>;
  /** A consistent copy into a new file, while in use. */
  backup(file: string): Promise<void>;
  close(): Promise<void>;
}

/** The queue's reading side; its writing side is in `Writes`, so that work and jobs share a commit. */
export interface Queue {
  /**
   * Up to `limit` jobs that may start now: the first of each key, no key that is under way. Each start is counted
   * durably before the job comes back.
   */
  fetch(kind: JobKind, limit: number): Promise<Job[]>;
  /** Called when a job may have become ready (new work, a key that is free, a wait that is over). Returns its undo. */
  onReady(listener: (kind: JobKind) => void): () => void;
  /** Jobs that wait, by kind; and the age of the oldest. */
  waiting(kind: JobKind): Promise<{ count: number; oldestMs: number }>;
  /** At start: jobs that a crash cut off may start again. Returns how many. */
  recover(): Promise<number>;
}

export interface StoreHandle {
  store: Store;
  queue: Queue;
  peers: Peers;
  /** Where several gateways share budgets and windows; a gateway that is alone keeps them in memory. */
  ledger?: Ledger;
}

export const isFence = (held: Job | Fence): held is Fence => "token" in held;

/** What is known of a store without changing it. */
export interface StoreStatus {
  driver: "sqlite" | "postgres";
  /** The file, or the database without its password. */
  where: string;
  /** Version of the schema that is there; 0 where there is none yet. */
  schema: number;
  /** Version of the schema that this program brings. */
  known: number;
  /** Room that it takes, indexes included. */
  bytes: number;
}

/** Turns a failed condition of the store into the answer's failure. */
export const STORE_UNAVAILABLE: Failure = {
  code: "store_unavailable",
  message: "the store cannot take work just now; try again later",
  retryAfterSeconds: 5,
};

/** What a gateway hears whose lease another one has by now. */
export const LEASE_LOST: Failure = {
  code: "store_unavailable",
  message: "another gateway does this now: the lease of this one is over",
  retryAfterSeconds: 5,
};
