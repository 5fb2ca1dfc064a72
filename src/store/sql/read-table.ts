import { parseRecord, toEvent, toRun, toSession, toSystemEvent } from "./rows.ts";
import { PARTLY_FAILED } from "../sums.ts";
import { RUN_STATUSES, type RunStatus } from "../../vocabulary/outcomes.ts";
import type { ApprovalRecord, DeliveryRecord, ListQuery, Lists, SearchedKind } from "../types.ts";

export type Value = string | number | null | Uint8Array | readonly number[] | readonly string[];
/** A condition: SQL with a `?` for each of its values. */
export type SqlCondition = readonly [sql: string, ...values: Value[]];
/** Renders a text inside a column with JSON as SQL: how to read JSON is the driver's. */
export type JsonValue = (column: "head" | "spec" | "record", ...path: string[]) => string;

/** `column = value`, if there is a value. */
const is = (column: string, value: string | undefined): SqlCondition[] =>
  value === undefined ? [] : [[`${column} = ?`, value]];

/** `field` is one of `values`, if there is a list. */
const isOneOf = (field: string, values: readonly string[] | undefined): SqlCondition[] => {
  if (values === undefined) return [];
  return values.length === 0
    ? [["1 = 0"]]
    : [[`${field} IN (${values.map(() => "?").join(", ")})`, ...values]];
};

/** The rows that a list goes through, from the newest to the oldest. Which of them are in the list, further conditions say. */
export interface ListWalk {
  /** The columns of the order; `$session` is the driver's key of a session. */
  key:
    | readonly ["seq"]
    | readonly ["id"]
    | readonly ["used", "$session"]
    | readonly ["ended", "seq"];
  /** The index that has these rows in this order; without one, the walk is over all rows of the table. */
  index?: string;
  /** The conditions that hold for exactly these rows. They repeat the condition of a partial index. */
  where: readonly SqlCondition[];
  /** The keys of these rows. It is no condition in `where`: SQLite bounds an index by one condition only, which is the window's. */
  range?: { from: readonly (string | number)[]; below: readonly (string | number)[] };
  /** The time by which the rows are in order, if it is not that of the page. */
  at?: "ended";
  /** The rows are those whose ids a column of another table names; `index` and `where` are that table's. */
  through?: { table: string; column: string };
  /** Rows of one window, if they are not as many as the driver's. */
  rows?: number;
}

/** A filter that a query has. */
interface Filter {
  conditions: readonly SqlCondition[];
  /** The walk over the rows that it leaves, if an index has them in order. */
  walk?: ListWalk;
}

/** A table whose rows are in order of time, and how pages of it are read. */
export interface Page<Q, T> {
  table: string;
  columns: string;
  /** The column of the row's time. */
  at: "at" | "created" | "used";
  /** The column by which a caller names a row as `before`. */
  cursor: "id" | "session";
  /** All rows. */
  walk: ListWalk;
  /** The filters of a query. An index of the first that has one is used, so those that leave fewer rows come first. */
  filters(query: Q, json: JsonValue): Filter[];
  /** The names in `counts` of the states that a query asks for; undefined if it asks for all. No row is looked for if their sum is 0. */
  counted(query: Q): readonly string[] | undefined;
  read(row: unknown): T;
}

const named = (kind: string, state: string | undefined): readonly string[] | undefined =>
  state === undefined ? undefined : [`${kind}.${state}`];

const WHOLE_TABLE: ListWalk = { key: ["seq"], where: [] };

/** A filter without an index. */
const scan = (conditions: readonly SqlCondition[]): Filter[] =>
  conditions.length === 0 ? [] : [{ conditions }];

/** A filter whose rows an index has by number. */
const indexed = (index: string, conditions: readonly SqlCondition[]): Filter[] =>
  conditions.length === 0 ? [] : [{ conditions, walk: { key: ["seq"], index, where: conditions } }];

/** Ids consist of digits and small letters: in every collation they lie between their beginning and it with `zzzz`. */
function byPrefix(table: string, { idPrefix: prefix }: ListQuery): Filter[] {
  if (prefix === undefined) return [];
  const conditions: SqlCondition[] = [["substr(id, 1, length(?)) = ?", prefix, prefix]];
  const range = { from: [prefix], below: [`${prefix}zzzz`] };
  return [{ conditions, walk: { key: ["id"], index: `${table}_id`, where: conditions, range } }];
}

const FAILED = "status IN ('failed', 'timed_out')";
/** Ids of events are in order of time, as their numbers are, and runs name events by them. */
const BY_FAILED_RUNS: ListWalk = {
  key: ["id"],
  index: "runs_failed",
  where: [[FAILED], ["event_id IS NOT NULL"]],
  through: { table: "runs", column: "event_id" },
  rows: 500,
};
const FAILED_RUNS: Filter = {
  conditions: [[`EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.${FAILED})`]],
  walk: BY_FAILED_RUNS,
};

const PARTLY = indexed("events_partly", [[`head LIKE '${PARTLY_FAILED}'`]]);

/** Nearly all events are accepted: an index of these would cost each of them time. */
function byOutcome(outcome: string | undefined): Filter[] {
  const conditions = is("outcome", outcome);
  return outcome === "accepted"
    ? scan(conditions)
    : indexed(
        "events_outcome",
        conditions.length === 0 ? [] : [["outcome <> 'accepted'"], ...conditions],
      );
}

