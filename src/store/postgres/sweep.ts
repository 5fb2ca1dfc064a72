import { DEBUG_MARK, forgetDebug, forgetHead, forgetJson, forgetSpec, forgetText, type Retention } from "../forget.ts";
import type { Fence, Ms } from "../types.ts";
import type { Db, Sql } from "./db.ts";
import { standing } from "./leases.ts";

/** Rows that one transaction looks at. */
const SLICE = 500;
/** No transaction takes so long: what is older has all that there will ever be of it. */
const SETTLED_MS = 600_000;

/** One transaction's part. `more` asks to be called again. */
export type Step = (sql: Sql) => Promise<{ changed: number; more: boolean }>;

const UNFINISHED = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

interface Aged {
  table: "events" | "runs" | "system_events" | "deliveries";
  /** The column of the time that rows are in order of. */
  at: "at" | "created";
  cutoff: Ms;
  /** Whether a row of that age may go; `$1` is the cutoff. */
  gone: string;
}

const DELETE_EVENTS = `
  WITH gone AS (DELETE FROM events WHERE seq = ANY($1::bigint[]) RETURNING outcome),
  noted AS (INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, -count(*) FROM gone GROUP BY outcome)
  SELECT count(*) AS n FROM gone`;

/** Goes from the oldest row on and ends at the first that is young enough: the tables are in order of time. */
function deleteAged({ table, at, cutoff, gone }: Aged): Step {
  let after = 0;
  const deleting =
    table === "events"
      ? DELETE_EVENTS
      : `WITH gone AS (DELETE FROM ${table} WHERE seq = ANY($1::bigint[]) RETURNING 1) SELECT count(*) AS n FROM gone`;
  return async (sql) => {
    const rows = await sql.query<{ seq: number; at: number; gone: boolean }>(
      `SELECT seq, ${at} AS at, (${gone}) AS gone FROM ${table} WHERE seq > $2 AND $1::bigint IS NOT NULL ORDER BY seq LIMIT $3`,
      [cutoff, after, SLICE],
    );
    const young = rows.findIndex((row) => row.at >= cutoff);
    const old = young === -1 ? rows : rows.slice(0, young);
    const ids = old.filter((row) => row.gone).map((row) => row.seq);
    const [deleted] = ids.length === 0 ? [] : await sql.query<{ n: number }>(deleting, [ids]);
    after = old.at(-1)?.seq ?? after;
    return { changed: deleted?.n ?? 0, more: young === -1 && rows.length === SLICE };
  };
}

interface Forgotten<Row> {
  /** The row of `marks` that remembers up to where nothing is left to do, so that a sweep does not begin at the oldest. */
  mark: string;
  now: Ms;
  /** Rows after `$1`, oldest first, at most `$2`; with their time as `at`. */
  select: string;
  /** Done or not to be done at all; `wait` comes back to the row, `end` leaves all that follow for later. */
  forget(sql: Sql, row: Row): Promise<"done" | "wait" | "end" | "changed">;
}

/** Goes over a table from its mark on and takes texts away, row by row. */
function forgetTexts<Row extends { seq: number; at: Ms }>({ mark, now, select, forget }: Forgotten<Row>): Step {
  let start: number | undefined;
  let after = 0;
  let marked = 0;
  let blocked = false;
  return async (sql) => {
    if (start === undefined) {
      start = (await sql.query<{ seq: number }>("SELECT seq FROM marks WHERE name = $1", [mark]))[0]?.seq ?? 0;
      after = marked = start;
    }
    const rows = await sql.query<Row>(select, [after, SLICE]);
    let changed = 0;
    let more = rows.length === SLICE;
    for (const row of rows) {
      const outcome = await forget(sql, row);
      if (outcome === "end") {
        more = false;
        break;
      }
      // Another gateway may still be writing a row with a smaller number.
      if (outcome === "wait" || row.at > now - SETTLED_MS) blocked = true;
      if (outcome === "changed") changed++;
      after = row.seq;
      if (!blocked) marked = row.seq;
    }
    if (marked > start) {
      const text =
        "INSERT INTO marks AS known (name, seq) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET seq = greatest(known.seq, excluded.seq)";
      await sql.query(text, [mark, marked]);
    }
    return { changed, more };
  };
}

/** Raw bodies, and the notes that may quote them, go when their time is over. Where none is kept at all, what the hook said goes from the actions too. */
function dropBodies(now: Ms, cutoff: Ms, actionsToo: boolean): Step {
  return forgetTexts<{ seq: number; at: Ms; has: boolean; unfinished: boolean; head: string | null; actions: string | null }>({
    mark: "bodies",
    now,
    select: `SELECT seq, at, body IS NOT NULL AS has, ${UNFINISHED} AS unfinished, ${actionsToo ? "head, actions" : `CASE WHEN strpos(head, '${DEBUG_MARK}') > 0 THEN head END AS head, NULL AS actions`}
      FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`,
    async forget(sql, row) {
      if (row.at > cutoff) return "end";
      if (!row.has) return "done";
      if (row.unfinished) return "wait";
      if (row.head === null) await sql.query("UPDATE events SET body = NULL WHERE seq = $1", [row.seq]);
      else if (!actionsToo) await sql.query("UPDATE events SET body = NULL, head = $2 WHERE seq = $1", [row.seq, forgetDebug(row.head)]);
      else {
        const text = "UPDATE events SET body = NULL, head = $2, actions = $3 WHERE seq = $1";
        await sql.query(text, [row.seq, forgetHead(row.head), forgetJson(row.actions)]);
      }
      return "changed";
    },
  });
}

