import type { WakeMode } from "../config/schema/common.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { EventRecord } from "./event-record.ts";
import type { Reads, Writes } from "./operations.ts";
import type { SharedBatches, UsageStore } from "./usage.ts";
import type { FencingToken, Cluster } from "./cluster.ts";
import type { SourceTable, TargetTable, TransferOptions } from "./sql/transfer.ts";
import type {
  DedupeEntry,
  DedupeRecord,
  EarlierJob,
  HeldJob,
  Job,
  JobKind,
  JobPosition,
  Ms,
} from "./records.ts";

export * from "./event-record.ts";
export * from "./deliveries.ts";
export * from "./records.ts";
export type * from "./operations.ts";
export * from "./session-records.ts";
export * from "./steps.ts";
export * from "./runs.ts";
export * from "./sums.ts";
export * from "./usage.ts";
export * from "./cluster.ts";
export type { WakeMode };

export type AcceptResult =
  | { kind: "accepted" }
  | { kind: "duplicate"; record: DedupeRecord }
  /** A window that the event was to join has closed: nothing is written. */
  | { kind: "closed" };

/** The time for which records are kept, and the number of turns. */
export interface Retention {
  bodies: Ms;
  events: Ms;
  runs: Ms;
  hookSessions: Ms;
  apiSessions: Ms;
  deliveries: Ms;
  /** Turns of a main or channel session. */
  sessionTurns: number;
}

/** Durable records. What is read is on disk. */
export interface Store extends Reads {
  /**
   * Writes an event, its duplicate keys and its work in one durable commit, shared with all that come in during
   * the same turn of the event loop. Resolves once it is on disk. If one of the keys is bound already, nothing
   * is written and the record that holds it is returned. Throws RouseError `store_unavailable` (disk full, …), also
   * if the lease of `fencingToken` is lost.
   */
  accept(
    event: EventRecord,
    keys?: readonly DedupeEntry[],
    fencingToken?: FencingToken,
  ): Promise<AcceptResult>;
  /**
   * Runs `write` inside a durable commit, grouped with others; a store may run it several times. With `held`, nothing is written
   * and `false` comes back when this process no longer holds that job or lease.
   */
  commit(write: (tx: Writes) => void, held?: Job | FencingToken): Promise<boolean>;

  /** Called after system events of accepted wakes have joined a main session's queue. Returns its undo. */
  onSystemEvents(listener: (agentId: string, mode: WakeMode) => void): () => void;

  findDuplicates(
    keys: readonly { scope: string; key: string }[],
  ): Promise<(DedupeRecord | undefined)[]>;
  /** Counts by table and state (`runs.queued`, `events.accepted`, `jobs.turn`), for metrics and `doctor`. */
  counts(): Promise<Record<string, number>>;

  /**
   * Deletes what retention says may go. `retention.bodies` 0 keeps a body only while its event has unfinished runs, and
   * then takes outside text from actions, inputs and system events as well. Ends where the lease of `fencingToken` is lost.
   * Of main and channel sessions the oldest turns go that a checkpoint covers and that are more than `sessionTurns`, or twice
   * as many. Returns how many rows went or were changed.
   */
  sweep(now: Ms, retention: Retention, fencingToken?: FencingToken): Promise<number>;
  /**
   * When the oldest event was received that still has its body though its runs have ended; undefined if there is none. Events whose
   * times lie ahead of `now` are left out.
   */
  oldestBody(now: Ms): Promise<Ms | undefined>;
  /** A consistent copy into a new file, while in use. */
  backup(file: string): Promise<void>;
  close(): Promise<void>;
}

