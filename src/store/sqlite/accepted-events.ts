/** Accepts events with their duplicate keys, and turns accepted events into runs, jobs and system events. */
import { hash } from "node:crypto";
import type { WakeMode } from "../../config/schema/common.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { RecordWriter } from "../sql/record-writes.ts";
import { toDedupeRecord, toEventRow, type DedupeRest, type DedupeRow } from "../sql/rows.ts";
import type { Signals } from "../sql/signals.ts";
import {
  BROKEN,
  STORE_UNAVAILABLE,
  type AcceptResult,
  type DedupeEntry,
  type DedupeRecord,
  type EventOutcome,
  type EventRecord,
  type JobKind,
  type Ms,
  type StoredAction,
} from "../types.ts";
import type { SqliteGroupCommit, Statements } from "./connection.ts";

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

/** Writes by a store's writer. `touched` gets the kinds of jobs that may have become ready. */
export type WriteWith = <T>(touched: Set<JobKind>, work: (writer: RecordWriter) => T) => T;

/** Returns whether the content of an event, and not the store, kept its work from being queued. */
const isEventsFault = (error: unknown): boolean => safeError(error).code !== STORE_UNAVAILABLE.code;

function parseHead(text: string): object {
  try {
    return JSON.parse(text) as object;
  } catch {
    return { request: { method: "POST", headers: {}, query: {} } };
  }
}

/**
 * Gives an event whose work cannot be queued the outcome `failed` and the reason, in place of what could not be read of it.
 * Its duplicate keys are free again: another delivery is no repeat of something that has been done.
 */
function setAside(sql: Statements, id: string, error: unknown): void {
  const head = parseHead(
    sql.get<{ head: string }>("SELECT head FROM events WHERE id = ?", id)?.head ?? "",
  );
  const { code, name } = safeError(error);
  const reason = `${BROKEN} its work could not be queued (${code ?? name}); \`rouse events replay ${id}\` takes it in again, \`rouse events set ${id} --discard <reason>\` leaves it`;
  sql.run(
    "UPDATE events SET outcome = 'failed', actions = NULL, head = ? WHERE id = ?",
    JSON.stringify({ ...head, reason }),
    id,
  );
  sql.run(
    "DELETE FROM dedupe WHERE json_valid(record) AND json_extract(record, '$.eventId') = ?",
    id,
  );
}

/** Queues the work of one event, or sets the event aside. Returns its outcome. @throws if the store is unavailable. */
function queueOrSetAside(
  sql: Statements,
  { id, outcome }: { id: string; outcome: EventOutcome },
  queue: () => void,
  broken: (error: unknown) => void,
): EventOutcome {
  sql.run("SAVEPOINT event");
  try {
    queue();
    sql.run("RELEASE event");
    return outcome;
  } catch (error) {
    if (!isEventsFault(error)) throw error;
    sql.run("ROLLBACK TO event");
    sql.run("RELEASE event");
    setAside(sql, id, error);
    broken(error);
    return "failed";
  }
}

/** Events, and about as many actions, of one transaction: accepting waits for no more than some milliseconds. */
const SLICE = 64;

/** The result of a slice. `settle` must be called once it is committed. */
export interface Materialized {
  wakes: Map<string, WakeMode>;
  /** Events that were set aside, with what was thrown. */
  broken: { eventId: string; error: unknown }[];
  settle(): void;
}

interface Row {
  seq: number;
  id: string;
  at: number;
  outcome: EventOutcome;
  actions: string | null;
}

/**
 * Accepting writes one row, the event with its actions; here those become runs, jobs and system events. A watermark in
 * the same transaction says how far that has come, so that a crash between the two loses and doubles nothing.
 *
 * The numbers of events are given out here and never twice: were a number used again after retention took its event,
 * the new one would lie behind the watermark and never start.
 */
export class Materializer {
  readonly #sql: Statements;
  #given: number;
  #done: number;
  /** Each event of the next slice is on its own: one of the last slice could not be taken up. */
  isCareful = false;

  constructor(sql: Statements) {
    this.#sql = sql;
    this.#done = sql.get<{ seq: number }>("SELECT seq FROM marks WHERE name = 'intake'")?.seq ?? 0;
    this.#given = Math.max(
      this.#done,
      sql.get<{ seq: number | null }>("SELECT max(seq) AS seq FROM events")?.seq ?? 0,
    );
  }

  nextSeq(): number {
    return ++this.#given;
  }

  /** The newest number that was given out. */
  get given(): number {
    return this.#given;
  }

  /** All events up to this number have been taken up. */
  get done(): number {
    return this.#done;
  }

  /** Takes up the next slice, inside the caller's transaction. */
  materialize(writer: RecordWriter): Materialized {
    const given = this.#given;
    const rows = this.#sql.all<Row>(
      "SELECT seq, id, at, outcome, actions FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
      this.#done,
      SLICE,
    );
    const wakes = new Map<string, WakeMode>();
    const outcomes = new Map<EventOutcome, number>();
    const broken: Materialized["broken"] = [];
    let taken = 0;
    // Numbers without a row were given to commits that failed.
    let last = given;
    for (const row of rows) {
      if (taken >= SLICE) break;
      last = row.seq;
      const queue = (): void => void (taken += this.#queue(row, writer, wakes));
      const report = (error: unknown): void => void broken.push({ eventId: row.id, error });
      const outcome = this.isCareful
        ? queueOrSetAside(this.#sql, row, queue, report)
        : (queue(), row.outcome);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    for (const [outcome, count] of outcomes)
      this.#sql.run("UPDATE counts SET n = n + ? WHERE name = 'events.' || ?", count, outcome);
    this.#sql.run("UPDATE marks SET seq = ? WHERE name = 'intake'", last);
    const settle = (): void => {
      this.#done = last;
      this.isCareful = false;
    };
    return { wakes, broken, settle };
  }

  /** Queues the work of an event; returns how many actions it has. */
  #queue(row: Row, writer: RecordWriter, wakes: Map<string, WakeMode>): number {
    const actions = row.actions === null ? [] : (JSON.parse(row.actions) as StoredAction[]);
    for (const action of actions) writer.act(action, row.id, row.at, wakes);
    return actions.length;
  }
}