/** What runs were given, once it has been used up; a hook's run that failed keeps it, since it may be retried. */
function forgetInputs(now: Ms): Step {
  return forgetTexts<{ seq: number; at: Ms; done: boolean; spec: string }>({
    mark: "inputs",
    now,
    select: `SELECT seq, created AS at, ended IS NOT NULL AND (status IN ('succeeded', 'cancelled') OR event_id IS NULL) AS done, spec
      FROM runs WHERE seq > $1 ORDER BY seq LIMIT $2`,
    async forget(sql, row) {
      if (!row.done) return "wait";
      const spec = forgetSpec(row.spec);
      if (spec === undefined) return "done";
      await sql.query("UPDATE runs SET spec = $2 WHERE seq = $1", [row.seq, spec]);
      return "changed";
    },
  });
}

/** What system events said, once a heartbeat has seen them. */
function forgetSystemEvents(now: Ms): Step {
  return forgetTexts<{ seq: number; at: Ms; state: string; record: string }>({
    mark: "system-events",
    now,
    select: "SELECT seq, at, state, record FROM system_events WHERE seq > $1 ORDER BY seq LIMIT $2",
    async forget(sql, row) {
      if (row.state !== "done") return "wait";
      await sql.query("UPDATE system_events SET record = $2 WHERE seq = $1", [row.seq, forgetText(row.record)]);
      return "changed";
    },
  });
}

function deleteSessions(origin: "hook" | "api", cutoff: Ms): Step {
  return async (sql) => {
    const [row] = await sql.query<{ n: number }>(
      `WITH old AS MATERIALIZED (SELECT id FROM sessions WHERE used < $1 AND origin = $2 ORDER BY used, id LIMIT $3 FOR UPDATE),
        said AS (DELETE FROM turns USING old WHERE turns.session = old.id),
        gone AS (DELETE FROM sessions USING old WHERE sessions.id = old.id RETURNING 1)
        SELECT count(*) AS n FROM gone`,
      [cutoff, origin, SLICE],
    );
    const changed = row?.n ?? 0;
    return { changed, more: changed === SLICE };
  };
}

function deleteKeys(now: Ms): Step {
  return async (sql) => {
    const [row] = await sql.query<{ n: number }>(
      `WITH gone AS (DELETE FROM dedupe WHERE id = ANY(ARRAY(SELECT id FROM dedupe WHERE expires <= $1 LIMIT $2)) AND expires <= $1 RETURNING 1)
        SELECT count(*) AS n FROM gone`,
      [now, SLICE],
    );
    const changed = row?.n ?? 0;
    return { changed, more: changed === SLICE };
  };
}

function stepsOf(now: Ms, keep: Retention): Step[] {
  const none = keep.bodies === 0;
  return [
    dropBodies(now, now - keep.bodies, none),
    ...(none ? [forgetInputs(now), forgetSystemEvents(now)] : []),
    deleteAged({ table: "events", at: "at", cutoff: now - keep.events, gone: `NOT ${UNFINISHED}` }),
    deleteAged({ table: "runs", at: "created", cutoff: now - keep.runs, gone: "coalesce(ended < $1, false)" }),
    deleteAged({ table: "system_events", at: "at", cutoff: now - keep.events, gone: "state <> 'queued'" }),
    deleteAged({ table: "deliveries", at: "created", cutoff: now - keep.deliveries, gone: "coalesce(ended < $1, false)" }),
    deleteSessions("hook", now - keep.hookSessions),
    deleteSessions("api", now - keep.apiSessions),
    deleteKeys(now),
  ];
}

/**
 * Lets go of what retention says, in short transactions, until `stopped`, or until the lease of `fence` is lost. Two
 * gateways may be at it at once. Returns how many rows went or were changed.
 */
export async function sweep(
  db: Db,
  now: Ms,
  keep: Retention,
  { fence, stopped }: { fence: Fence | undefined; stopped(): boolean },
): Promise<number> {
  let total = 0;
  const isMine = async (sql: Sql): Promise<boolean> =>
    fence === undefined || (await standing(sql, [fence.lease])).get(fence.lease) === fence.token;
  for (const step of stepsOf(now, keep)) {
    for (let more = true; more && !stopped();) {
      const slice = await db.transaction(async (sql) => ((await isMine(sql)) ? step(sql) : undefined));
      if (!slice) return total;
      total += slice.changed;
      more = slice.more;
    }
  }
  return total;
}
