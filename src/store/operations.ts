/** The writes of a commit, and the reads of a store. */
import type { DeliveryState, RunStatus } from "../vocabulary/outcomes.ts";
import type {
  ActivityQuery,
  ActivitySum,
  FailureQuery,
  FailureSum,
  UsageQuery,
  UsageSum,
} from "./sums.ts";
import type { DeliveryChange, DeliveryRecord, NewDelivery } from "./deliveries.ts";
import type {
  ConfigRecord,
  EventChange,
  EventOutcome,
  EventRecord,
  UsedConfig,
} from "./event-record.ts";
import type { Collected, Job, JobKind, Ms, NewJob, SessionOrigin, SessionRef } from "./records.ts";
import type { ExpectedRun, RunChange, RunRecord } from "./runs.ts";
import type {
  LastRoute,
  NewSystemEvent,
  NewTurn,
  SessionRecord,
  SystemEvent,
  SystemEventState,
  TurnRecord,
} from "./session-records.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  ApprovalState,
  RefusedDecision,
  StepRecord,
  ToolCallChange,
  ToolResultRecord,
} from "./steps.ts";

/**
 * The writes of one commit. Methods only collect or write, they never read; order is kept. All of a commit is on disk, or none of
 * it. A change of a record that does not exist does nothing.
 */
export interface Writes {
  events: {
    update(id: string, change: EventChange): void;
  };
  runs: {
    /** @throws RouseError `ID_TAKEN` if the id is there already: the whole commit is refused. */
    add(run: RunRecord): void;
    /** @throws RouseError `RUN_CHANGED` if the run is not as `expected`, or not there: the whole commit is refused. */
    update(id: string, change: RunChange, expected?: ExpectedRun): void;
    /** Takes away the events that a run has collected. */
    dropCollected(runId: string): void;
  };
  steps: {
    /** @throws RouseError `ID_TAKEN` if the run has a step with this index: the whole commit is refused. */
    add(step: StepRecord): void;
    updateCall(runId: string, callId: string, change: ToolCallChange): void;
  };
  toolResults: {
    /** @throws RouseError `ID_TAKEN` if the id is there already: the whole commit is refused. */
    add(result: ToolResultRecord): void;
  };
  sessions: {
    /** Adds a turn, or a checkpoint of those before it. The session is made with its first one. */
    addTurn(session: SessionRef, turn: NewTurn): void;
    /** Takes the history away. */
    clear(session: SessionRef): void;
    delete(session: SessionRef): void;
    /** Sets the last route of an agent's main session on a channel. */
    setLastRoute(route: LastRoute): void;
  };
  systemEvents: {
    /** One whose id is there already is left as it is. */
    add(event: NewSystemEvent): void;
    update(ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }): void;
  };
  deliveries: {
    /** @throws RouseError `ID_TAKEN` if the id is there already: the whole commit is refused. */
    add(delivery: NewDelivery): void;
    update(id: string, change: DeliveryChange): void;
  };
  approvals: {
    /** @throws RouseError `ID_TAKEN` if the id, or the code among the open ones, is there already: the whole commit is refused. */
    add(approval: ApprovalRecord): void;
    /** @throws RouseError `NOT_OPEN` if the approval is not open, or not there: the whole commit is refused. */
    decide(id: string, decision: ApprovalDecision): void;
    /** Keeps with an approval, open or decided, what was refused about it. */
    addRefused(id: string, refused: RefusedDecision): void;
  };
  jobs: {
    /** One whose id is there already is left as it is. */
    add(job: NewJob): void;
    /** Sets when a job without a holder may start; it keeps its place within its key. */
    reschedule(kind: JobKind, id: string, runAt: Ms): void;
    /** Takes a job away that has no holder (a cancelled run). */
    delete(kind: JobKind, id: string): void;
    /**
     * Ends a job that this process holds, so that the next of its key may start. With `retryAt` the job is put back
     * instead, still first of its key, to start no earlier than that; `resetAttempts` forgets its starts. With `key` it is put
     * back under that key without its starts, and the key that it had is free; under any key it goes before jobs that were
     * added later, as long as none of them was begun.
     */
    settle(job: Job, retryAt?: Ms, options?: { resetAttempts?: boolean; key?: string }): void;
  };
  values: {
    set(key: string, value: unknown): void;
  };
  configs: {
    /** Keeps a config, or of one that is there already the later use. */
    use(config: UsedConfig): void;
  };
}

export interface ListQuery {
  limit?: number;
  /** Ids older than this one (for paging). */
  before?: string;
  /** Ids that begin so. */
  idPrefix?: string;
  since?: Ms;
}

/** The result of a search. */
export interface SearchResult<T> {
  rows: T[];
  /**
   * Set if the search ended before the list was full or all rows had been looked at. `before`: of the query that continues it.
   * `at`: the time of the oldest row that was looked at.
   */
  stopped?: { before: string; at: Ms };
}

