import { toEvent, toRun, toSystemEvent, parseRecord, type EventRow, type JsonRow, type RunRow, type SystemEventRow } from "./rows.ts";
import type { ApprovalRecord, DeliveryRecord, Gets, Lists, Store } from "./types.ts";

/** What a driver does for each kind of record that is read. */
export interface ReadTable {
  get: { [K in keyof Gets]: (of: Gets[K]["of"]) => Promise<Gets[K]["is"] | undefined> };
  list: { [K in keyof Lists]: (of: Lists[K]["of"]) => Promise<Lists[K]["is"][]> };
}

/** The reading side of a store, by a table of what to do. */
export const toReads = (table: ReadTable): Pick<Store, "get" | "list"> => ({
  get: (kind, of) => table.get[kind](of),
  list: (kind, of) => table.list[kind](of),
});

/** A condition: SQL with a `?` for each of its values. */
type Condition = readonly [sql: string, ...values: string[]];
/** Renders a field of a row's record as SQL: how to read JSON is the driver's. */
export type JsonField = (name: string) => string;

/** `column = value`, if there is a value. */
const is = (column: string, value: string | undefined): Condition[] => (value === undefined ? [] : [[`${column} = ?`, value]]);

/** `field` is one of `values`, if there is a list. */
const isOneOf = (field: string, values: readonly string[] | undefined): Condition[] => {
  if (values === undefined) return [];
  return values.length === 0 ? [["1 = 0"]] : [[`${field} IN (${values.map(() => "?").join(", ")})`, ...values]];
};

/** A table whose rows are in order of time, and how pages of it are read. */
export interface Page<Q, T> {
  table: string;
  columns: string;
  /** The column of the row's time. */
  at: "at" | "created";
  conditions(query: Q, json: JsonField): Condition[];
  /** The names in `counts` of the states that a query asks for; undefined if it asks for all. No row is looked for if their sum is 0. */
  counted(query: Q): readonly string[] | undefined;
  read(row: unknown): T;
}

const named = (kind: string, state: string | undefined): readonly string[] | undefined =>
  state === undefined ? undefined : [`${kind}.${state}`];

const FAILED_RUNS = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.status IN ('failed', 'timed_out'))";
/** Written out, so that a planner knows them for those of the index of open runs. */
const OPEN = ["parked", "collecting", "queued", "running", "waiting"];

/** The tables of records, for all drivers alike. */
export const PAGES: { [K in "events" | "runs" | "deliveries" | "systemEvents" | "approvals"]: Page<Lists[K]["of"], Lists[K]["is"]> } = {
  events: {
    table: "events",
    columns: "id, at, path, credential, outcome, mapping, head, actions, body",
    at: "at",
    conditions: ({ outcome, path, mapping, failedRuns }) => [
      ...is("outcome", outcome),
      ...is("path", path),
      ...is("mapping", mapping),
      ...(failedRuns ? [[FAILED_RUNS] as const] : []),
    ],
    counted: ({ outcome, failedRuns }) => (failedRuns ? ["runs.failed", "runs.timed_out"] : named("events", outcome)),
    read: (row) => toEvent(row as EventRow),
  },
  runs: {
    table: "runs",
    columns: "spec, record",
    at: "created",
    conditions: ({ status, sessionKey, eventId }) => [
      ...(status !== undefined && OPEN.includes(status) ? [[`status = '${status}'`] as const] : is("status", status)),
      ...is("session_key", sessionKey),
      ...is("event_id", eventId),
    ],
    counted: ({ status }) => named("runs", status),
    read: (row) => toRun(row as RunRow),
  },
  deliveries: {
    table: "deliveries",
    columns: "record",
    at: "created",
    conditions: ({ status, channel }) => [
      ...(status === "failed" ? [["status IN ('failed', 'no_route')"] as const] : is("status", status)),
      ...is("channel", channel),
    ],
    counted: ({ status }) => (status === "failed" ? ["deliveries.failed", "deliveries.no_route"] : named("deliveries", status)),
    read: (row) => parseRecord<DeliveryRecord>(row as JsonRow),
  },
  systemEvents: {
    table: "system_events",
    columns: "seq, state, failures, record",
    at: "at",
    conditions: ({ agentId, state }) => [...is("agent", agentId), ...is("state", state)],
    counted: ({ state }) => named("systemEvents", state),
    read: (row) => toSystemEvent(row as SystemEventRow),
  },
  approvals: {
    table: "approvals",
    columns: "record",
    at: "at",
    conditions: ({ state, runId, agents }, json) => [...is("state", state), ...is("run_id", runId), ...isOneOf(json("agentId"), agents)],
    counted: ({ state }) => named("approvals", state),
    read: (row) => parseRecord<ApprovalRecord>(row as JsonRow),
  },
};

/** Conditions as SQL that follows others, with a placeholder for each value. */
export function toWhere(conditions: readonly Condition[], placeholder: (n: number) => string): { sql: string; values: string[] } {
  const values: string[] = [];
  const parts = conditions.map(([sql, ...given]) => {
    const rest = given.values();
    return ` AND ${sql.replaceAll("?", () => placeholder(values.push(rest.next().value as string)))}`;
  });
  return { sql: parts.join(""), values };
}
