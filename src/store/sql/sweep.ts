/** The statements of a sweep, which both drivers know. */
import type { ListSource } from "./search.ts";
import type { SqlCondition, Value } from "./read-table.ts";
import {
  getAgedTables,
  getRedactions,
  getTrims,
  LOOK_AHEAD,
  lookAhead,
  redactRows,
  selectAged,
  SWEEP_SLICE,
  type Age,
  type AgedRow,
  type AgedTable,
  type RedactedRow,
  type Redaction,
  type RedactionPosition,
  type SweepDialect,
  type TimedRow,
  type Walk,
} from "./sweep-plan.ts";
import type { ConfigRow } from "./rows.ts";
import type { Ms, Retention } from "../types.ts";

/** A statement with a `?` for each value. */
export type SweepStatement = readonly [text: string, ...values: Value[]];

/** The result of one transaction. `more` asks for another; `settle` is called once it is on disk, since it may be run again before. */
export interface Slice {
  changed: number;
  more: boolean;
  settle?(): void;
}

/** One transaction of a sweep: the statements that it runs, each of which is answered with its rows. */
type Statements<T> = Generator<SweepStatement, T, unknown[]>;
export type SweepStep = () => Statements<Slice>;

/** The tables of a driver. */
export interface SweepTables extends SweepDialect {
  source: Pick<ListSource, "isAmong" | "isNumberOf" | "session">;
  /** The tables that hold the events of which rows are deleted, and the SQL that deletes the rows with some numbers, and returns them. */
  events: readonly string[];
  deleteEvents(table: string, isOld: string): string;
  /** Events behind this number are left as they are. */
  upTo: number;
  /** Every event up to this number is old. */
  oldUpTo: number;
  /** Rows that are younger than that may still be written, with smaller numbers. */
  settled?: Age;
  /** A condition for the rows of a run's part that are deleted with the run. */
  isDeleted?(part: string): SqlCondition;
  /** Renders the table, or the part of it, that a row is in. */
  partOf(table: string): string;
  /** The column that identifies a duplicate key. */
  dedupeKey: string;
  /** Locks the rows of a SELECT. */
  lock: string;
}

/** Looks for an old row behind those from the future. `from`: a table, or a part of it. */
function* look(
  { from, at }: { from: string; at: string },
  walk: Walk,
  age: Age,
): Statements<ReturnType<typeof lookAhead>> {
  const text = `SELECT seq, ${at} AS at FROM ${from} WHERE seq > ? ORDER BY seq LIMIT ?`;
  const rows = yield [text, walk.looked ?? walk.after, LOOK_AHEAD];
  return lookAhead(rows as TimedRow[], walk, age);
}

