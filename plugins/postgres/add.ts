import { type EventRow, getDelayEnd, type Ms, type NewJob, type NewSystemEvent } from "#store-kit";
import { digest } from "./digest.ts";
import { readyAt } from "./jobs.ts";
import { ALL_BOUND, BIND_KEYS, type NewDedupeKey, toKeyValues } from "./keys.ts";
import type { Statement } from "./lane.ts";
import type { UnitOfWork, PlannedRun } from "./unit-of-work.ts";
import { ADD_COUNTS, toCountValues } from "./usage-plan.ts";

/** A column of what is added: its name, its type, and its value of one of the rows. */
export type AddedColumn<T> = readonly [name: string, type: string, value: (row: T) => unknown];

const EVENT: readonly AddedColumn<EventRow>[] = [
  ["id", "text", (row) => row.id],
  ["at", "bigint", (row) => row.at],
  ["path", "text", (row) => row.path],
  ["credential", "text", (row) => row.credential],
  ["outcome", "text", (row) => row.outcome],
  ["mapping", "text", (row) => row.mapping],
  ["head", "text", (row) => row.head],
  ["actions", "text", (row) => row.actions],
  ["body", "bytea", (row) => row.body],
];

const RUN: readonly AddedColumn<PlannedRun>[] = [
  ["id", "text", ({ state }) => state.id],
  ["event_id", "text", ({ state }) => state.eventId],
  ["session_key", "text", ({ row }) => row?.sessionKey],
  ["status", "text", ({ state }) => state.status],
  ["created", "bigint", ({ state }) => state.createdAt],
  ["ended", "bigint", ({ state }) => state.endedAt],
  ["spec", "text", ({ row }) => row?.spec],
  ["record", "text", ({ state }) => JSON.stringify(state)],
  ["mapping", "text", ({ state }) => state.mapping],
];

interface AddedJob {
  job: NewJob;
  data: string;
  runAt: Ms;
}

const JOB: readonly AddedColumn<AddedJob>[] = [
  ["kind", "text", ({ job }) => job.kind],
  ["id", "text", ({ job }) => job.id],
  ["key", "bytea", ({ job }) => digest(job.key)],
  ["name", "text", ({ job }) => job.key],
  ["data", "text", ({ data }) => data],
  ["enqueued", "bigint", ({ job }) => job.enqueuedAt],
  ["run_at", "bigint", ({ runAt }) => runAt],
];

const namesOf = <T>(columns: readonly AddedColumn<T>[]): string =>
  columns.map(([name]) => name).join(", ");

/** What was given, as a table in the order of the rows; `first`: the place of its first value. */
function givenAs<T>(name: string, columns: readonly AddedColumn<T>[], first: number): string {
  const lists = columns.map(([, type], n) => `$${first + n}::${type}[]`).join(", ");
  return `unnest(${lists}) WITH ORDINALITY AS ${name} (${namesOf(columns)}, nth)`;
}

/** A statement that adds rows; `first`: the place of its first value. */
export const addRows = <T>(
  table: string,
  columns: readonly AddedColumn<T>[],
  first: number,
): string =>
  `INSERT INTO ${table} (${namesOf(columns)}) SELECT ${namesOf(columns)} FROM ${givenAs("given", columns, first)} ORDER BY nth`;

const addEvents = (first: number): string => `
  added AS (${addRows("events", EVENT, first)} RETURNING outcome),
  counted AS (INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, count(*) FROM added GROUP BY outcome)`;

const addRuns = (first: number): string => `
  runs_added AS (${addRows("runs", RUN, first)})`;

/**
 * Adds jobs. The first of a key is ready, and those behind it are not: what is there already is locked against being
 * deleted until this commits (KEY SHARE, which others that add may take as well), so that whoever deletes it sees what
 * stands behind it. Two gateways that open a key at the same moment both make theirs ready; `TAKE` keeps to the order.
 */
