/** A day of history: runs that have ended, and what limits count of them, written by SQL that both stores understand. */
import { DatabaseSync } from "node:sqlite";
import { queryAt } from "./postgres.ts";
import { getSignal } from "./servers.ts";

type Query = (sql: string) => Promise<Record<string, unknown>[]>;

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const QUARTER_MS = 900_000;
/** The use of each of these runs: see the model's answer. */
const TOKENS = 2;
const MICROS = 2;

const numbers = (last: number): string =>
  `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${last})`;

/** Copies the newest run that has ended, `count` times over the last day. Columns that are not named here are copied as they are. */
async function fillRuns(
  query: Query,
  columns: readonly string[],
  count: number,
  now: number,
): Promise<void> {
  const [run] = await query(
    "SELECT * FROM runs WHERE status = 'succeeded' ORDER BY seq DESC LIMIT 1",
  );
  if (!run) throw new Error("no run has ended of which the history could be made");
  const created = `(${now} - ${DAY_MS} + n * ${Math.floor(DAY_MS / count)})`;
  const { createdAt, startedAt, endedAt } = JSON.parse(String(run["record"])) as Record<
    string,
    number
  >;
  const record = Object.entries({ createdAt, startedAt, endedAt }).reduce(
    (text, [name, at]) => `replace(${text}, '"${name}":${at}', '"${name}":' || ${created})`,
    `replace(record, '${String(run["id"])}', ${newId("run")})`,
  );
  const values: Record<string, string> = {
    id: newId("run"),
    event_id: newId("evt"),
    session_key: "'hook:' || n",
    created,
    ended: created,
    record,
  };
  const copied = columns.filter((column) => column !== "seq");
  await query(`${numbers(count)} INSERT INTO runs (${copied.join(", ")})
    SELECT ${copied.map((column) => values[column] ?? `one.${column}`).join(", ")}
    FROM runs AS one CROSS JOIN numbers WHERE one.id = '${String(run["id"])}'`);
}
const newId = (kind: string): string => `'${kind}_history' || (1000000000 + n)`;

/** The counters of these runs: their starts in the last hour, and what they used within a day. */
async function fillUsage(query: Query, count: number, now: number): Promise<void> {
  const hour = Math.round((count / DAY_MS) * MINUTE_MS);
  const day = Math.round((count / DAY_MS) * QUARTER_MS);
  const buckets = (
    last: number,
    widthMs: number,
    [starts, tokens, micros]: readonly number[],
  ): string =>
    `${numbers(last)} INSERT INTO usage (counter, width, at, starts, tokens, micros)
      SELECT 'hooks', ${widthMs}, ${Math.floor(now / widthMs) * widthMs} - n * ${widthMs}, ${starts}, ${tokens}, ${micros} FROM numbers WHERE true
      ON CONFLICT DO NOTHING`;
  await query(buckets(60, MINUTE_MS, [hour, 0, 0]));
  await query(buckets(96, QUARTER_MS, [0, day * TOKENS, day * MICROS]));
}

/** Fills a file of SQLite whose gateway has stopped. */
export async function fillSqlite(file: string, count: number): Promise<void> {
  const db = new DatabaseSync(file);
  try {
    const query: Query = async (sql) => db.prepare(sql).all();
    const columns = (await query("SELECT name FROM pragma_table_info('runs')")).map(({ name }) =>
      String(name),
    );
    await fillRuns(query, columns, count, Date.now());
    await fillUsage(query, count, Date.now());
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

/** Fills a database of PostgreSQL whose gateway has stopped. */
export async function fillPostgres(url: string, count: number): Promise<void> {
  const inSchema = new URL(url);
  inSchema.searchParams.set("options", "-c search_path=rouse");
  const query: Query = async (sql) => (await queryAt(inSchema.href, sql, getSignal())).rows;
  const columns = await query(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'runs'",
  );
  await fillRuns(
    query,
    columns.map(({ name }) => String(name)),
    count,
    Date.now(),
  );
  await fillUsage(query, count, Date.now());
  // Or autovacuum would do it in the middle of a measurement.
  await query("VACUUM ANALYZE runs");
  await query("CHECKPOINT");
}