/** Lists that can be searched: what each is asked, and what it is of. */
export interface Lists {
  events: {
    of: ListQuery & {
      outcome?: EventOutcome;
      path?: string;
      mapping?: string;
      failedRuns?: boolean;
      /** Those of which some actions failed; a few others may be among them (`hasFailed`). */
      partlyFailed?: boolean;
    };
    is: EventRecord;
  };
  /** `kinds`: of one of these kinds. With `endedSince` or `endedUntil` those that have ended in this time, and the one that ended last comes first. */
  runs: {
    of: ListQuery & {
      status?: RunStatus;
      sessionKey?: string;
      eventId?: string;
      kinds?: readonly RunRecord["kind"][];
      endedSince?: Ms;
      endedUntil?: Ms;
    };
    is: RunRecord;
  };
  /** `failed` lists those without a route, too. */
  deliveries: { of: ListQuery & { status?: DeliveryState; channel?: string }; is: DeliveryRecord };
  /** `before` is the `sessionId` of a session. */
  sessions: {
    of: Omit<ListQuery, "idPrefix"> & { origin?: SessionOrigin; agentId?: string };
    is: SessionRecord;
  };
  systemEvents: { of: ListQuery & { agentId?: string; state?: SystemEventState }; is: SystemEvent };
  /** `agents`: of one of these agents. */
  approvals: {
    of: ListQuery & { state?: ApprovalState; runId?: string; agents?: readonly string[] };
    is: ApprovalRecord;
  };
}
export type SearchedKind = keyof Lists;

/** A list in pages, newest first; sessions by their last use. */
export interface Listing<K extends SearchedKind> {
  /** Reads all that a query asks for, however long that takes. */
  list(query: Lists[K]["of"]): Promise<Lists[K]["is"][]>;
  /** Reads for someone who waits: it looks at so many rows only, and says how far it came. */
  search(query: Lists[K]["of"]): Promise<SearchResult<Lists[K]["is"]>>;
}
export type Listings = { [K in SearchedKind]: Listing<K> };

/** The reading side of a store. What is read by one name is undefined if it is not there. */
export interface Reads extends Listings {
  events: Listing<"events"> & {
    get(id: string): Promise<EventRecord | undefined>;
    /** Reads the number of an event; without `id` that of the newest. */
    getNumber(id?: string): Promise<number | undefined>;
    /**
     * Lists the numbers of the events behind number `after`, in order. Of several gateways, one may write an event later than another
     * gateway writes an event with a higher number.
     */
    listNumbers(query: { after: number; limit: number }): Promise<number[]>;
    /** Lists the events with these numbers, in order. */
    listNumbered(numbers: readonly number[]): Promise<{ number: number; event: EventRecord }[]>;
    /** Counts how many events came in over time, by outcome; in no order. */
    sumActivity(query: ActivityQuery): Promise<ActivitySum[]>;
  };
  runs: Listing<"runs"> & {
    get(id: string): Promise<RunRecord | undefined>;
    /** Lists the events that a run has collected so far, in the order in which they came. */
    listCollected(runId: string): Promise<Collected[]>;
    /** Reads since when the run waits that has waited longest in the queue, of those that were made first; undefined if none is queued. */
    getQueuedSince(): Promise<Ms | undefined>;
    /** Adds up what runs have used; in no order. */
    sumUsage(query: UsageQuery): Promise<UsageSum[]>;
  };
  steps: {
    /** Lists the steps of a run with their tool calls, in order. */
    list(runId: string): Promise<StepRecord[]>;
  };
  toolResults: {
    get(id: string): Promise<ToolResultRecord | undefined>;
  };
  sessions: Listing<"sessions"> & {
    get(session: SessionRef): Promise<SessionRecord | undefined>;
    /** Reads the newest checkpoint. */
    getCheckpoint(session: SessionRef): Promise<TurnRecord | undefined>;
    /**
     * Lists the turns of a session with its checkpoints, oldest first. With `limit` the newest so many; `before` and `after` are the
     * `seq` of turns that are not among them.
     */
    listTurns(
      query: SessionRef & { limit?: number; before?: number; after?: number },
    ): Promise<TurnRecord[]>;
    /** Lists the hook sessions of an agent that have a key: one for each path and credential, the last used first. */
    listOfHooks(query: { agentId: string; key: string }): Promise<SessionRecord[]>;
    /** Lists the last routes of an agent's main session, newest first. */
    listLastRoutes(agentId: string): Promise<LastRoute[]>;
  };
  systemEvents: Listing<"systemEvents"> & {
    /** Lists queued events of an agent's main session, oldest first. */
    listQueued(query: { agentId: string; limit: number }): Promise<SystemEvent[]>;
  };
  deliveries: Listing<"deliveries"> & {
    get(id: string): Promise<DeliveryRecord | undefined>;
  };
  approvals: Listing<"approvals"> & {
    get(id: string): Promise<ApprovalRecord | undefined>;
  };
  values: {
    get(key: string): Promise<unknown>;
  };
  configs: {
    get(id: string): Promise<ConfigRecord | undefined>;
  };
  failures: {
    /** Adds up failed, unmatched and rejected events, failed runs and deliveries, by cause and hour; in no order. */
    sum(query: FailureQuery): Promise<FailureSum[]>;
  };
}