/** Deletes the rows that are old in `part`, which is the table or a part of it. */
function deleteAged(tables: SweepTables, aged: AgedTable, part: string): SweepStep {
  const { table, at, since, age, parts = [] } = aged;
  const isEvents = table === "events";
  const upTo = isEvents ? tables.upTo : Number.MAX_SAFE_INTEGER;
  const from = part === table ? table : `${part} AS ${table}`;
  const { isAmong, isNumberOf } = tables.source;
  const isOld = `seq ${isNumberOf.sql}`;
  let position: Walk = { after: 0, oldUpTo: isEvents ? tables.oldUpTo : 0 };
  return function* () {
    if (position.looked !== undefined) {
      const { walk, end } = yield* look({ from, at }, position, age);
      return { changed: 0, more: !end, settle: () => void (position = walk) };
    }
    const text = `SELECT seq, ${at} AS at, ${since} AS since FROM ${from} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const rows = (yield [text, position.after, upTo, SWEEP_SLICE]) as AgedRow[];
    const { seqs, walk, end } = selectAged(rows, position, age);
    const settle = (): void => void (position = walk);
    if (seqs.length === 0) return { changed: 0, more: !end, settle };
    const old = isNumberOf.toValue(seqs);
    for (const one of parts) {
      const [condition, ...values] = tables.isDeleted?.(one) ?? ["1 = 1"];
      const mine = isAmong("run_id", `SELECT id FROM ${table} WHERE ${isOld}`);
      yield [`DELETE FROM ${one} WHERE ${mine} AND ${condition}`, old, ...values];
    }
    const deleting = isEvents
      ? tables.deleteEvents(part, isOld)
      : `DELETE FROM ${table} WHERE ${isOld} RETURNING seq`;
    const gone = yield [deleting, old];
    return { changed: gone.length, more: !end, settle };
  };
}

const SET_MARK = `INSERT INTO marks (name, seq) VALUES (?, ?) ON CONFLICT (name) DO UPDATE
  SET seq = CASE WHEN excluded.seq > marks.seq THEN excluded.seq ELSE marks.seq END`;

/** Goes over a table from its mark on and takes texts away, row by row. */
function redactTexts(tables: SweepTables, redaction: Redaction): SweepStep {
  const { mark, table, columns, age } = redaction;
  const upTo = table === "events" ? tables.upTo : Number.MAX_SAFE_INTEGER;
  let start = 0;
  let known: RedactionPosition | undefined;
  return function* () {
    if (!known) {
      const [row] = (yield ["SELECT seq FROM marks WHERE name = ?", mark]) as TimedRow[];
      start = row?.seq ?? 0;
      known = { after: start, oldUpTo: start, marked: start, blocked: false };
    }
    const position = known;
    if (age && position.looked !== undefined) {
      const { walk, end } = yield* look({ from: "events", at: "at" }, position, age);
      const { marked, blocked } = position;
      return { changed: 0, more: !end, settle: () => void (known = { ...walk, marked, blocked }) };
    }
    // A row is changed in its own part: otherwise all parts of the table are opened for each.
    const text = `SELECT seq, ${tables.partOf(table)} AS part, ${columns} FROM ${table} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const rows = yield [text, position.after, upTo, SWEEP_SLICE];
    const slice = redactRows(rows as RedactedRow[], redaction, position, tables.settled);
    const parts = new Map((rows as { seq: number; part: string }[]).map((r) => [r.seq, r.part]));
    for (const { seq, changes } of slice.updates) {
      const set = Object.entries(changes).map(([column, value]) =>
        value === null ? `${column} = NULL` : `${column} = ?`,
      );
      const values = Object.values(changes).filter((value) => value !== null);
      yield [`UPDATE ${parts.get(seq)} SET ${set.join(", ")} WHERE seq = ?`, ...values, seq];
    }
    const { marked } = slice.position;
    if (marked > start) yield [SET_MARK, mark, marked];
    const settle = (): void => void (known = slice.position);
    return { changed: slice.updates.length, more: slice.more, settle };
  };
}

/** Turns that one transaction deletes. */
const TURNS_AT_ONCE = 500;

/** Deletes sessions that are not used any more, long ones in several transactions. */
function deleteSessions(
  { source: { isAmong, session }, lock }: SweepTables,
  origin: "hook" | "api",
  cutoff: Ms,
): SweepStep {
  const { column } = session;
  const old = `SELECT ${column} FROM sessions WHERE used < ? AND used >= ? AND origin = ? ORDER BY used, ${column} LIMIT ?`;
  let from = 0;
  return function* () {
    const values = [cutoff, from, origin, SWEEP_SLICE] as const;
    const found = (yield [old.replace(column, `${column}, used`) + lock, ...values]) as {
      used: Ms;
    }[];
    if (found.length === 0) return { changed: 0, more: false };
    const turns = `SELECT seq FROM turns WHERE ${isAmong("session", old)} LIMIT ?`;
    const said = yield [
      `DELETE FROM turns WHERE ${isAmong("seq", turns)} RETURNING seq`,
      ...values,
      TURNS_AT_ONCE,
    ];
    if (said.length === TURNS_AT_ONCE) return { changed: 0, more: true };
    yield [`DELETE FROM sessions WHERE ${isAmong(column, old)}`, ...values];
    const settle = (): void => void (from = found.at(-1)?.used ?? from);
    return { changed: found.length, more: found.length === SWEEP_SLICE, settle };
  };
}

