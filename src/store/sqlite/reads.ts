import type { SQLInputValue } from "node:sqlite";
import { toReads } from "../read-table.ts";
import { createReads } from "../reads.ts";
import type { ListSource } from "../search.ts";
import type { Ms, Reads, Store } from "../types.ts";
import type { SqliteJobs } from "./jobs.ts";
import { findDedupeKey } from "./keys.ts";
import type { MaterializeLoop } from "./materialize-loop.ts";
import type { Statements } from "./statements.ts";

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

/**
 * The reading side over SQLite. Reads of runs and system events first wait until accepted events have been taken up. If
 * that cannot be (a full disk), lists and counts tell what is there; what is asked for by its id may be among the rest,
 * and is an error.
 */
export function createSqliteReads(parts: {
  sql: Statements;
  jobs: Pick<SqliteJobs, "counts">;
  loop: Pick<MaterializeLoop, "catchUp">;
  now: () => Ms;
}): Pick<Store, "findDuplicates" | "get" | "list" | "counts"> & Required<Reads> {
  const { sql, jobs, loop, now } = parts;
  const caughtUp =
    <Q, T>(read: (of: Q) => Promise<T>) =>
    async (of: Q): Promise<T> => {
      await loop.catchUp();
      return read(of);
    };
  const asFarAsMayBe =
    <Q, T>(read: (of: Q) => Promise<T>) =>
    async (of: Q): Promise<T> => {
      await loop.catchUp().catch(() => undefined);
      return read(of);
    };
  const { get, list, search } = createReads(createSqliteSource(sql));
  const counts = async (): Promise<Record<string, number>> => {
    const rows = sql.all<{ name: string; n: number }>("SELECT name, n FROM counts ORDER BY name");
    return Object.fromEntries([...rows, ...jobs.counts()].map(({ name, n }) => [name, n]));
  };
  return {
    async search(kind, query) {
      await loop.catchUp().catch(() => undefined);
      return search(kind, query);
    },
    findDuplicates: async (keys) =>
      keys.map(({ scope, key }) => findDedupeKey(sql, scope, key, now())),
    counts: () => asFarAsMayBe(counts)(undefined),
    ...toReads({
      get: {
        ...get,
        run: async (id) => (await get.run(id)) ?? caughtUp(get.run)(id),
        queuedSince: asFarAsMayBe(get.queuedSince),
      },
      list: {
        ...list,
        events: asFarAsMayBe(list.events),
        runs: asFarAsMayBe(list.runs),
        systemEvents: asFarAsMayBe(list.systemEvents),
        failures: asFarAsMayBe(list.failures),
        queuedSystemEvents: caughtUp(list.queuedSystemEvents),
        collected: caughtUp(list.collected),
      },
    }),
  };
}
