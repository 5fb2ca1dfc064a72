import { DEBUG_MARK, forgetDebug, forgetHead, forgetJson, forgetSpec, forgetText, type Retention } from "../forget.ts";
import type { Ms } from "../types.ts";
import type { Statements } from "./statements.ts";

/** Rows that one transaction looks at: accepting goes on in between. */
const SLICE = 500;

/** What one transaction did. `more` asks for another; `settle` is called once it is on disk, since it may be run again before. */
interface Slice {
  changed: number;
  more: boolean;
  settle?(): void;
}

type Step = () => Slice;

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
    }
    return { changed, more: rows.length === SLICE, settle: () => void (after = rows.at(-1)?.seq ?? after) };
  };
}

interface Forgotten<Row> {
  /** The row of `marks` that remembers up to where nothing is left to do, so that a sweep does not begin at the oldest. */
  mark: string;
  /** Rows after `?1` up to `?2`, oldest first, at most `?3`. */
  select: string;
  upTo?: number;
  /** Done or not to be done at all; `wait` comes back to the row, `end` leaves all that follow for later. */
  forget(row: Row): "done" | "wait" | "end" | "changed";
}

/** Goes over a table from its mark on and takes texts away, row by row. */
function forgetTexts<Row extends { seq: number }>(
  sql: Statements,
  { mark, select, upTo = Number.MAX_SAFE_INTEGER, forget }: Forgotten<Row>,
): Step {
  const start = sql.get<{ seq: number }>("SELECT seq FROM marks WHERE name = ?", mark)?.seq ?? 0;
  let reached = { after: start, marked: start, blocked: false };
  return () => {
    let { after, marked, blocked } = reached;
    const rows = sql.all<Row>(select, after, upTo, SLICE);
    let changed = 0;
    let more = rows.length === SLICE;
    for (const row of rows) {
      const outcome = forget(row);
      if (outcome === "end") {
        more = false;
        break;
      }
      if (outcome === "wait") blocked = true;
      if (outcome === "changed") changed++;
      after = row.seq;
      if (!blocked) marked = row.seq;
    }
    if (marked > start) sql.run("INSERT INTO marks VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET seq = ?2", mark, marked);
    return { changed, more, settle: () => void (reached = { after, marked, blocked }) };
  };
}

/** Raw bodies, and the notes that may quote them, go when their time is over. Where none is kept at all, what the hook said goes from the actions too. */
function dropBodies(sql: Statements, cutoff: Ms, upTo: number, actionsToo: boolean): Step {
  return forgetTexts<{ seq: number; at: number; has: number; unfinished: number; head: string | null; actions: string | null }>(sql, {
    mark: "bodies",
    select: `SELECT seq, at, typeof(body) <> 'null' AS has, ${UNFINISHED} AS unfinished, ${actionsToo ? "head, actions" : `CASE WHEN instr(head, '${DEBUG_MARK}') > 0 THEN head END AS head, NULL AS actions`}
      FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
    upTo,
    forget(row) {
      if (row.at > cutoff) return "end";
      if (!row.has) return "done";
      if (row.unfinished) return "wait";
      if (row.head === null) sql.run("UPDATE events SET body = NULL WHERE seq = ?", row.seq);
      else if (!actionsToo) sql.run("UPDATE events SET body = NULL, head = ? WHERE seq = ?", forgetDebug(row.head), row.seq);
      else {
        sql.run(
          "UPDATE events SET body = NULL, head = ?, actions = ? WHERE seq = ?",
          forgetHead(row.head),
          forgetJson(row.actions),
          row.seq,
        );
      }
      return "changed";
    },
  });
}

/** What runs were given, once it has been used up; a hook's run that failed keeps it, since it may be retried. */
function forgetInputs(sql: Statements): Step {
  return forgetTexts<{ seq: number; done: number; spec: string }>(sql, {
    mark: "inputs",
    select:
      "SELECT seq, ended IS NOT NULL AND (status IN ('succeeded', 'cancelled') OR event_id IS NULL) AS done, spec FROM runs WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
    forget(row) {
      if (!row.done) return "wait";
      const spec = forgetSpec(row.spec);
      if (spec === undefined) return "done";
      sql.run("UPDATE runs SET spec = ? WHERE seq = ?", spec, row.seq);
      return "changed";
    },
  });
}

/** What system events said, once a heartbeat has seen them. */
function forgetSystemEvents(sql: Statements): Step {
  return forgetTexts<{ seq: number; state: string; record: string }>(sql, {
    mark: "system-events",
    select: "SELECT seq, state, record FROM system_events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
    forget(row) {
      if (row.state !== "done") return "wait";
      sql.run("UPDATE system_events SET record = ? WHERE seq = ?", forgetText(row.record), row.seq);
      return "changed";
    },
  });
}

function deleteSessions(sql: Statements, origin: "hook" | "api", cutoff: Ms): Step {
  let after: [number, string] = [0, ""];
  return () => {
    const rows = sql.all<{ session: string; origin: string; used: number }>(
      "SELECT session, origin, used FROM sessions INDEXED BY sessions_used WHERE used < ? AND (used, session) > (?, ?) ORDER BY used, session LIMIT ?",
      cutoff,
      ...after,
      SLICE,
    );
    const old = rows.filter((row) => row.origin === origin);
    for (const { session } of old) {
      sql.run("DELETE FROM turns WHERE session = ?", session);
      sql.run("DELETE FROM sessions WHERE session = ?", session);
    }
    const last = rows.at(-1);
    return { changed: old.length, more: rows.length === SLICE, settle: () => void (last && (after = [last.used, last.session])) };
  };
}

function deleteKeys(sql: Statements, now: Ms): Step {
  return () => {
    const changed = sql.run("DELETE FROM dedupe WHERE seq IN (SELECT seq FROM dedupe WHERE expires <= ? LIMIT ?)", now, SLICE);
    return { changed, more: changed === SLICE };
  };
}

/**
 * What retention lets go of, as steps; each runs inside a transaction until it asks for no more. `upTo` is the newest
 * event that has become runs: younger ones stay as they are.
 */
export function sweepSteps(sql: Statements, now: Ms, keep: Retention, upTo: number): Step[] {
  return [
    dropBodies(sql, now - keep.bodies, upTo, keep.bodies === 0),
    ...(keep.bodies === 0 ? [forgetInputs(sql), forgetSystemEvents(sql)] : []),
    deleteAged(sql, { table: "events", at: "at", cutoff: now - keep.events, gone: `NOT ${UNFINISHED}`, upTo }),
    deleteAged(sql, { table: "runs", at: "created", cutoff: now - keep.runs, gone: "coalesce(ended < ?1, 0)" }),
    deleteAged(sql, { table: "system_events", at: "at", cutoff: now - keep.events, gone: "state <> 'queued'" }),
    deleteAged(sql, { table: "deliveries", at: "created", cutoff: now - keep.deliveries, gone: "coalesce(ended < ?1, 0)" }),
    deleteSessions(sql, "hook", now - keep.hookSessions),
    deleteSessions(sql, "api", now - keep.apiSessions),
    deleteKeys(sql, now),
  ];
}
