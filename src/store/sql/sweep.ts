/** Deletes what retention does not keep, by statements that both drivers know. */
import { getRedactions, UNFINISHED, type Redaction } from "./redact.ts";
import type { ListSource } from "./search.ts";
import type { Value } from "./read-table.ts";
import { AHEAD_MS } from "./rows.ts";
import type { Ms, Retention } from "../types.ts";

/** Rows that one transaction of a sweep reads. A short transaction lets the gateway accept hooks in between. */
export const SWEEP_SLICE = 500;

/** A statement with a `?` for each value. */
type SweepStatement = readonly [text: string, ...values: Value[]];

/** The result of one transaction. `more` asks for another; `settle` is called once it is on disk, since it may be run again before. */
export interface Slice {
  changed: number;
  more: boolean;
  settle?(): void;
}

/** One transaction of a sweep: the statements that it runs, each of which is answered with its rows. */
export type SweepStep = () => Generator<SweepStatement, Slice, unknown[]>;

/** The differences between the drivers. */
export interface SweepDialect {
  source: Pick<ListSource, "isAmong" | "isNumberOf" | "session">;
  /** SQL: whether an event has a body, without reading it. */
  hasBody: string;
  /** Events behind this number are left as they are. */
  upTo: number;
  /** Rows that are younger than this time may still be written, with smaller numbers. */
  settledUpTo: Ms;
  /** The column that identifies a duplicate key. */
  dedupeKey: string;
  /** Locks the rows of a SELECT. */
  lock: string;
}

/** One sweep. */
interface Sweep extends SweepDialect {
  now: Ms;
}

/** Returns true for a time in the future, which says nothing about a row's age: the clock was wrong when it was written. */
const isAhead = (at: Ms, now: Ms): boolean => at > now + AHEAD_MS;

interface TimedRow {
  seq: number;
  at: Ms;
}

/** Times that one transaction looks at. */
const LOOK_AHEAD = 5000;

/**
 * The progress of a walk over a table, which is in order of time but for rows from the future. Such a row is old if one that was
 * written after it is; an index on the time would cost every hook something. So the walk looks at the times of the next rows first.
 */
interface Walk {
  /** The last row that is done with. */
  after: number;
  /** Every row up to this one is old. */
  oldUpTo: number;
  /** The last row whose time was looked at. */
  looked: number;
  /** True if no further row is old. */
  isSeen: boolean;
}

/** Begins a walk behind a row; without `upTo`, all rows are old. */
const startWalk = (after: number, upTo: Ms | undefined): Walk =>
  upTo === undefined
    ? { after, oldUpTo: Number.MAX_SAFE_INTEGER, looked: after, isSeen: true }
    : { after, oldUpTo: after, looked: after, isSeen: false };

const hasMore = ({ after, oldUpTo, isSeen }: Walk): boolean => after < oldUpTo || !isSeen;

/** Selects times behind a row, for `lookAhead`. */
const toTimes = (table: string, at: string, { looked }: Walk): SweepStatement => [
  `SELECT seq, ${at} AS at FROM ${table} WHERE seq > ? ORDER BY seq LIMIT ?`,
  looked,
  LOOK_AHEAD,
];

/** Goes on with a walk after a look at the next times. `upTo`: the newest time that is old enough. */
function lookAhead(times: readonly TimedRow[], walk: Walk, upTo: Ms, now: Ms): Walk {
  const young = times.findIndex(({ at }) => at > upTo && !isAhead(at, now));
  const before = young === -1 ? times : times.slice(0, young);
  return {
    after: walk.after,
    oldUpTo: before.findLast(({ at }) => at <= upTo)?.seq ?? walk.oldUpTo,
    looked: times.at(-1)?.seq ?? walk.looked,
    isSeen: young !== -1 || times.length < LOOK_AHEAD,
  };
}

/** Goes on with a walk after a slice of old rows. */
const goOn = (rows: readonly { seq: number }[], walk: Walk): Walk => ({
  ...walk,
  after: rows.length < SWEEP_SLICE ? walk.oldUpTo : (rows.at(-1)?.seq ?? walk.oldUpTo),
});

/** A table whose rows are deleted by age. */
interface AgedTable {
  table: string;
  /** The column of the time that rows are in order of. */
  at: "at" | "created";
  /** SQL: the time that the row's age counts from, or NULL if the row has to stay. */
  since: string;
  kept: Ms;
  /** Tables whose rows go with a row of this one: their `run_id` is its `id`. */
  parts?: readonly string[];
}

