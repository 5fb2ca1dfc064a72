import { type EventRow, getDelayEnd, type Ms, type NewJob } from "#store-kit";
import type { Statement } from "./db.ts";
import { digest } from "./digest.ts";
import { readyAt } from "./jobs.ts";
import type { UnitOfWork, PlannedRun } from "./unit-of-work.ts";

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

const namesOf = <T>(columns: readonly AddedColumn<T>[]): string => columns.map(([name]) => name).join(", ");

/** What was given, as a table in the order of the rows; `first`: the place of its first value. */
function givenAs<T>(name: string, columns: readonly AddedColumn<T>[], first: number): string {
  const lists = columns.map(([, type], n) => `$${first + n}::${type}[]`).join(", ");
  return `unnest(${lists}) WITH ORDINALITY AS ${name} (${namesOf(columns)}, nth)`;
}

/** A statement that adds rows; `first`: the place of its first value. */
export const addRows = <T>(table: string, columns: readonly AddedColumn<T>[], first: number): string =>
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

const texts = new Map<string, string>();

/** The statement that adds rows of these tables; the same text each time, so that it stays prepared. */
function textOf(tables: { events: boolean; runs: boolean; jobs: boolean }): string {
  const name = JSON.stringify(tables);
  const known = texts.get(name);
  if (known !== undefined) return known;
  const parts: string[] = [];
  let first = 1;
  if (tables.events) {
    parts.push(addEvents(first));
    first += EVENT.length;
  }
  if (tables.runs) {
    parts.push(addRuns(first));
    first += RUN.length;
  }
  if (tables.jobs) parts.push(addJobs(first));
  const text = `WITH ${parts.join(",")}\n  ${tables.jobs ? "SELECT kind, ready FROM jobs_added" : "SELECT"}`;
  texts.set(name, text);
  return text;
}

export const valuesOf = <T>(rows: readonly T[], columns: readonly AddedColumn<T>[]): unknown[] =>
  rows.length === 0 ? [] : columns.map(([, , value]) => rows.map(value));

/**
 * What a plan adds, as one statement: a flood of hooks is little else, and each statement has its price. Its rows say of
 * each new job whether it is ready.
 */
export function addWork({ events, runs, jobs }: UnitOfWork, now: Ms, dbTime: (at: Ms) => Ms): Statement[] {
  const fresh = [...runs.values()].filter((run) => run.fresh);
  const added = [...jobs.inserts.values()].map(({ job, data }) => ({
    job,
    data,
    runAt: job.runAt === undefined ? 0 : getDelayEnd(dbTime(job.runAt), dbTime(now)),
  }));
  if (events.length + fresh.length + added.length === 0) return [];
  return [
    {
      text: textOf({ events: events.length > 0, runs: fresh.length > 0, jobs: added.length > 0 }),
      values: [...valuesOf(events, EVENT), ...valuesOf(fresh, RUN), ...valuesOf(added, JOB)],
    },
  ];
}
