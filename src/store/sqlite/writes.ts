import { hash } from "node:crypto";
import type { SQLInputValue } from "node:sqlite";
import {
  RecordWriter,
  type JobRows,
  type Kept,
  type NewRow,
  type RecordRows,
} from "../sql/record-writes.ts";
import { toDedupeRecord, toEventRow, type DedupeRest, type DedupeRow } from "../sql/rows.ts";
import {
  addColumns,
  USAGE_NUMBERS,
  type AcceptResult,
  type DedupeEntry,
  type DedupeRecord,
  type EventRecord,
  type Ms,
} from "../types.ts";
import type { Statements } from "./statements.ts";

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

/** Hex digits of a digest that a JavaScript number holds exactly. */
const DIGITS = 13;

/**
 * Duplicate keys. Rows are appended, and found by a number made of scope and key (52 bits of SHA-256): keys are random,
 * and an index on them as they are would touch another page for every hook. Two keys may share a number: each row says
 * whose it is.
 */
export function keyNumber(scope: string, key: string): number {
  return Number.parseInt(hash("sha256", `${scope}\n${key}`, "hex").slice(0, DIGITS), 16);
}

type KeyRow = DedupeRow & { seq: number };

function findRow(sql: Statements, scope: string, key: string): KeyRow | undefined {
  const rows = sql.all<KeyRow>(
    "SELECT seq, scope, key, expires, record FROM dedupe WHERE number = ?",
    keyNumber(scope, key),
  );
  return rows.find((row) => row.scope === scope && row.key === key);
}

/** The record that holds a key, where it is not expired. */
export function findDedupeKey(
  sql: Statements,
  scope: string,
  key: string,
  now: Ms,
): DedupeRecord | undefined {
  const row = findRow(sql, scope, key);
  return row && row.expires > now ? toDedupeRecord(row) : undefined;
}

/** Binds a duplicate key to an event; a key that is expired goes to the new event. False if another event holds it: nothing is written. */
function bindKey(sql: Statements, eventId: string, entry: DedupeEntry, now: Ms): boolean {
  const { scope, key, expiresAt, ...rest } = entry;
  const known = findRow(sql, scope, key);
  if (known && known.expires > now) return false;
  if (known) sql.run("DELETE FROM dedupe WHERE seq = ?", known.seq);
  const record: DedupeRest = { ...rest, eventId };
  sql.run(
    "INSERT INTO dedupe (number, scope, key, expires, record) VALUES (?, ?, ?, ?, ?)",
    keyNumber(scope, key),
    scope,
    key,
    expiresAt,
    JSON.stringify(record),
  );
  return true;
}

/** Adds an event's row: the one insert of an answer's way. */
const insertEvent = (sql: Statements, seq: number, event: EventRecord, now: Ms): void => {
  const row = toEventRow(event, now);
  const { id, at, path, credential, outcome, mapping, head, actions, body } = row;
  sql.run(INSERT_EVENT, seq, id, at, path, credential, outcome, mapping, head, actions, body);
};
const INSERT_EVENT =
  "INSERT INTO events (seq, id, at, path, credential, outcome, mapping, head, actions, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/** Binds the duplicate keys of an event and adds its row; nothing of both if another event holds a key. */
export function acceptEvent(
  sql: Statements,
  nextSeq: () => number,
  event: EventRecord,
  keys: readonly DedupeEntry[],
  now: Ms,
): AcceptResult {
  // One key is its own check; of several, none may be bound before all are known to be free.
  for (const { scope, key } of keys.length > 1 ? keys : []) {
    const record = findDedupeKey(sql, scope, key, now);
    if (record) return { kind: "duplicate", record };
  }
  for (const entry of keys) {
    const held = bindKey(sql, event.id, entry, now)
      ? undefined
      : findDedupeKey(sql, entry.scope, entry.key, now);
    if (held && held.eventId !== event.id) return { kind: "duplicate", record: held };
  }
  insertEvent(sql, nextSeq(), event, now);
  return { kind: "accepted" };
}

/** How the rows are read that are changed. */
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
