import {
  getAgedTables,
  getRedactions,
  getTrims,
  LOOK_AHEAD,
  lookAhead,
  redactRows,
  selectAged,
  SWEEP_SLICE,
  type AgedRow,
  type Age,
  type AgedTable,
  type LongSession,
  type RedactedRow,
  type Redaction,
  type RedactionPosition,
  type SweepDialect,
  type TimedRow,
  type Walk,
} from "../sweep-plan.ts";
import {
  getUnusedBefore,
  OLDEST_EVENTS,
  selectUnused,
  type ConfigRow,
  type Ms,
  type Retention,
} from "../types.ts";
import type { Statements } from "./statements.ts";

export const SQLITE_DIALECT: SweepDialect = { hasBody: "typeof(body) <> 'null'", find: "instr" };

/** What one transaction did. `more` asks for another; `settle` is called once it is on disk, since it may be run again before. */
interface Slice {
  changed: number;
  more: boolean;
  settle?(): void;
}

type Step = () => Slice;

/** Looks for an old row behind those from the future. */
function look(
  sql: Statements,
  { table, at }: Pick<AgedTable, "table" | "at">,
  walk: Walk,
  age: Age,
): ReturnType<typeof lookAhead> {
  const text = `SELECT seq, ${at} AS at FROM ${table} WHERE seq > ? ORDER BY seq LIMIT ?`;
  return lookAhead(sql.all<TimedRow>(text, walk.looked ?? walk.after, LOOK_AHEAD), walk, age);
}