/** No hook for so long: the flood is over. */
const QUIET_MS = 5;
/** The first hook after such a pause starts immediately. */
const IDLE_MS = 20;
/** While somebody waits for work, a flood of hooks holds it back no longer than this. */
const MAX_DELAY_MS = 50;
const RETRY_MS = 1000;

interface Parts {
  materializer: Materializer;
  group: SqliteGroupCommit;
  signals: Signals;
  writeWith: WriteWith;
  log: Logger;
}

/**
 * Decides when accepted events are taken up: accepting goes before starting, but never for long where workers wait. Hooks that arrive
 * while events are taken up go before the rest of them.
 */
export class MaterializeLoop {
  readonly #parts: Parts;
  #closed = false;
  #slice: Promise<void> | undefined;
  #planned = false;
  #plannedAt = 0;
  #lastNoticed = -Infinity;

  constructor(parts: Parts) {
    this.#parts = parts;
    if (this.#backlog > 0) this.noticed();
  }

  /** To be called when an event with work is on disk. */
  noticed(): void {
    const now = performance.now();
    const idle = now - this.#lastNoticed > IDLE_MS;
    this.#lastNoticed = now;
    if (this.#planned || this.#closed) return;
    this.#planned = true;
    this.#plannedAt = now;
    if (!idle) return this.#plan();
    setImmediate(() => {
      // No other hook arrived during this turn of the event loop either.
      if (this.#parts.group.waiting === 0) this.#lastNoticed -= QUIET_MS;
      this.#look();
    });
  }

  /** Resolves when all that was accepted before the call has been taken up, in slices between which others commit. */
  async catchUp(): Promise<void> {
    const { materializer } = this.#parts;
    const target = materializer.given;
    while (materializer.done < target && !this.#closed) await this.#nextSlice();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#slice?.catch(() => undefined);
  }

  /** Events that are still to be taken up. */
  get #backlog(): number {
    const { materializer } = this.#parts;
    return materializer.given - materializer.done;
  }

  get #flooded(): boolean {
    return performance.now() - this.#lastNoticed < QUIET_MS || this.#parts.group.waiting > 0;
  }

  async #nextSlice(): Promise<void> {
    this.#slice ??= this.#materializeSlice().finally(() => (this.#slice = undefined));
    await this.#slice;
  }

  async #materializeSlice(): Promise<void> {
    const { materializer, group, signals, writeWith, log } = this.#parts;
    const touched = new Set<JobKind>();
    let materialized: Materialized;
    try {
      materialized = await group.derive(() =>
        writeWith(touched, (writer) => materializer.materialize(writer)),
      );
    } catch (error) {
      if (materializer.isCareful || !isEventsFault(error)) throw error;
      materializer.isCareful = true;
      return this.#materializeSlice();
    }
    materialized.settle();
    for (const { eventId, error } of materialized.broken)
      log.error(
        { err: safeError(error), eventId },
        "an accepted event is broken: it was set aside, and can be replayed",
      );
    signals.announce(touched);
    signals.woke(materialized.wakes);
  }

  #plan(): void {
    setTimeout(() => this.#look(), QUIET_MS).unref();
  }

  #look(): void {
    if (this.#closed) return;
    const { signals, log } = this.#parts;
    const isLate = signals.any() && performance.now() - this.#plannedAt >= MAX_DELAY_MS;
    if (this.#flooded && !isLate) return this.#plan();
    this.#takeUp().catch((error: unknown) => {
      this.#planned = false;
      if (this.#closed) return;
      log.error(
        { err: safeError(error) },
        "accepted events could not be queued yet; it is tried again",
      );
      setTimeout(() => this.noticed(), RETRY_MS).unref();
    });
  }

  /** Takes up slice after slice, until nothing is left or hooks arrive again. */
  async #takeUp(): Promise<void> {
    while (this.#backlog > 0 && !this.#closed) {
      await this.#nextSlice();
      if (this.#flooded) break;
    }
    this.#planned = this.#backlog > 0 && !this.#closed;
    if (!this.#planned) return;
    this.#plannedAt = performance.now();
    this.#plan();
  }
}
