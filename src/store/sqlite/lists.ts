import { getListLimit } from "../list-limit.ts";
import { mergeUsage, renderUsageColumns, type UsageDialect, type UsageQuery, type UsageSum } from "../usage-sums.ts";
import { toWhere, type JsonField, type Page } from "../read-table.ts";
import type { ListQuery } from "../types.ts";
import type { Statements } from "./statements.ts";

/** Rows that are looked at between two turns of the event loop: a filter that finds nothing must not hold up hooks. */
const WINDOW = 2000;
/** Rows are in order of time but for what waited before it was written: a body that came slowly, a run that took long. */
const DISORDER_MS = 3_600_000;

/** The number that rows must lie below: that of `before`, or one above the newest. Undefined if `before` is not found. */
function getFirstSeq(sql: Statements, table: string, query: ListQuery): number | undefined {
  if (query.before !== undefined) return sql.get<{ seq: number }>(`SELECT seq FROM ${table} WHERE id = ?`, query.before)?.seq;
  return (sql.get<{ seq: number | null }>(`SELECT max(seq) AS seq FROM ${table}`)?.seq ?? 0) + 1;
}

const toJsonField: JsonField = (name) => `json_extract(record, '$.${name}')`;

/** Whether it is known that there is no row of these names. Events that are not counted yet may be of any. */
function isNone(sql: Statements, names: readonly string[]): boolean {
  const text = `SELECT (SELECT sum(n) FROM counts WHERE name IN (${names.map(() => "?").join(", ")})) AS n,
    EXISTS (SELECT 1 FROM events WHERE seq > (SELECT seq FROM marks WHERE name = 'intake')) AS more`;
  const counted = sql.get<{ n: number | null; more: number }>(text, ...names);
  return counted?.n === 0 && counted.more === 0;
}

/** Records newest first, looked for window by window. */
export async function listNewestInSqlite<Q extends ListQuery, T>(sql: Statements, page: Page<Q, T>, query: Q): Promise<T[]> {
  const { table, columns, at, conditions, read } = page;
  const limit = getListLimit(query);
  const names = page.counted(query);
  if (names && isNone(sql, names)) return [];
  const since = query.since ?? 0;
  const prefix = query.idPrefix === undefined ? [] : [["instr(id, ?) = 1", query.idPrefix] as const];
  const where = toWhere([...conditions(query, toJsonField), ...prefix], () => "?");
  const found: T[] = [];
  const oldest = sql.get<{ seq: number | null }>(`SELECT min(seq) AS seq FROM ${table}`)?.seq ?? 0;
  let below = getFirstSeq(sql, table, query) ?? 0;
  while (below > oldest && below > 0) {
    const from = below - WINDOW;
    const text = `SELECT ${columns} FROM ${table} WHERE seq < ? AND seq >= ? AND ${at} >= ?${where.sql} ORDER BY seq DESC LIMIT ?`;
    found.push(...sql.all(text, below, from, since, ...where.values, limit - found.length).map(read));
    if (found.length >= limit) break;
    const next = sql.get<{ at: number }>(`SELECT ${at} AS at FROM ${table} WHERE seq < ? ORDER BY seq DESC LIMIT 1`, from);
    if (!next || next.at < since - DISORDER_MS) break;
    below = from;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return found;
}

const toPath = (column: string, path: readonly string[]): string => `json_extract(${column}, '$.${path.join(".")}')`;
const DIALECT: UsageDialect = {
  text: (column, ...path) => toPath(column, path),
  number: (column, ...path) => toPath(column, path),
  day: (column) => `date(${column} / 1000, 'unixepoch')`,
};
/** Runs whose records are read between two turns of the event loop. */
const RUNS_AT_ONCE = 500;

/** Adds up what runs have used, window by window. */
export async function sumUsageInSqlite(sql: Statements, { by, since }: UsageQuery): Promise<UsageSum[]> {
  const text = `SELECT ${renderUsageColumns(by, DIALECT)} FROM runs WHERE seq < ? AND seq >= ? AND created >= ? AND ended IS NOT NULL GROUP BY 1`;
  let sums: UsageSum[] = [];
  for (let below = getFirstSeq(sql, "runs", {}) ?? 0; below > 0;) {
    const from = below - RUNS_AT_ONCE;
    sums = mergeUsage([...sums, ...sql.all<UsageSum>(text, below, from, since)]);
    const next = sql.get<{ seq: number; created: number }>("SELECT seq, created FROM runs WHERE seq < ? ORDER BY seq DESC LIMIT 1", from);
    if (!next || next.created < since - DISORDER_MS) break;
    below = next.seq + 1;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return sums;
}
