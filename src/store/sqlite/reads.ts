import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { createReads, wrapReads } from "../sql/reads.ts";
import type { ListSource } from "../sql/search.ts";
import type { Listing, Ms, Reads, SearchedKind, Store, StoreReader } from "../types.ts";
import type { SqliteGroupCommit } from "./group-commit.ts";
import type { SqliteJobs } from "./jobs.ts";
import { findDedupeKey } from "./writes.ts";
import type { MaterializeLoop } from "./materialize-loop.ts";
import { Statements } from "./statements.ts";

/** Rows that are looked at between two turns of the event loop: a filter that finds nothing must not hold up hooks. */
const WINDOW = 2000;
/** Runs whose records are read between two turns of the event loop. */
const RUNS_AT_ONCE = 500;

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Whether it is known that there is no row of these names. Events that are not counted yet may be of any. */
function isNone(sql: Statements, names: readonly string[]): boolean {
  const text = `SELECT (SELECT sum(n) FROM counts WHERE name IN (${names.map(() => "?").join(", ")})) AS n,
    EXISTS (SELECT 1 FROM events WHERE seq > (SELECT seq FROM marks WHERE name = 'intake')) AS more`;
  const counted = sql.get<{ n: number | null; more: number }>(text, ...names);
  return counted?.n === 0 && counted.more === 0;
}

const renderJsonValue = (column: string, ...path: string[]): string =>
  `json_extract(${column}, '$.${path.join(".")}')`;

/** How SQLite is read. */
export const createSqliteSource = (sql: Statements): ListSource => ({
  query: async (text, values) => sql.all(text, ...(values as SQLInputValue[])),
  window: WINDOW,
  json: renderJsonValue,
  usage: {
    rows: RUNS_AT_ONCE,
    from: "runs",
    field: (name) => renderJsonValue("record", name),
    number: (name) => renderJsonValue("record", "usage", name),
    day: (column) => `date(${column} / 1000, 'unixepoch')`,
  },
  isNumberOf: { sql: "IN (SELECT value FROM json_each(?))", toValue: JSON.stringify },
  session: { column: "session", type: "text", toKey: (id) => id },
  byIndex: (table, index) =>
    index === undefined ? `${table} NOT INDEXED` : `${table} INDEXED BY ${index}`,
  isAmong: (column, subquery) => `${column} IN (${subquery})`,
  lacks: new Set(),
  isNone: async (names) => isNone(sql, names),
  pause,
});

interface ReadParts {
  sql: Statements;
  jobs: Pick<SqliteJobs, "counts">;
  loop: Pick<MaterializeLoop, "catchUp">;
  now: () => Ms;
}

type Reading = Reads & Pick<Store, "findDuplicates" | "counts">;

/**
 * The reading side over SQLite. Reads of runs and system events first wait until accepted events have been taken up. If
 * that cannot be (a full disk), lists and counts tell what is there; what is asked for by its id may be among the rest,
 * and is an error.
 */
export function createSqliteReads({ sql, jobs, loop, now }: ReadParts): Reading {
  const after =
    (before: () => Promise<void>) =>
    <Q extends unknown[], T>(read: (...of: Q) => Promise<T>) =>
    async (...of: Q): Promise<T> => {
      await before();
      return read(...of);
    };
  const caughtUp = after(() => loop.catchUp());
  const asFarAsMayBe = after(() => loop.catchUp().catch(() => undefined));
  const reads = createReads(createSqliteSource(sql));
  const { events, runs, systemEvents, failures } = reads;
  const counts = async (): Promise<Record<string, number>> => {
    const rows = sql.all<{ name: string; n: number }>("SELECT name, n FROM counts ORDER BY name");
    return Object.fromEntries([...rows, ...jobs.counts()].map(({ name, n }) => [name, n]));
  };
  const listing = <K extends SearchedKind>({ list, search }: Listing<K>): Listing<K> => ({
    list: asFarAsMayBe(list),
    search: asFarAsMayBe(search),
  });
  return {
    ...reads,
    events: { ...events, ...listing<"events">(events) },
    runs: {
      ...runs,
      ...listing<"runs">(runs),
      get: async (id) => (await runs.get(id)) ?? caughtUp(runs.get)(id),
      getQueuedSince: asFarAsMayBe(runs.getQueuedSince),
      listCollected: caughtUp(runs.listCollected),
    },
    systemEvents: {
      ...listing<"systemEvents">(systemEvents),
      listQueued: caughtUp(systemEvents.listQueued),
    },
    failures: { sum: asFarAsMayBe(failures.sum) },
    findDuplicates: async (keys) =>
      keys.map(({ scope, key }) => findDedupeKey(sql, scope, key, now())),
    counts: asFarAsMayBe(counts),
  };
}

/**
 * Reads see what is committed and not yet on disk. Somebody may act on it: a duplicate is answered, a decision lets a
 * tool run. So what was found is returned once it is durable.
 */
export function createDurableReads(parts: ReadParts & { group: SqliteGroupCommit }): Reading {
  const { findDuplicates, counts, ...reads } = createSqliteReads(parts);
  const whenDurable = async <T>(read: () => Promise<T>): Promise<T> => {
    const found = await read();
    await parts.group.durable();
    return found;
  };
  return {
    ...wrapReads(reads, whenDurable),
    async findDuplicates(keys) {
      const found = await findDuplicates(keys);
      return found.some((record) => record !== undefined) ? whenDurable(async () => found) : found;
    },
    counts,
  };
}

/** A gateway that checkpoints holds its lock for so long at most. */
const BUSY_MS = 5000;

/** Opens a connection to the file that cannot write. What gateways write meanwhile is seen by the next read. */
export function openSqliteReader(file: string, now: () => number): StoreReader {
  const db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS });
  const reads = createSqliteReads({
    sql: new Statements(db),
    jobs: { counts: () => [] },
    // To make runs of events is the gateway's work.
    loop: { catchUp: () => Promise.resolve() },
    now,
  });
  return { ...reads, close: async () => db.close() };
}
