/** What a commit can add, set, change and delete, and what can be read. */
import type {
  ActivityQuery,
  ActivitySum,
  FailureQuery,
  FailureSum,
  UsageQuery,
  UsageSum,
} from "./sums.ts";
import type { ConfigRecord, UsedConfig } from "./config-record.ts";
import type { DeliveryChange, DeliveryRecord, DeliveryState, NewDelivery } from "./deliveries.ts";
import type { EventChange, EventOutcome, EventRecord } from "./event-record.ts";
import type { JobKind, NewJob } from "./job-records.ts";
import type { ExpectedRun } from "./expected-run.ts";
import type {
  Collected,
  Ms,
  RunChange,
  RunRecord,
  RunStatus,
  SessionOrigin,
  SessionRef,
} from "./records.ts";
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

/** What a commit can add, and what it takes to add one. A refused commit throws `ID_TAKEN`, or for a decision `NOT_OPEN`. */
export interface Adds {
  /** A run or a delivery whose id is there already refuses the whole commit. */
  run: [run: RunRecord];
  /** A system event or a job whose id is there already is left as it is. */
  systemEvent: [event: NewSystemEvent];
  delivery: [delivery: NewDelivery];
  /** A turn, or a checkpoint of those before it. */
  turn: [session: SessionRef, turn: NewTurn];
  job: [job: NewJob];
  /** A step of a run with the index of one that is there already refuses the whole commit. */
  step: [step: StepRecord];
  /** A stored result whose id is there already refuses the whole commit. */
  toolResult: [result: ToolResultRecord];
  /** An approval whose id, or whose code among the open ones, is there already refuses the whole commit. */
  approval: [approval: ApprovalRecord];
  /** An approval that is not open, or not there, refuses the whole commit. */
  decision: [approvalId: string, decision: ApprovalDecision];
  /** What was refused about an approval, open or decided, stays with it. */
  refusedDecision: [approvalId: string, refused: RefusedDecision];
}

/** What a commit can set, whether or not it was set before. */
export interface Sets {
  lastRoute: [route: LastRoute];
  value: [key: string, value: unknown];
  /** A config that is there already only gets the later use. */
  config: [config: UsedConfig];
}

/** What a commit can change. What is not there stays away. A change that is refused refuses the whole commit. */
export interface Updates {
  event: [id: string, change: EventChange];
  /** With `expected`, a run that is not so any more, or not there, throws `RUN_CHANGED`. */
  run: [id: string, change: RunChange, expected?: ExpectedRun];
  delivery: [id: string, change: DeliveryChange];
  systemEvents: [ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }];
  /**
   * When a job without a holder may start; it keeps its place within its key. With `key` it goes under that key, as when it is
   * settled; a job that has this key already stays as it is.
   */
  job: [kind: JobKind, id: string, runAt: Ms, key?: string];
  toolCall: [runId: string, callId: string, change: ToolCallChange];
}

/** What a commit can take away. */
export interface Deletes {
  session: [session: SessionRef];
  /** The history of a session. */
  turns: [session: SessionRef];
  /** The events that a run has collected. */
  collected: [runId: string];
  /** A job without a holder (a cancelled run). */
  job: [kind: JobKind, id: string];
}

export interface ListQuery {
  limit?: number;
  /** Ids older than this one (for paging). */
  before?: string;
  /** Ids that begin so. */
  idPrefix?: string;
  since?: Ms;
}

/** What a search has found. */
export interface SearchResult<T> {
  rows: T[];
  /**
   * Set if the search ended before the list was full or all rows had been looked at. `before`: of the query that continues it.
   * `at`: the time of the oldest row that was looked at.
   */
  stopped?: { before: string; at: Ms };
}

/** Lists that can be searched. */
export type SearchedKind =
  | "events"
  | "runs"
  | "deliveries"
  | "systemEvents"
  | "approvals"
  | "sessions";

/** Records that are read one by one: what names one, and what it is. */
export interface Gets {
  event: { of: string; is: EventRecord };
  run: { of: string; is: RunRecord };
  delivery: { of: string; is: DeliveryRecord };
  session: { of: SessionRef; is: SessionRecord };
  /** The newest checkpoint of a session. */
  checkpoint: { of: SessionRef; is: TurnRecord };
  value: { of: string; is: unknown };
  approval: { of: string; is: ApprovalRecord };
  toolResult: { of: string; is: ToolResultRecord };
  config: { of: string; is: ConfigRecord };
  /** The number of an event; without `id` that of the newest. */
  eventNumber: { of: { id?: string }; is: number };
  /** Since when the run waits that has waited longest in the queue, of those that were made first; undefined if none is queued. */
  queuedSince: { of: object; is: Ms };
}

/** Lists of records. Those with a `ListQuery` come in pages, newest first; sessions by their last use. */
export interface Lists {
  events: {
    of: ListQuery & {
      outcome?: EventOutcome;
      path?: string;
      mapping?: string;
      failedRuns?: boolean;
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
  /** Queued events of an agent's main session, oldest first. */
  queuedSystemEvents: { of: { agentId: string; limit: number }; is: SystemEvent };
  /**
   * The turns of a session with its checkpoints, oldest first. With `limit` the newest so many; `before` and `after` are the
   * `seq` of turns that are not among them.
   */
  turns: { of: SessionRef & { limit?: number; before?: number; after?: number }; is: TurnRecord };
  /** The hook sessions of an agent that have a key: one for each path and credential, the last used first. */
  hookSessions: { of: { agentId: string; key: string }; is: SessionRecord };
  /** The events that a run has collected so far, in the order in which they came. */
  collected: { of: string; is: Collected };
  /** Last routes of an agent's main session, newest first. */
  lastRoutes: { of: string; is: LastRoute };
  /** The steps of a run with their tool calls, in order. */
  steps: { of: string; is: StepRecord };
  /** `agents`: of one of these agents. */
  approvals: {
    of: ListQuery & { state?: ApprovalState; runId?: string; agents?: readonly string[] };
    is: ApprovalRecord;
  };
  /** What runs have used, added up; in no order. */
  usage: { of: UsageQuery; is: UsageSum };
  /** How many events came in over time, by outcome; in no order. */
  activity: { of: ActivityQuery; is: ActivitySum };
  /** Failed, unmatched and rejected events, failed runs and deliveries, by cause and hour; in no order. */
  failures: { of: FailureQuery; is: FailureSum };
  /**
   * Numbers of the events behind number `after`, in order. Of several gateways, one may write an event later than another gateway
   * writes an event with a higher number.
   */
  eventNumbers: { of: { after: number; limit: number }; is: number };
  /** The events with these numbers, in order. */
  numberedEvents: { of: readonly number[]; is: { number: number; event: EventRecord } };
}
