import type { Ms } from "../types.ts";
import type { Statements } from "./statements.ts";

export interface Retention {
  bodies: Ms;
  events: Ms;
  runs: Ms;
  hookSessions: Ms;
  deliveries: Ms;
}

/** Rows that one transaction looks at: accepting goes on in between. */
const SLICE = 500;

/** One transaction's part. `more` asks to be called again. */
type Step = () => { changed: number; more: boolean };

const UNFINISHED = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

interface Aged {
  table: "events" | "runs" | "system_events" | "deliveries";
  /** The column of the time that rows are in order of. */
  at: "at" | "created";
  cutoff: Ms;
  /** Whether a row of that age may go; `?1` is the cutoff. */
  gone: string;
  upTo?: number;
}

/**
 * Goes from the oldest row on and ends at the first that is young enough: the tables are in order of time, and an index
 * on it would cost every hook something.
 */
function deleteAged(sql: Statements, { table, at, cutoff, gone, upTo = Number.MAX_SAFE_INTEGER }: Aged): Step {
  let after = 0;
  return () => {
    const rows = sql.all<{ seq: number; at: number; gone: number }>(
      `SELECT seq, ${at} AS at, (${gone}) AS gone FROM ${table} WHERE seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4`,
      cutoff,
      after,
      upTo,
      SLICE,
    );
    let changed = 0;
    for (const row of rows) {
      if (row.at >= cutoff) return { changed, more: false };
      if (row.gone) changed += sql.run(`DELETE FROM ${table} WHERE seq = ?`, row.seq);
      after = row.seq;
    }
    return { changed, more: rows.length === SLICE };
  };
}

/** Takes bodies away, and remembers up to where none is left, so that a sweep does not begin at the oldest event each time. */
function dropBodies(sql: Statements, cutoff: Ms, upTo: number): Step {
  const start = sql.get<{ seq: number }>("SELECT seq FROM marks WHERE name = 'bodies'")?.seq ?? 0;
  let after = start;
  let mark = start;
  let blocked = false;
  return () => {
    const rows = sql.all<{ seq: number; at: number; has: number; unfinished: number }>(
      `SELECT seq, at, typeof(body) <> 'null' AS has, ${UNFINISHED} AS unfinished FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
      after,
      upTo,
      SLICE,
    );
    let changed = 0;
    let more = rows.length === SLICE;
    for (const row of rows) {
      if (row.at > cutoff) {
        more = false;
        break;
      }
      if (row.has && row.unfinished) blocked = true;
      else if (row.has) changed += sql.run("UPDATE events SET body = NULL WHERE seq = ?", row.seq);
      after = row.seq;
      if (!blocked) mark = row.seq;
    }
    if (mark > start) sql.run("UPDATE marks SET seq = ? WHERE name = 'bodies'", mark);
    return { changed, more };
  };
}

function deleteSessions(sql: Statements, cutoff: Ms): Step {
  let after: [number, string] = [0, ""];
  return () => {
    const rows = sql.all<{ session: string; origin: string; used: number }>(
      "SELECT session, origin, used FROM sessions INDEXED BY sessions_used WHERE used < ? AND (used, session) > (?, ?) ORDER BY used, session LIMIT ?",
      cutoff,
      ...after,
      SLICE,
    );
    const old = rows.filter((row) => row.origin === "hook");
    for (const { session } of old) {
      sql.run("DELETE FROM turns WHERE session = ?", session);
      sql.run("DELETE FROM sessions WHERE session = ?", session);
    }
    const last = rows.at(-1);
    if (last) after = [last.used, last.session];
    return { changed: old.length, more: rows.length === SLICE };
  };
}

function deleteKeys(sql: Statements, now: Ms): Step {
  return () => {
    const changed = sql.run(
      "DELETE FROM dedupe WHERE (scope, key) IN (SELECT scope, key FROM dedupe WHERE expires <= ? LIMIT ?)",
      now,
      SLICE,
    );
    return { changed, more: changed === SLICE };
  };
}

/**
 * What retention lets go of, as steps; each runs inside a transaction until it asks for no more. `upTo` is the newest
 * event that has become runs: younger ones stay as they are.
 */
export function sweepSteps(sql: Statements, now: Ms, keep: Retention, upTo: number): Step[] {
  return [
    dropBodies(sql, now - keep.bodies, upTo),
    deleteAged(sql, { table: "events", at: "at", cutoff: now - keep.events, gone: `NOT ${UNFINISHED}`, upTo }),
    deleteAged(sql, { table: "runs", at: "created", cutoff: now - keep.runs, gone: "coalesce(ended < ?1, 0)" }),
    deleteAged(sql, { table: "system_events", at: "at", cutoff: now - keep.events, gone: "state <> 'queued'" }),
    deleteAged(sql, { table: "deliveries", at: "created", cutoff: now - keep.deliveries, gone: "coalesce(ended < ?1, 0)" }),
    deleteSessions(sql, now - keep.hookSessions),
    deleteKeys(sql, now),
  ];
}
