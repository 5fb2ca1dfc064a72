import type { SQLInputValue } from "node:sqlite";
import type { ListSource } from "../search.ts";
import {
  mergeUsage,
  renderUsageColumns,
  type UsageDialect,
  type UsageQuery,
  type UsageSum,
} from "../usage-sums.ts";
import type { Statements } from "./statements.ts";

/** Rows that are looked at between two turns of the event loop: a filter that finds nothing must not hold up hooks. */
const WINDOW = 2000;
/** Rows are in order of time but for what waited before it was written: a body that came slowly, a run that took long. */
const DISORDER_MS = 3_600_000;

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Whether it is known that there is no row of these names. Events that are not counted yet may be of any. */
function isNone(sql: Statements, names: readonly string[]): boolean {
  const text = `SELECT (SELECT sum(n) FROM counts WHERE name IN (${names.map(() => "?").join(", ")})) AS n,
    EXISTS (SELECT 1 FROM events WHERE seq > (SELECT seq FROM marks WHERE name = 'intake')) AS more`;
  const counted = sql.get<{ n: number | null; more: number }>(text, ...names);
  return counted?.n === 0 && counted.more === 0;
}

/** How lists are read from SQLite. */
export const createSqliteSource = (sql: Statements): ListSource => ({
  query: async (text, values) => sql.all(text, ...(values as SQLInputValue[])),
  window: WINDOW,
  json: (name) => `json_extract(record, '$.${name}')`,
  session: { column: "session", toKey: (id) => id },
  byIndex: (table, index) =>
    index === undefined ? `${table} NOT INDEXED` : `${table} INDEXED BY ${index}`,
  isAmong: (subquery) => `id IN (${subquery})`,
  lacks: new Set(),
  isNone: async (names) => isNone(sql, names),
  pause,
});

/** Renders a value inside a JSON column as SQL. */
export const renderJsonValue = (column: string, ...path: string[]): string =>
  `json_extract(${column}, '$.${path.join(".")}')`;
const DIALECT: UsageDialect = {
  text: renderJsonValue,
  number: renderJsonValue,
  day: (column) => `date(${column} / 1000, 'unixepoch')`,
};
/** Runs whose records are read between two turns of the event loop. */
const RUNS_AT_ONCE = 500;

/** Adds up what runs have used, window by window. */
export async function sumUsageInSqlite(
  sql: Statements,
  { by, since }: UsageQuery,
): Promise<UsageSum[]> {
  const text = `SELECT ${renderUsageColumns(by, DIALECT)} FROM runs WHERE seq < ? AND seq >= ? AND created >= ? AND ended IS NOT NULL GROUP BY 1`;
  let sums: UsageSum[] = [];
  const newest = sql.get<{ seq: number | null }>("SELECT max(seq) AS seq FROM runs")?.seq ?? 0;
  for (let below = newest + 1; below > 1;) {
    const from = below - RUNS_AT_ONCE;
    sums = mergeUsage([...sums, ...sql.all<UsageSum>(text, below, from, since)]);
    const next = sql.get<{ seq: number; created: number }>(
      "SELECT seq, created FROM runs WHERE seq < ? ORDER BY seq DESC LIMIT 1",
      from,
    );
    if (!next || next.created < since - DISORDER_MS) break;
    below = next.seq + 1;
    await pause();
  }
  return sums;
}
