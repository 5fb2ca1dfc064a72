import { COUNTED, createReads, type Ms, type Reads, type Sql, type Store } from "#store-kit";
import type { Db } from "../client/db.ts";
import { digest } from "../client/digest.ts";
import { readDedupeRecords } from "../commit/keys.ts";

type ListSource = Parameters<typeof createReads>[0];

/** Rows that one statement of a search looks at: so many take some 10 ms. */
const WINDOW = 5000;
/** Runs that one statement adds up. */
const RUNS_AT_ONCE = 20_000;
/** Rows of changes that one transaction sums up. */
const SLICE = 20_000;

/** The counts that statements noted of their changes, by name. */
const NOTED = "(SELECT name, n FROM counts UNION ALL SELECT name, n FROM count_deltas) AS noted";

/** Returns whether it is known that there is no row of these names. */
async function isNone(sql: Sql, names: readonly string[]): Promise<boolean> {
  const text = `SELECT sum(n)::bigint AS n FROM ${NOTED} WHERE name = ANY($1::text[])`;
  const [counted] = await sql.query<{ n: number | null }>(text, [names]);
  return (counted?.n ?? 0) === 0;
}

/** Reads all counts. */
async function readCounts(db: Db): Promise<Record<string, number>> {
  const rows = await db.query<{ name: string; n: number }>(
    `SELECT name, sum(n)::bigint AS n FROM ${NOTED} GROUP BY name`,
  );
  const counts = Object.fromEntries(COUNTED.map((name) => [name, 0]));
  for (const { name, n } of rows) counts[name] = n;
  return counts;
}

/** Sums up what was noted since; where another gateway is at it, that is enough. */
export async function foldCounts(db: Db): Promise<void> {
  await db.query(
    `WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtextextended($1, 7421)) AS me),
      gone AS (
        DELETE FROM count_deltas WHERE ctid = ANY(ARRAY(SELECT ctid FROM count_deltas WHERE (SELECT me FROM alone) LIMIT ${SLICE})) RETURNING name, n)
      INSERT INTO counts AS known (name, n) SELECT name, sum(n) FROM gone GROUP BY name ORDER BY name
        ON CONFLICT (name) DO UPDATE SET n = known.n + excluded.n`,
    [`rouse ${db.address.schema}`],
  );
}

/** The most keys of one question: bounds how long its keys wait. */
const MAX_KEYS = 64;

/**
 * Collects the keys that are asked for during one turn of the event loop, and loads them together, at most 64 at a time.
 * `load` returns the answers in the order of the keys; if it fails, the question fails for each of its keys.
 */
export function createBatch<K, V>(
  load: (keys: readonly K[]) => Promise<readonly V[]>,
): (key: K) => Promise<V> {
  let asked: { key: K; resolve(answer: V): void; reject(error: unknown): void }[] = [];
  const loadSome = async (some: typeof asked): Promise<void> => {
    try {
      const answers = await load(some.map(({ key }) => key));
      for (const [n, { resolve }] of some.entries()) resolve(answers[n] as V);
    } catch (error) {
      for (const { reject } of some) reject(error);
    }
  };
  const loadAll = (): void => {
    const all = asked;
    asked = [];
    for (let from = 0; from < all.length; from += MAX_KEYS)
      void loadSome(all.slice(from, from + MAX_KEYS));
  };
  return (key) =>
    new Promise((resolve, reject) => {
      if (asked.push({ key, resolve, reject }) === 1) setImmediate(loadAll);
    });
}

/**
 * Prepares a read by key: what is asked for by the same statement during one turn of the event loop goes to PostgreSQL as one.
 * `text` has a `?` for each part of a key. PostgreSQL has no types for these, so they are cast where an operator does not say them.
 */
export function readTogether<Row>(
  sql: Sql,
  text: string,
  types: readonly string[],
): (...key: unknown[]) => Promise<Row[]> {
  const lists = types.map((type, n) => `$${n + 1}::${type}[]`).join(", ");
  const names = types.map((_, n) => `k${n + 1}`).join(", ");
  let place = 0;
  const all = `SELECT given.nth, found.* FROM unnest(${lists}) WITH ORDINALITY AS given (${names}, nth)
    CROSS JOIN LATERAL (${text.replaceAll("?", () => `given.k${++place}`)}) AS found`;
  const ask = createBatch(async (keys: readonly unknown[][]) => {
    const values = types.map((_, n) => keys.map((key) => key[n]));
    const found = keys.map((): Row[] => []);
    for (const { nth, ...row } of await sql.query<{ nth: number }>(all, values))
      found[nth - 1]?.push(row as Row);
    return found;
  });
  return (...key) => ask(key);
}

/**
 * Keys of sessions may be too long for an index. Every delivery changes its status once, which would be a further entry in an
 * index, and an update that has to write all indexes of the table.
 */
const LACKS = new Set(["runs_session", "deliveries_failed", "deliveries_status"]);

/**
 * The JSON of a column. PostgreSQL reads none with U+0000 or half of a surrogate pair in it, wherever that stands: U+FFFD
 * takes its place here. JSON.stringify escapes both, and few other signs, so that most records are read as they are.
 */
const toJson = (column: string): string =>
  String.raw`(CASE WHEN strpos(${column}, '\u') > 0 THEN regexp_replace(${column}, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g') ELSE ${column} END)::json`;

/** Reads each record once, however many of its fields are asked for. */
const USED = `runs
  CROSS JOIN LATERAL json_to_record(${toJson("record")}) AS r (mapping text, kind text, model text, usage json)
  CROSS JOIN LATERAL json_to_record(coalesce(r.usage, '{}')) AS u ("inputTokens" float8, "cachedInputTokens" float8, "cacheWriteTokens" float8, "outputTokens" float8, "costUsd" float8)`;

/** Creates the reader of lists; `work`: the connection for reads of runs. */
export const createSource = (sql: Sql, work = sql): ListSource => ({
  query(text, values) {
    let place = 0;
    return sql.query(
      text.replaceAll("?", () => `$${++place}`),
      values,
    );
  },
  window: WINDOW,
  json: (column, ...path) => `${toJson(column)} #>> '{${path.join(",")}}'`,
  usage: {
    rows: RUNS_AT_ONCE,
    from: USED,
    field: (name) => `r.${name}::text`,
    number: (name) => `u."${name}"`,
    day: (column) => `to_char(to_timestamp(${column} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD')`,
  },
  isNumberOf: { sql: "= ANY (?::bigint[])", toValue: (numbers) => numbers },
  session: { column: "id", type: "bytea", toKey: digest },
  // As a join the planner may read all events first.
  isAmong: (column, subquery) => `${column} = ANY (ARRAY(${subquery}))`,
  lacks: LACKS,
  isNone: (names) => isNone(sql, names),
  readTogether: (text, types) => readTogether(work, text, types),
});

/** The reading side over PostgreSQL. */
export function createPostgresReads(
  db: Db,
  now: () => Ms,
): Reads & Pick<Store, "findDuplicates" | "counts"> {
  return {
    ...createReads(createSource(db, db.work)),
    async findDuplicates(keys) {
      if (keys.length === 0) return [];
      const ids = keys.map(({ scope, key }) => digest(scope, key));
      const records = await readDedupeRecords(db.accepts, ids);
      return ids.map((id) => {
        const record = records.get(id.toString("hex"));
        return record && record.expiresAt > now() ? record : undefined;
      });
    },
    counts: () => readCounts(db),
  };
}