/** The queue's reading side; its writing side is in `Writes`, so that work and jobs share a commit. */
export interface Queue {
  /**
   * Up to `limit` jobs that may start now: the first of each key, no key that is under way. Each start is counted
   * before the job comes back: a crash of the process does not undo it. A power loss may undo the start
   * of a turn, together with what the turn wrote since.
   */
  fetch(kind: JobKind, limit: number): Promise<Job[]>;
  /** Called when a job may have become ready (new work, a key that is free, a wait that is over). Returns its undo. */
  onReady(listener: (kind: JobKind) => void): () => void;
  /**
   * Called with a job that `fetch` gave this process and that it does not hold any more, since another gateway has it or
   * may have it. Returns its undo. Absent if no other gateway can.
   */
  onLost?(listener: (job: HeldJob) => void): () => void;
  /**
   * Returns true if this process surely still holds a job that `fetch` gave it. Ask before each act that no later commit can take
   * back: a model call, a tool call, a message. Answers without a round trip for as long as the lease cannot have run out; after
   * that it waits until the store has confirmed the lease. False if the lease is lost, or if `signal` aborts first. Absent if no
   * other gateway can take the job.
   */
  confirm?(job: HeldJob, signal: AbortSignal): Promise<boolean>;
  /** The place of a job; undefined if it is not in the queue. */
  find(kind: JobKind, id: string): Promise<JobPosition | undefined>;
  /** The first of the jobs that were added before `job` and have one of these keys; undefined if there is none. */
  findEarlier(job: Job, keys: readonly string[]): Promise<EarlierJob | undefined>;
  /** Jobs that wait, by kind; and the age of the oldest. */
  waiting(kind: JobKind): Promise<{ count: number; oldestMs: number }>;
  /** At start: jobs that a crash cut off may start again. Returns how many. */
  recover(): Promise<number>;
}

export interface StoreHandle {
  store: Store;
  queue: Queue;
  cluster: Cluster;
  usage: UsageStore;
  /** If several gateways share batches; a gateway that is alone keeps them in memory. */
  batches?: SharedBatches;
}

/** The reading side of a store that other processes may write to. */
export type StoreReader = Reads & Pick<Store, "close">;

/** The facts that are read of a store without changing it. */
export interface StoreStatus {
  /** The kind of store, such as `sqlite`. */
  driver: string;
  /** The file, or the database without its password. */
  where: string;
  /** Version of the schema that is there; 0 if there is none yet. */
  schema: number;
  /** Version of the schema that this program brings. */
  known: number;
  /** Room that it takes, indexes included. */
  bytes: number;
}

type Env = Record<string, string | undefined>;

export interface OpenOptions {
  /** `store.url` of the config. */
  url: string;
  /** The environment of the gateway, for what the URL leaves out, such as a user or a password. */
  env?: Env | undefined;
  clock: Clock;
  log: Logger;
}

/** A kind of store. The protocol of `store.url` chooses it. */
export interface StoreDriver {
  /** True if several gateways may use the store at the same time. Each needs a state folder or a place in a common one. */
  shared: boolean;
  /**
   * Opens the store and brings its schema up to date. The caller holds the lock of the state folder.
   * @throws RouseError `config_invalid` for a URL or a database that cannot be used, `store_unavailable` if it does not answer.
   */
  open(options: OpenOptions): Promise<StoreHandle>;
  /**
   * Opens a connection that cannot write, also while gateways use the store: without the lock of the state folder.
   * @throws RouseError like `open`, and `not_found` if nothing was ever stored there.
   */
  openReader(options: Pick<OpenOptions, "url" | "env" | "clock">): Promise<StoreReader>;
  /** Looks at the store without changing it, also while gateways use it. Throws like `open`. */
  status(options: Pick<OpenOptions, "url" | "env">): Promise<StoreStatus>;
  /**
   * Lets knowledge keep its documents in the store's database: the file URL of a module whose default export is an
   * `OpenSql`. The module also runs in threads, which see only the variables of the environment that match `env`.
   */
  sql?: { module: string; env: RegExp };
  /**
   * Gives `use` all that the store keeps, as it is at one moment, also while gateways use it. Throws like `openReader`.
   */
  exportTables<T>(
    options: TransferOptions,
    use: (tables: readonly SourceTable[]) => Promise<T>,
  ): Promise<T>;
  /**
   * Fills a store that is empty. The caller holds the lock of the state folder. What `use` puts into the tables is kept
   * once it has resolved, and nothing of it if it throws, or if the process ends before.
   * @throws RouseError like `open`, and `usage` if the store is not empty or gateways use it.
   */
  importTables<T>(
    options: TransferOptions,
    use: (tables: ReadonlyMap<string, TargetTable>) => Promise<T>,
  ): Promise<T>;
}

/** Turns a failed condition of the store into the answer's failure. */
export const STORE_UNAVAILABLE: Failure = {
  code: "store_unavailable",
  message: "the store cannot take work just now; try again later",
  retryAfterSeconds: 5,
};

/** The error if another gateway holds the lease. */
export const LEASE_LOST: Failure = {
  code: "store_unavailable",
  message: "another gateway does this now: the lease of this one is over",
  retryAfterSeconds: 5,
};