/** Deletes the oldest turns of main, channel and schedule sessions that have more than `keep`. */
function trimSessions({ source: { isAmong, session } }: SweepTables, keep: number): SweepStep {
  const { column } = session;
  const oldest = "SELECT seq FROM turns WHERE session = ? AND seq <= ? ORDER BY seq LIMIT ?";
  let long: { key: Value; turns: number }[] | undefined;
  return function* () {
    const known = (long ??= (yield [
      `SELECT ${column} AS key, turns FROM sessions WHERE origin IN ('main', 'channel', 'schedule') AND turns > ?`,
      keep,
    ]) as { key: Value; turns: number }[]);
    const [next] = known;
    if (!next) return { changed: 0, more: false };
    const [checkpoint] = (yield [
      "SELECT covered FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1",
      next.key,
    ]) as { covered: number }[];
    let changed = 0;
    for (const { upTo, most } of getTrims(next.turns, keep, checkpoint?.covered ?? 0)) {
      if (changed > 0) break;
      const deleting = `DELETE FROM turns WHERE ${isAmong("seq", oldest)} RETURNING seq`;
      changed = (yield [deleting, next.key, upTo, most]).length;
    }
    const left = "CASE WHEN turns > CAST(? AS bigint) THEN turns - CAST(? AS bigint) ELSE 0 END";
    if (changed > 0)
      yield [`UPDATE sessions SET turns = ${left} WHERE ${column} = ?`, changed, changed, next.key];
    const settle = (): void => {
      next.turns -= changed;
      if (changed === 0) known.shift();
    };
    return { changed, more: true, settle };
  };
}

function deleteKeys({ source: { isAmong }, dedupeKey }: SweepTables, now: Ms): SweepStep {
  const free = `SELECT ${dedupeKey} FROM dedupe WHERE expires <= ? LIMIT ?`;
  const text = `DELETE FROM dedupe WHERE ${isAmong(dedupeKey, free)} AND expires <= ? RETURNING expires`;
  return function* () {
    const changed = (yield [text, now, SWEEP_SLICE, now]).length;
    return { changed, more: changed === SWEEP_SLICE };
  };
}

/** A config whose last noted use is this old is in use nowhere; no event of it is younger than that either. */
const UNUSED_AFTER_MS = 3_600_000;

/** The events that are looked at, oldest first, to find configs without events. */
const OLDEST_EVENTS = 500;

/** Configs that were last used before this may be without events. */
const getUnusedBefore = (now: Ms, keepEvents: Ms): Ms =>
  now - Math.max(keepEvents, UNUSED_AFTER_MS);

/** Selects the configs of which no event is kept. `oldest`: the first `OLDEST_EVENTS` events, in the order of the table. */
function selectUnused(
  configs: readonly Pick<ConfigRow, "id" | "last_used">[],
  oldest: readonly { at: Ms; head: string }[],
): string[] {
  const last = oldest.length < OLDEST_EVENTS ? Infinity : (oldest.at(-1)?.at ?? Infinity);
  return configs
    .filter(
      ({ id, last_used }) =>
        last > last_used + UNUSED_AFTER_MS &&
        !oldest.some(({ head }) => head.includes(`"config":"${id}"`)),
    )
    .map(({ id }) => id);
}

/** Deletes the configs of which no event is kept; one that a gateway begins to use meanwhile stays. */
const deleteConfigs = (before: Ms): SweepStep =>
  function* () {
    const old = yield ["SELECT id, last_used FROM configs WHERE last_used < ?", before];
    if (old.length === 0) return { changed: 0, more: false };
    const oldest = yield ["SELECT at, head FROM events ORDER BY seq LIMIT ?", OLDEST_EVENTS];
    let changed = 0;
    for (const id of selectUnused(
      old as Pick<ConfigRow, "id" | "last_used">[],
      oldest as { at: Ms; head: string }[],
    ))
      changed += (yield [
        "DELETE FROM configs WHERE id = ? AND last_used < ? RETURNING id",
        id,
        before,
      ]).length;
    return { changed, more: false };
  };

/** The steps that delete what retention does not keep: each is run again, in a transaction of its own, until it asks for no more. */
export const getSweepSteps = (now: Ms, keep: Retention, tables: SweepTables): SweepStep[] => [
  ...getRedactions(now, keep, tables).map((redaction) => redactTexts(tables, redaction)),
  ...getAgedTables(now, keep).flatMap((aged) =>
    (aged.table === "events" ? tables.events : [aged.table]).map((part) =>
      deleteAged(tables, aged, part),
    ),
  ),
  deleteSessions(tables, "hook", now - keep.hookSessions),
  deleteSessions(tables, "api", now - keep.apiSessions),
  trimSessions(tables, keep.sessionTurns),
  deleteKeys(tables, now),
  deleteConfigs(getUnusedBefore(now, keep.events)),
];