const addJobs = (first: number): string => `
  given AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY kind, key ORDER BY nth) AS place
    FROM ${givenAs("g", JOB, first)}
    WHERE (SELECT seq FROM jobs WHERE jobs.kind = g.kind AND jobs.id = g.id) IS NULL),
  behind AS MATERIALIZED (
    SELECT g.kind, g.key FROM (SELECT kind, key FROM given WHERE place = 1 ORDER BY kind, key) AS g CROSS JOIN LATERAL (
      SELECT seq FROM jobs WHERE jobs.kind = g.kind AND jobs.key = g.key ORDER BY seq DESC LIMIT 1 FOR KEY SHARE) AS last),
  jobs_added AS (
    INSERT INTO jobs (${namesOf(JOB)}, ready)
    SELECT ${namesOf(JOB)},
      CASE WHEN place = 1 AND NOT EXISTS (SELECT 1 FROM behind WHERE behind.kind = given.kind AND behind.key = given.key)
        THEN ${readyAt("run_at")} END
    FROM given ORDER BY nth
    RETURNING kind, ready IS NOT NULL AS ready)`;

interface AddedSystemEvent {
  event: NewSystemEvent;
  record: string;
}

const SYSTEM_EVENT: readonly AddedColumn<AddedSystemEvent>[] = [
  ["id", "text", ({ event }) => event.id],
  ["agent", "text", ({ event }) => event.agentId],
  ["at", "bigint", ({ event }) => event.at],
  ["mode", "text", ({ event }) => event.mode],
  ["record", "text", ({ record }) => record],
];

const addSystemEvents = (first: number): string => `
  system_events_added AS (${addRows("system_events", SYSTEM_EVENT, first)} ON CONFLICT (id) DO NOTHING)`;

/** What is added to one table: SQL that stands in the statement's WITH, and its values. `first`: the place of its first value. */
interface Part {
  name: "keys" | "events" | "runs" | "jobs" | "systemEvents" | "counts";
  sql(first: number): string;
  values: readonly unknown[];
}

const texts = new Map<string, string>();

/** The statement of these parts; the same text each time, so that it stays prepared. */
function textOf(parts: readonly Part[]): string {
  const names = parts.map(({ name }) => name);
  const key = names.join();
  const known = texts.get(key);
  if (known !== undefined) return known;
  let first = 1;
  const sql = parts.map((part) => {
    const written = part.sql(first);
    first += part.values.length;
    return written;
  });
  // Keys are the first part.
  const where = names.includes("keys") ? ` WHERE ${ALL_BOUND(1)}` : "";
  const answer = names.includes("jobs")
    ? "SELECT kind, ready FROM jobs_added"
    : where === ""
      ? "SELECT"
      : "SELECT false AS ready";
  const text = `WITH ${sql.join(",")}\n  ${answer}${where}`;
  texts.set(key, text);
  return text;
}

export const valuesOf = <T>(rows: readonly T[], columns: readonly AddedColumn<T>[]): unknown[] =>
  rows.length === 0 ? [] : columns.map(([, , value]) => rows.map(value));

/**
 * What a plan adds, as one statement: a flood of hooks is nothing else, and each statement has its price. Its rows say of
 * each new job whether it is ready. With `keys` it binds these as well, and fails as a whole (`isUnbound`) if another gateway has one of them.
 */
export function addWork(
  plan: UnitOfWork,
  now: Ms,
  { part, dbTime }: { part: string; dbTime: (at: Ms) => Ms },
  keys: readonly NewDedupeKey[],
): Statement[] {
  const runs = [...plan.runs.values()].filter((run) => run.fresh);
  const jobs = [...plan.jobs.inserts.values()].map(({ job, data }) => ({
    job,
    data,
    runAt: job.runAt === undefined ? 0 : getDelayEnd(dbTime(job.runAt), dbTime(now)),
  }));
  const parts: Part[] = [
    { name: "keys", sql: BIND_KEYS, values: toKeyValues(keys, now) },
    { name: "events", sql: addEvents, values: valuesOf(plan.events, EVENT) },
    { name: "runs", sql: addRuns, values: valuesOf(runs, RUN) },
    { name: "jobs", sql: addJobs, values: valuesOf(jobs, JOB) },
    {
      name: "systemEvents",
      sql: addSystemEvents,
      values: valuesOf([...plan.systemEvents.values()], SYSTEM_EVENT),
    },
    { name: "counts", sql: ADD_COUNTS, values: toCountValues(plan.usage, part) },
  ];
  const given = parts.filter(({ values }) => values.length > 0);
  return given.length === 0
    ? []
    : [{ text: textOf(given), values: given.flatMap(({ values }) => values) }];
}