/** Returns the tables that retention deletes rows of. */
const getAgedTables = (keep: Retention): AgedTable[] => [
  {
    table: "events",
    at: "at",
    since: `CASE WHEN NOT ${UNFINISHED} THEN at END`,
    kept: keep.events,
  },
  {
    table: "runs",
    at: "created",
    since: "ended",
    kept: keep.runs,
    parts: ["steps", "tool_calls", "tool_results", "approvals"],
  },
  {
    table: "system_events",
    at: "at",
    since: "CASE WHEN state <> 'queued' THEN at END",
    kept: keep.events,
  },
  {
    table: "deliveries",
    at: "created",
    since: "ended",
    kept: keep.deliveries,
    parts: ["tool_results"],
  },
];

/** Deletes the rows of a table that are old. */
function deleteAged(sweep: Sweep, { table, at, since, kept, parts = [] }: AgedTable): SweepStep {
  const { isAmong, isNumberOf } = sweep.source;
  const { now } = sweep;
  const upTo = now - kept - 1;
  const isOld = `seq ${isNumberOf.sql}`;
  let walk = startWalk(0, upTo);
  return function* () {
    const settleAs = (next: Walk) => ({
      more: hasMore(next),
      settle: () => void (walk = next),
    });
    if (walk.after >= walk.oldUpTo) {
      const times = (yield toTimes(table, at, walk)) as TimedRow[];
      return { changed: 0, ...settleAs(lookAhead(times, walk, upTo, now)) };
    }
    const last = table === "events" ? Math.min(walk.oldUpTo, sweep.upTo) : walk.oldUpTo;
    const text = `SELECT seq, ${since} AS since FROM ${table} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const rows = (yield [text, walk.after, last, SWEEP_SLICE]) as {
      seq: number;
      since: Ms | null;
    }[];
    // An end in the future says no more than a beginning there.
    const over = rows.filter(
      (row) => row.since !== null && (row.since <= upTo || isAhead(row.since, now)),
    );
    const old = isNumberOf.toValue(over.map(({ seq }) => seq));
    if (over.length > 0) {
      const mine = isAmong("run_id", `SELECT id FROM ${table} WHERE ${isOld}`);
      for (const part of parts) yield [`DELETE FROM ${part} WHERE ${mine}`, old];
      yield [`DELETE FROM ${table} WHERE ${isOld}`, old];
    }
    return { changed: over.length, ...settleAs(goOn(rows, walk)) };
  };
}

const SET_MARK = `INSERT INTO marks (name, seq) VALUES (?, ?) ON CONFLICT (name) DO UPDATE
  SET seq = CASE WHEN excluded.seq > marks.seq THEN excluded.seq ELSE marks.seq END`;

/** The progress of a redaction. */
interface RedactionState {
  walk: Walk;
  /** Nothing is left to redact up to this row. */
  marked: number;
  /** True if a row has to be read again, so that the mark stays before it. */
  isBlocked: boolean;
}

/**
 * Goes over a table from its mark on and takes texts away, row by row. The mark stays before rows that are younger than
 * `settledUpTo`: another gateway may still be writing a row with a smaller number.
 */
function redactTexts(sweep: Sweep, { mark, table, columns, upTo, redact }: Redaction): SweepStep {
  const { now, settledUpTo } = sweep;
  const { isNumberOf } = sweep.source;
  let state: RedactionState | undefined;
  return function* () {
    if (!state) {
      const [row] = (yield ["SELECT seq FROM marks WHERE name = ?", mark]) as { seq: number }[];
      const start = row?.seq ?? 0;
      state = { walk: startWalk(start, upTo), marked: start, isBlocked: false };
    }
    const { walk } = state;
    if (upTo !== undefined && walk.after >= walk.oldUpTo) {
      const times = (yield toTimes(table, "at", walk)) as TimedRow[];
      const next = { ...state, walk: lookAhead(times, walk, upTo, now) };
      return { changed: 0, more: hasMore(next.walk), settle: () => void (state = next) };
    }
    const last = table === "events" ? Math.min(walk.oldUpTo, sweep.upTo) : walk.oldUpTo;
    const text = `SELECT seq, ${columns} FROM ${table} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const rows = (yield [text, walk.after, last, SWEEP_SLICE]) as TimedRow[];
    let { marked, isBlocked } = state;
    const changed: { seq: number; set: Record<string, string | null> }[] = [];
    for (const row of rows) {
      const outcome = redact(row);
      if (outcome === "wait" || (row.at > settledUpTo && !isAhead(row.at, now))) isBlocked = true;
      if (!isBlocked) marked = row.seq;
      if (typeof outcome === "object") changed.push({ seq: row.seq, set: outcome });
    }
    // Most rows only lose their bodies: one statement for all that change in the same way.
    for (const same of Map.groupBy(changed, ({ set }) => JSON.stringify(set)).values()) {
      const set = Object.entries(same[0]?.set ?? {});
      yield [
        `UPDATE ${table} SET ${set.map(([column]) => `${column} = ?`).join(", ")} WHERE seq ${isNumberOf.sql}`,
        ...set.map(([, value]) => value),
        isNumberOf.toValue(same.map(({ seq }) => seq)),
      ];
    }
    if (marked > state.marked) yield [SET_MARK, mark, marked];
    const next = { walk: goOn(rows, walk), marked, isBlocked };
    return {
      changed: changed.length,
      more: hasMore(next.walk),
      settle: () => void (state = next),
    };
  };
}

