import {
  getListLimit,
  type JsonField,
  type ListQuery,
  mergeUsage,
  type Page,
  renderUsageColumns,
  type Sql,
  toWhere,
  type UsageDialect,
  type UsageQuery,
  type UsageSum,
} from "#store-kit";

/** Rows that one statement looks at: a filter that finds nothing must not run into the time that a statement has. */
const WINDOW = 20_000;
/** Rows are in order of time but for what waited before it was written, and for what gateways wrote at the same moment. */
const DISORDER_MS = 3_600_000;

/** Values that come before those of the conditions: below, from, since, limit. */
const FIXED = 4;

const toJsonField: JsonField = (name) => `record::json ->> '${name}'`;

async function one<T>(sql: Sql, text: string, values: readonly unknown[] = []): Promise<T | undefined> {
  return (await sql.query<T>(text, values))[0];
}

/** The number that rows must lie below: that of `before`, or one above the newest. 0 where `before` is not there. */
async function startOf(sql: Sql, table: string, query: ListQuery): Promise<number> {
  if (query.before !== undefined)
    return (await one<{ seq: number }>(sql, `SELECT seq FROM ${table} WHERE id = $1`, [query.before]))?.seq ?? 0;
  return ((await one<{ seq: number }>(sql, `SELECT seq FROM ${table} ORDER BY seq DESC LIMIT 1`))?.seq ?? 0) + 1;
}

/** Whether it is known that there is no row of these names. */
async function isNone(sql: Sql, names: readonly string[]): Promise<boolean> {
  const text = `SELECT sum(n)::bigint AS n FROM (
    SELECT n FROM counts WHERE name = ANY($1::text[]) UNION ALL SELECT n FROM count_deltas WHERE name = ANY($1::text[])) AS all_of_it`;
  const counted = await one<{ n: number | null }>(sql, text, [names]);
  return (counted?.n ?? 0) === 0;
}

/** Records newest first, looked for window by window. */
export async function listNewest<Q extends ListQuery, T>(sql: Sql, page: Page<Q, T>, query: Q): Promise<T[]> {
  const { table, columns, at, conditions, read } = page;
  const limit = getListLimit(query);
  const names = page.counted(query);
  if (names && (await isNone(sql, names))) return [];
  const since = query.since ?? 0;
  const prefix = query.idPrefix === undefined ? [] : [["starts_with(id, ?)", query.idPrefix] as const];
  const where = toWhere([...conditions(query, toJsonField), ...prefix], (n) => `$${n + FIXED}`);
  const found: T[] = [];
  let below = await startOf(sql, table, query);
  while (below > 0) {
    const from = below - WINDOW;
    const text = `SELECT ${columns} FROM ${table} WHERE seq < $1 AND seq >= $2 AND ${at} >= $3${where.sql} ORDER BY seq DESC LIMIT $4`;
    found.push(...(await sql.query(text, [below, from, since, limit - found.length, ...where.values])).map(read));
    if (found.length >= limit) break;
    const next = await one<{ seq: number; at: number }>(
      sql,
      `SELECT seq, ${at} AS at FROM ${table} WHERE seq < $1 ORDER BY seq DESC LIMIT 1`,
      [from],
    );
    if (!next || next.at < since - DISORDER_MS) break;
    // Numbers that were given to what was not kept, or that are gone, are no windows of their own.
    below = next.seq + 1;
  }
  return found;
}

/** Reads each record once, however many of its fields are asked for. */
const USAGE_SOURCE = `runs
  CROSS JOIN LATERAL json_to_record(record::json) AS r (mapping text, kind text, model text, usage json)
  CROSS JOIN LATERAL json_to_record(coalesce(r.usage, '{}')) AS u ("inputTokens" float8, "cachedInputTokens" float8, "cacheWriteTokens" float8, "outputTokens" float8, "costUsd" float8)`;
const DIALECT: UsageDialect = {
  text: (column, ...path) => (column === "spec" ? `spec::json #>> '{${path.join(",")}}'` : `r.${path[0]}::text`),
  number: (_column, ...path) => `u."${path[1]}"`,
  day: (column) => `to_char(to_timestamp(${column} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
};

/** Adds up what runs have used, window by window. */
export async function sumUsage(sql: Sql, { by, since }: UsageQuery): Promise<UsageSum[]> {
  const text = `SELECT ${renderUsageColumns(by, DIALECT)} FROM ${USAGE_SOURCE}
    WHERE seq < $1 AND seq >= $2 AND created >= $3 AND ended IS NOT NULL GROUP BY 1`;
  let sums: UsageSum[] = [];
  for (let below = await startOf(sql, "runs", {}); below > 0;) {
    const from = below - WINDOW;
    sums = mergeUsage([...sums, ...(await sql.query<UsageSum>(text, [below, from, since]))]);
    const next = await one<{ seq: number; created: number }>(
      sql,
      "SELECT seq, created FROM runs WHERE seq < $1 ORDER BY seq DESC LIMIT 1",
      [from],
    );
    if (!next || next.created < since - DISORDER_MS) break;
    below = next.seq + 1;
  }
  return sums;
}
