/** Reads and writes the records of a store in SQLite. */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { createReads, wrapReads } from "../sql/reads.ts";
import {
  RecordWriter,
  type JobRows,
  type Kept,
  type NewRow,
  type RecordRows,
} from "../sql/record-writes.ts";
import type { ListSource } from "../sql/search.ts";
import {
  addColumns,
  USAGE_NUMBERS,
  type Listing,
  type Ms,
  type Reads,
  type SearchedKind,
  type Store,
  type StoreReader,
} from "../types.ts";
import { findDedupeKey, type MaterializeLoop } from "./accepted-events.ts";
import { type SqliteGroupCommit, Statements } from "./connection.ts";
import type { SqliteJobs } from "./jobs.ts";

/** Rows that are looked at between two turns of the event loop: a filter that finds nothing must not hold up hooks. */
const WINDOW = 2000;
/** Runs whose records are read between two turns of the event loop. */
const RUNS_AT_ONCE = 500;

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns whether it is known that there is no row of these names. Events that are not counted yet may be of any. */
function isNone(sql: Statements, names: readonly string[]): boolean {
  const text = `SELECT (SELECT sum(n) FROM counts WHERE name IN (${names.map(() => "?").join(", ")})) AS n,
    EXISTS (SELECT 1 FROM events WHERE seq > (SELECT seq FROM marks WHERE name = 'intake')) AS more`;
  const counted = sql.get<{ n: number | null; more: number }>(text, ...names);
  return counted?.n === 0 && counted.more === 0;
}

const renderJsonValue = (column: string, ...path: string[]): string =>
  `json_extract(${column}, '$.${path.join(".")}')`;

/** The source of all reads. */
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

const toValues = (row: NewRow): SQLInputValue[] => Object.values(row).map((value) => value ?? null);

/** Texts of statements, by table: all rows of a table that are added have the same columns. */
type Texts = Map<string, string>;
const inserts: Texts = new Map();
const insertsOnce: Texts = new Map();
const changes: Texts = new Map();

function toText(texts: Texts, name: string, render: () => string): string {
  let text = texts.get(name);
  if (text === undefined) texts.set(name, (text = render()));
  return text;
}

/** Adds a row; returns whether it was not there. */
function insert(sql: Statements, table: string, row: NewRow, texts = inserts): boolean {
  const text = toText(texts, table, () => {
    const names = Object.keys(row);
    const places = names.map(() => "?").join(", ");
    const end = texts === insertsOnce ? " ON CONFLICT (id) DO NOTHING" : "";
    return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${places})${end}`;
  });
  return sql.run(text, ...toValues(row)) === 1;
}

/** Reads the rows that are changed. */
const READS: { [T in keyof Kept]: string } = {
  events: "SELECT head AS record FROM events WHERE id = ?",
  runs: "SELECT record FROM runs WHERE id = ?",
  deliveries: "SELECT record FROM deliveries WHERE id = ?",
  approvals: "SELECT record FROM approvals WHERE id = ?",
  tool_calls: "SELECT step, position, record FROM tool_calls WHERE run_id = ? AND id = ?",
};

interface KeptRow {
  record: string;
  step?: number;
  position?: number;
}

function get<T extends keyof Kept>(sql: Statements, table: T, name: string): Kept[T] | undefined {
  const row = sql.get<KeptRow>(READS[table], ...name.split("\n"));
  if (!row) return undefined;
  if (table === "events") return row.record as Kept[T];
  const record = JSON.parse(row.record) as unknown;
  return (table === "tool_calls" ? { ...row, record } : record) as Kept[T];
}

const SETS = {
  last_routes: `INSERT INTO last_routes (agent, channel, recipient, thread, at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (agent, channel) DO UPDATE SET recipient = excluded.recipient, thread = excluded.thread, at = excluded.at`,
  meta: "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  configs: `INSERT INTO configs (id, first_used, last_used, content) VALUES (?1, ?2, ?2, ?3)
    ON CONFLICT (id) DO UPDATE SET last_used = max(last_used, excluded.last_used)`,
};
const ADD_SESSION = `INSERT INTO sessions (session, agent, origin, key, path, credential, created, used, turns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)
  ON CONFLICT (session) DO UPDATE SET turns = turns + 1, used = excluded.used`;
const USAGE_COLUMNS = ["counter", "width", "at", ...USAGE_NUMBERS] as const;
const ADD_USAGE = `INSERT INTO usage (${USAGE_COLUMNS.join(", ")}) VALUES (${USAGE_COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (counter, width, at) DO UPDATE SET ${addColumns("usage", USAGE_NUMBERS)}`;

/** Rows are written immediately, inside the caller's transaction. */
function createRows(sql: Statements): RecordRows {
  const dropTurns = (session: string): void => {
    sql.run("DELETE FROM turns WHERE session = ?", session);
    sql.run("UPDATE sessions SET turns = 0 WHERE session = ?", session);
  };
  return {
    get: (table, name) => get(sql, table, name),
    insert: (table, _name, row) => void insert(sql, table, row),
    insertOnce: (table, _name, row) => insert(sql, table, row, insertsOnce),
    change(table, _name, keys, row) {
      const text = toText(changes, "spec" in row ? `${table} with spec` : table, () => {
        const [set, same] = [row, keys].map((one) => Object.keys(one).map((name) => `${name} = ?`));
        return `UPDATE ${table} SET ${set?.join(", ")} WHERE ${same?.join(" AND ")}`;
      });
      sql.run(text, ...toValues(row), ...toValues(keys));
    },
    set: (table, _name, row) => void sql.run(SETS[table], ...toValues(row)),
    addTurn(session, turn) {
      insert(sql, "turns", { session: session.session, ...turn });
      sql.run(ADD_SESSION, ...toValues(session));
    },
    dropTurns,
    dropSession(session) {
      dropTurns(session);
      sql.run("DELETE FROM sessions WHERE session = ?", session);
    },
    dropCollected: (runId) => void sql.run("DELETE FROM collected WHERE run_id = ?", runId),
    changeSystemEvents(ids, { state, failed }) {
      const text =
        "UPDATE system_events SET state = coalesce(?, state), failures = failures + ? WHERE id = ?";
      for (const id of ids) sql.run(text, state ?? null, failed ? 1 : 0, id);
    },
    addUsage: (row) => void sql.run(ADD_USAGE, ...USAGE_COLUMNS.map((name) => row[name])),
    setParked(runId, isParked) {
      if (!isParked) sql.run("DELETE FROM parked WHERE run = ?", runId);
    },
  };
}

/** Creates the writer of a store, once for all of its commits. */
export const createSqliteWriter = (sql: Statements, jobs: JobRows, now: () => Ms): RecordWriter =>
  new RecordWriter(createRows(sql), jobs, now);