/** Turns that one transaction deletes. */
const TURNS_AT_ONCE = 500;

/** Deletes sessions that are not used any more, long ones in several transactions. */
function deleteSessions(
  { source: { isAmong, session }, lock }: Sweep,
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

/**
 * Returns what may be deleted of a session with so many turns, each only if there is nothing of the one before: the oldest
 * turns that its newest checkpoint covers, and those beyond twice the turns that are kept. Up to then turns wait for a
 * checkpoint, since the model may be away.
 */
const getTrims = (turns: number, keep: number, covered: number): { upTo: number; most: number }[] =>
  [
    { upTo: covered, most: turns - keep },
    { upTo: Number.MAX_SAFE_INTEGER, most: turns - 2 * keep },
  ].filter(({ most }) => most > 0);

/** Deletes the oldest turns of main, channel and schedule sessions that have more than `keep`. */
function trimSessions({ source: { isAmong, session } }: Sweep, keep: number): SweepStep {
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
      changed = (yield [deleting, next.key, upTo, Math.min(most, SWEEP_SLICE)]).length;
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

function deleteKeys({ source: { isAmong }, dedupeKey, now }: Sweep): SweepStep {
  const free = `SELECT ${dedupeKey} FROM dedupe WHERE expires <= ? LIMIT ?`;
  const text = `DELETE FROM dedupe WHERE ${isAmong(dedupeKey, free)} AND expires <= ? RETURNING expires`;
  return function* () {
    const changed = (yield [text, now, SWEEP_SLICE, now]).length;
    return { changed, more: changed === SWEEP_SLICE };
  };
}

/** The last use of a config is noted with a delay, and events of it may be written later still. */
const UNUSED_AFTER_MS = 3_600_000;

/** Deletes configs whose events are all past retention; one that a gateway begins to use meanwhile stays. */
const deleteConfigs = (before: Ms): SweepStep =>
  function* () {
    const gone = yield ["DELETE FROM configs WHERE last_used < ? RETURNING id", before];
    return { changed: gone.length, more: false };
  };

/** The steps that delete what retention does not keep: each is run again, in a transaction of its own, until it asks for no more. */
export function getSweepSteps(now: Ms, keep: Retention, dialect: SweepDialect): SweepStep[] {
  const sweep = { ...dialect, now };
  return [
    ...getRedactions(now, keep, sweep.hasBody).map((redaction) => redactTexts(sweep, redaction)),
    ...getAgedTables(keep).map((aged) => deleteAged(sweep, aged)),
    deleteSessions(sweep, "hook", now - keep.hookSessions),
    deleteSessions(sweep, "api", now - keep.apiSessions),
    trimSessions(sweep, keep.sessionTurns),
    deleteKeys(sweep),
    deleteConfigs(now - keep.events - UNUSED_AFTER_MS),
  ];
}

/** Events that one look for a body reads: those behind the mark have lost theirs. */
const MAX_EVENTS = 100_000;

/**
 * SQL of the time of the oldest event that still has its body and no unfinished run, of those behind the mark of bodies. `now`: a
 * placeholder for the time it is; the age of an event from the future is not known.
 */
export const oldestBody = (hasBody: string, now: string): string => `
  SELECT at FROM (
    SELECT seq, at, ${hasBody} AS has, ${UNFINISHED} AS unfinished FROM events
    WHERE seq > coalesce((SELECT seq FROM marks WHERE name = 'bodies'), 0) ORDER BY seq LIMIT ${MAX_EVENTS}) AS kept
  WHERE has AND NOT unfinished AND at <= ${now} + ${AHEAD_MS} ORDER BY seq LIMIT 1`;
