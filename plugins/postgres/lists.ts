import {
  type JsonText,
  type ListSource,
  mergeUsage,
  renderUsageColumns,
  type Sql,
  type UsageDialect,
  type UsageQuery,
  type UsageSum,
} from "#store-kit";
import { digest } from "./digest.ts";

/** Rows that one statement of a search looks at: so many take some 10 ms. */
const WINDOW = 5000;
/** Runs that one statement adds up. */
const RUNS_AT_ONCE = 20_000;
/** Rows are in order of time but for what waited before it was written, and for what gateways wrote at the same moment. */
const DISORDER_MS = 3_600_000;

async function one<T>(
  sql: Sql,
  text: string,
  values: readonly unknown[] = [],
): Promise<T | undefined> {
  return (await sql.query<T>(text, values))[0];
}

/** Whether it is known that there is no row of these names. */
async function isNone(sql: Sql, names: readonly string[]): Promise<boolean> {
  const text = `SELECT sum(n)::bigint AS n FROM (
    SELECT n FROM counts WHERE name = ANY($1::text[]) UNION ALL SELECT n FROM count_deltas WHERE name = ANY($1::text[])) AS all_of_it`;
  const counted = await one<{ n: number | null }>(sql, text, [names]);
  return (counted?.n ?? 0) === 0;
}

/**
 * Keys of sessions may be too long for an index. Every delivery changes its status once, which would be a further entry in an
 * index, and an update that has to write all indexes of the table.
 */
const LACKS = new Set(["runs_session", "deliveries_failed", "deliveries_status"]);

/** How lists are read from PostgreSQL. */
export const createSource = (sql: Sql): ListSource => ({
  query(text, values) {
    let place = 0;
    return sql.query(
      text.replaceAll("?", () => `$${++place}`),
      values,
    );
  },
  window: WINDOW,
  json: (name) => `record::json ->> '${name}'`,
  session: { column: "id", toKey: digest },
  // As a join the planner may read all events first.
  isAmong: (subquery) => `id = ANY (ARRAY(${subquery}))`,
  lacks: LACKS,
  isNone: (names) => isNone(sql, names),
});

/** Renders a text inside a JSON column as SQL. */
export const renderJsonText: JsonText = (column, ...path) =>
  `${column}::json #>> '{${path.join(",")}}'`;

/** Reads each record once, however many of its fields are asked for. */
const USAGE_SOURCE = `runs
  CROSS JOIN LATERAL json_to_record(record::json) AS r (mapping text, kind text, model text, usage json)
  CROSS JOIN LATERAL json_to_record(coalesce(r.usage, '{}')) AS u ("inputTokens" float8, "cachedInputTokens" float8, "cacheWriteTokens" float8, "outputTokens" float8, "costUsd" float8)`;
const DIALECT: UsageDialect = {
  text: (column, ...path) =>
    column === "spec" ? `spec::json #>> '{${path.join(",")}}'` : `r.${path[0]}::text`,
  number: (_column, ...path) => `u."${path[1]}"`,
  day: (column) => `to_char(to_timestamp(${column} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
};

/** Adds up what runs have used, window by window. */
export async function sumUsage(sql: Sql, { by, since }: UsageQuery): Promise<UsageSum[]> {
  const text = `SELECT ${renderUsageColumns(by, DIALECT)} FROM ${USAGE_SOURCE}
    WHERE seq < $1 AND seq >= $2 AND created >= $3 AND ended IS NOT NULL GROUP BY 1`;
  let sums: UsageSum[] = [];
  const newest = await one<{ seq: number }>(sql, "SELECT seq FROM runs ORDER BY seq DESC LIMIT 1");
  for (let below = (newest?.seq ?? 0) + 1; below > 1;) {
    const from = below - RUNS_AT_ONCE;
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