/** All statuses but that of nearly all runs have an index. Written out, so that a planner knows it for a partial one. */
const INDEXED_RUNS: readonly RunStatus[] = RUN_STATUSES.filter((status) => status !== "succeeded");

const byRunStatus = (status: RunStatus | undefined): Filter[] =>
  status !== undefined && INDEXED_RUNS.includes(status)
    ? indexed("runs_status", [[`status = '${status}'`]])
    : scan(is("status", status));

/** A run that ended at a time may have begun long before: only the time of its end leads to it. */
function byEnd({ endedSince: from, endedUntil: below }: Lists["runs"]["of"]): Filter[] {
  if (from === undefined && below === undefined) return [];
  const ended: SqlCondition[] = [["ended IS NOT NULL"]];
  const bounds: SqlCondition[] = [
    ...(from === undefined ? [] : [["ended >= ?", from] as const]),
    ...(below === undefined ? [] : [["ended < ?", below] as const]),
  ];
  const range = { from: [from ?? 0, 0], below: [below ?? Number.MAX_SAFE_INTEGER, 0] };
  return [
    {
      conditions: [...ended, ...bounds],
      walk: { key: ["ended", "seq"], index: "runs_ended", where: ended, range, at: "ended" },
    },
  ];
}

function byDeliveryStatus(status: string | undefined): Filter[] {
  if (status === "failed")
    return indexed("deliveries_failed", [["status IN ('failed', 'no_route')"]]);
  const conditions = is("status", status);
  return status === undefined || status === "delivered"
    ? scan(conditions)
    : indexed("deliveries_status", [["status <> 'delivered'"], ...conditions]);
}

const SESSIONS: ListWalk = { key: ["used", "$session"], index: "sessions_used", where: [] };

/** Sessions of hooks are many, and each run of one would change the index. */
function byOrigin(origin: string | undefined): Filter[] {
  const conditions = is("origin", origin);
  if (origin === undefined || origin === "hook") return scan(conditions);
  const where: SqlCondition[] = [["origin <> 'hook'"], ...conditions];
  return [{ conditions, walk: { key: SESSIONS.key, index: "sessions_origin", where } }];
}

/** The tables of records, for all drivers alike. */
export const PAGES: { [K in SearchedKind]: Page<Lists[K]["of"], Lists[K]["is"]> } = {
  events: {
    table: "events",
    columns: "id, at, path, credential, outcome, mapping, head, actions, body",
    at: "at",
    cursor: "id",
    walk: WHOLE_TABLE,
    filters: ({ outcome, path, mapping, failedRuns, partlyFailed, ...query }) => [
      ...byPrefix("events", query),
      ...(failedRuns ? [FAILED_RUNS] : []),
      ...(partlyFailed ? PARTLY : []),
      ...byOutcome(outcome),
      ...scan([...is("path", path), ...is("mapping", mapping)]),
    ],
    counted: ({ outcome, failedRuns }) =>
      failedRuns ? ["runs.failed", "runs.timed_out"] : named("events", outcome),
    read: toEvent,
  },
  runs: {
    table: "runs",
    columns: "spec, record",
    at: "created",
    cursor: "id",
    walk: WHOLE_TABLE,
    filters: ({ status, sessionKey, eventId, kinds, ...query }, json) => [
      ...byPrefix("runs", query),
      ...byEnd(query),
      ...indexed("runs_event", is("event_id", eventId)),
      ...indexed("runs_session", is("session_key", sessionKey)),
      ...byRunStatus(status),
      ...scan(isOneOf(json("record", "kind"), kinds)),
    ],
    counted: ({ status }) => named("runs", status),
    read: toRun,
  },
  deliveries: {
    table: "deliveries",
    columns: "record",
    at: "created",
    cursor: "id",
    walk: WHOLE_TABLE,
    filters: ({ status, channel, ...query }) => [
      ...byPrefix("deliveries", query),
      ...byDeliveryStatus(status),
      ...scan(is("channel", channel)),
    ],
    counted: ({ status }) =>
      status === "failed"
        ? ["deliveries.failed", "deliveries.no_route"]
        : named("deliveries", status),
    read: parseRecord<DeliveryRecord>,
  },
  systemEvents: {
    table: "system_events",
    columns: "seq, state, failures, record",
    at: "at",
    cursor: "id",
    walk: WHOLE_TABLE,
    filters: ({ agentId, state, ...query }) => [
      ...byPrefix("system_events", query),
      ...scan([...is("agent", agentId), ...is("state", state)]),
    ],
    counted: ({ state }) => named("systemEvents", state),
    read: toSystemEvent,
  },
  approvals: {
    table: "approvals",
    columns: "record",
    at: "at",
    cursor: "id",
    walk: WHOLE_TABLE,
    filters: ({ state, runId, agents, ...query }, json) => [
      ...byPrefix("approvals", query),
      ...indexed("approvals_run", is("run_id", runId)),
      ...(state === "open"
        ? indexed("approvals_open", [["state = 'open'"]])
        : scan(is("state", state))),
      ...scan(isOneOf(json("record", "agentId"), agents)),
    ],
    counted: ({ state }) => named("approvals", state),
    read: parseRecord<ApprovalRecord>,
  },
  sessions: {
    table: "sessions",
    columns: "session, agent, origin, key, path, credential, turns, created, used",
    at: "used",
    cursor: "session",
    walk: SESSIONS,
    filters: ({ origin, agentId }) => [...byOrigin(origin), ...scan(is("agent", agentId))],
    counted: ({ origin }) => named("sessions", origin),
    read: toSession,
  },
};