function deleteAged(sql: Statements, aged: AgedTable, upTo: number): Step {
  const { table, at, since, age, parts = [] } = aged;
  let position: Walk = { after: 0, oldUpTo: 0 };
  return () => {
    if (position.looked !== undefined) {
      const { walk, end } = look(sql, aged, position, age);
      return { changed: 0, more: !end, settle: () => void (position = walk) };
    }
    const text = `SELECT seq, ${at} AS at, ${since} AS since FROM ${table} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const { seqs, walk, end } = selectAged(
      sql.all<AgedRow>(text, position.after, upTo, SWEEP_SLICE),
      position,
      age,
    );
    let changed = 0;
    for (const seq of seqs) {
      for (const part of parts)
        sql.run(`DELETE FROM ${part} WHERE run_id = (SELECT id FROM ${table} WHERE seq = ?)`, seq);
      changed += sql.run(`DELETE FROM ${table} WHERE seq = ?`, seq);
    }
    return { changed, more: !end, settle: () => void (position = walk) };
  };
}

/** Goes over a table from its mark on and takes texts away, row by row. */
function redactTexts(sql: Statements, redaction: Redaction, upTo: number): Step {
  const { mark, table, columns, age } = redaction;
  const start = sql.get<{ seq: number }>("SELECT seq FROM marks WHERE name = ?", mark)?.seq ?? 0;
  let position: RedactionPosition = { after: start, oldUpTo: start, marked: start, blocked: false };
  return () => {
    if (age && position.looked !== undefined) {
      const { marked, blocked } = position;
      const { walk, end } = look(sql, { table: "events", at: "at" }, position, age);
      return {
        changed: 0,
        more: !end,
        settle: () => void (position = { ...walk, marked, blocked }),
      };
    }
    const text = `SELECT seq, ${columns} FROM ${table} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`;
    const slice = redactRows(
      sql.all<RedactedRow>(text, position.after, upTo, SWEEP_SLICE),
      redaction,
      position,
    );
    for (const { seq, changes } of slice.updates) {
      const columns = Object.keys(changes).map((column) => `${column} = ?`);
      sql.run(
        `UPDATE ${table} SET ${columns.join(", ")} WHERE seq = ?`,
        ...Object.values(changes),
        seq,
      );
    }
    const { marked } = slice.position;
    if (marked > start)
      sql.run(
        "INSERT INTO marks VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET seq = ?2",
        mark,
        marked,
      );
    return {
      changed: slice.updates.length,
      more: slice.more,
      settle: () => void (position = slice.position),
    };
  };
}

/** Deletes the oldest turns of a session, up to a number. */
const DELETE_TURNS =
  "DELETE FROM turns WHERE seq IN (SELECT seq FROM turns WHERE session = ? AND seq <= ? ORDER BY seq LIMIT ?)";

function deleteSessions(sql: Statements, origin: "hook" | "api", cutoff: Ms): Step {
  let after: [number, string] = [0, ""];
  return () => {
    const rows = sql.all<{ session: string; origin: string; used: number }>(
      "SELECT session, origin, used FROM sessions INDEXED BY sessions_used WHERE used < ? AND (used, session) > (?, ?) ORDER BY used, session LIMIT ?",
      cutoff,
      ...after,
      SWEEP_SLICE,
    );
    let changed = 0;
    let room = SWEEP_SLICE;
    let last: (typeof rows)[number] | undefined;
    for (const row of rows) {
      if (row.origin === origin) {
        const gone = sql.run(DELETE_TURNS, row.session, Number.MAX_SAFE_INTEGER, room);
        room -= gone;
        // The next slice continues with the rest of the session.
        if (room === 0)
          sql.run(
            "UPDATE sessions SET turns = max(0, turns - ?) WHERE session = ?",
            gone,
            row.session,
          );
        if (room === 0) break;
        changed += sql.run("DELETE FROM sessions WHERE session = ?", row.session);
      }
      last = row;
    }
    const more = room === 0 || rows.length === SWEEP_SLICE;
    return { changed, more, settle: () => void (last && (after = [last.used, last.session])) };
  };
}

const LONG =
  "SELECT session, turns FROM sessions WHERE origin IN ('main', 'channel', 'schedule') AND turns > ?";
const COVERED =
  "SELECT covered FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1";

/** Deletes the oldest turns of main and channel sessions that have more than `keep`. */
function trimSessions(sql: Statements, keep: number): Step {
  const long = sql.all<LongSession>(LONG, keep);
  return () => {
    const [next] = long;
    if (!next) return { changed: 0, more: false };
    const covered = sql.get<{ covered: number }>(COVERED, next.session)?.covered ?? 0;
    let changed = 0;
    for (const { upTo, most } of getTrims(next.turns, keep, covered))
      changed ||= sql.run(DELETE_TURNS, next.session, upTo, most);
    sql.run(
      "UPDATE sessions SET turns = max(0, turns - ?) WHERE session = ?",
      changed,
      next.session,
    );
    const settle = (): void => {
      next.turns -= changed;
      if (changed === 0) long.shift();
    };
    return { changed, more: true, settle };
  };
}

function deleteKeys(sql: Statements, now: Ms): Step {
  return () => {
    const changed = sql.run(
      "DELETE FROM dedupe WHERE seq IN (SELECT seq FROM dedupe WHERE expires <= ? LIMIT ?)",
      now,
      SWEEP_SLICE,
    );
    return { changed, more: changed === SWEEP_SLICE };
  };
}

/** Deletes the configs of which no event is kept. */
function deleteConfigs(sql: Statements, before: Ms): Step {
  return () => {
    const old = sql.all<Pick<ConfigRow, "id" | "last_used">>(
      "SELECT id, last_used FROM configs WHERE last_used < ?",
      before,
    );
    if (old.length === 0) return { changed: 0, more: false };
    const oldest = sql.all<{ at: Ms; head: string }>(
      "SELECT at, head FROM events ORDER BY seq LIMIT ?",
      OLDEST_EVENTS,
    );
    let changed = 0;
    for (const id of selectUnused(old, oldest))
      changed += sql.run("DELETE FROM configs WHERE id = ?", id);
    return { changed, more: false };
  };
}

/**
 * What retention lets go of, as steps; each runs inside a transaction until it asks for no more. `upTo` is the newest
 * event that has become runs: younger ones stay as they are.
 */
export function sweepSteps(sql: Statements, now: Ms, keep: Retention, upTo: number): Step[] {
  const getLast = (table: string): number => (table === "events" ? upTo : Number.MAX_SAFE_INTEGER);
  return [
    ...getRedactions(now, keep, SQLITE_DIALECT).map((redaction) =>
      redactTexts(sql, redaction, getLast(redaction.table)),
    ),
    ...getAgedTables(now, keep).map((aged) => deleteAged(sql, aged, getLast(aged.table))),
    deleteSessions(sql, "hook", now - keep.hookSessions),
    deleteSessions(sql, "api", now - keep.apiSessions),
    trimSessions(sql, keep.sessionTurns),
    deleteKeys(sql, now),
    deleteConfigs(sql, getUnusedBefore(now, keep.events)),
  ];
}
