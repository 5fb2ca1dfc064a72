import {
  type Age,
  type AgedRow,
  type AgedTable,
  type ConfigRow,
  type FencingToken,
  getAgedTables,
  getRedactions,
  getTrims,
  getUnusedBefore,
  type LongSession,
  LOOK_AHEAD,
  lookAhead,
  type Ms,
  OLDEST_EVENTS,
  type RedactedRow,
  type Redaction,
  type RedactionPosition,
  redactRows,
  type Retention,
  selectAged,
  selectUnused,
  type Sql,
  SWEEP_SLICE,
  type SweepDialect,
  type TimedRow,
  type Walk,
} from "#store-kit";
import type { Db } from "./db.ts";
import { digest } from "./digest.ts";
import { standing } from "./leases.ts";
import { addPartitions, dropPartitions, type Dropped } from "./partitions.ts";

export const POSTGRES_DIALECT: SweepDialect = { hasBody: "body IS NOT NULL", find: "strpos" };
/** No transaction takes so long: what is older has all that there will ever be of it. */
const SETTLED_MS = 600_000;

/** One transaction's part. `more` asks to be called again. */
export type Step = (sql: Sql) => Promise<{ changed: number; more: boolean }>;

const deleteEvents = (part: string): string => `
  WITH gone AS (DELETE FROM ${part} WHERE seq = ANY($1::bigint[]) RETURNING outcome),
  noted AS (INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, -count(*) FROM gone GROUP BY outcome)
  SELECT count(*) AS n FROM gone`;

/** Deletes rows, and with runs what happened in them, but for what is in a partition that goes as a whole. */
function deleteWithParts({ table, parts = [] }: AgedTable): string {
  const inWhole =
    "SELECT FROM unnest($2::text[], $3::text[], $4::text[]) AS whole (parent, lower, upper)";
  const gone = parts.map(
    (part) => `, ${part}_gone AS (DELETE FROM ${part} USING gone WHERE ${part}.run_id = gone.id
      AND NOT EXISTS (${inWhole} WHERE parent = '${part}' AND gone.id >= lower AND gone.id < upper))`,
  );
  const deleted = `DELETE FROM ${table} WHERE seq = ANY($1::bigint[]) RETURNING id`;
  return `WITH gone AS (${deleted})${gone.join("")} SELECT count(*) AS n FROM gone`;
}

/** Looks for an old row behind those from the future. `from`: a table, or a part of it. */
async function look(
  sql: Sql,
  { from, at }: { from: string; at: string },
  walk: Walk,
  age: Age,
): Promise<ReturnType<typeof lookAhead>> {
  const text = `SELECT seq, ${at} AS at FROM ${from} WHERE seq > $1 ORDER BY seq LIMIT $2`;
  return lookAhead(
    await sql.query<TimedRow>(text, [walk.looked ?? walk.after, LOOK_AHEAD]),
    walk,
    age,
  );
}

/** Deletes the rows that are old in `part`, which is the table or a part of it. */
function deleteAged(
  aged: AgedTable,
  { whole, oldUpTo }: Pick<Dropped, "whole" | "oldUpTo">,
  part: string,
): Step {
  const { table, at, since, age, parts = [] } = aged;
  const from = part === table ? table : `${part} AS ${table}`;
  let position: Walk = { after: 0, oldUpTo };
  const deleting = table === "events" ? deleteEvents(part) : deleteWithParts(aged);
  const bounds =
    parts.length === 0
      ? []
      : (["parent", "lower", "upper"] as const).map((name) => whole.map((one) => one[name]));
  return async (sql) => {
    if (position.looked !== undefined) {
      const { walk, end } = await look(sql, { from, at }, position, age);
      position = walk;
      return { changed: 0, more: !end };
    }
    const text = `SELECT seq, ${at} AS at, ${since} AS since FROM ${from} WHERE seq > $1 ORDER BY seq LIMIT $2`;
    const { seqs, walk, end } = selectAged(
      await sql.query<AgedRow>(text, [position.after, SWEEP_SLICE]),
      position,
      age,
    );
    const [deleted] =
      seqs.length === 0 ? [] : await sql.query<{ n: number }>(deleting, [seqs, ...bounds]);
    position = walk;
    return { changed: deleted?.n ?? 0, more: !end };
  };
}

/** Goes over a table from its mark on and takes texts away, row by row. */
function redactTexts(redaction: Redaction, now: Ms): Step {
  const { mark, table, columns, age } = redaction;
  let start = 0;
  let position: RedactionPosition | undefined;
  return async (sql) => {
    if (!position) {
      start =
        (await sql.query<{ seq: number }>("SELECT seq FROM marks WHERE name = $1", [mark]))[0]
          ?.seq ?? 0;
      position = { after: start, oldUpTo: start, marked: start, blocked: false };
    }
    if (age && position.looked !== undefined) {
      const { walk, end } = await look(sql, { from: "events", at: "at" }, position, age);
      position = { ...walk, marked: position.marked, blocked: position.blocked };
      return { changed: 0, more: !end };
    }
    // A row is changed in its own part: otherwise all parts of the table are opened for each.
    const text = `SELECT seq, tableoid::regclass::text AS part, ${columns} FROM ${table} WHERE seq > $1 ORDER BY seq LIMIT $2`;
    const rows = await sql.query<RedactedRow & { part: string }>(text, [
      position.after,
      SWEEP_SLICE,
    ]);
    const parts = new Map(rows.map(({ seq, part }) => [seq, part]));
    const slice = redactRows(rows, redaction, position, { upTo: now - SETTLED_MS, now });
    for (const { seq, changes } of slice.updates) {
      const columns = Object.keys(changes).map((column, index) => `${column} = $${index + 2}`);
      await sql.query(`UPDATE ${parts.get(seq)} SET ${columns.join(", ")} WHERE seq = $1`, [
        seq,
        ...Object.values(changes),
      ]);
    }
    position = slice.position;
    if (position.marked > start) {
      const text =
        "INSERT INTO marks AS known (name, seq) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET seq = greatest(known.seq, excluded.seq)";
      await sql.query(text, [mark, position.marked]);
    }
    return { changed: slice.updates.length, more: slice.more };
  };
}

function deleteSessions(origin: "hook" | "api", cutoff: Ms): Step {
  return async (sql) => {
    const [row] = await sql.query<{ n: number }>(
      `WITH old AS MATERIALIZED (SELECT id FROM sessions WHERE used < $1 AND origin = $2 ORDER BY used, id LIMIT $3 FOR UPDATE),
        said AS (DELETE FROM turns USING old WHERE turns.session = old.id),
        gone AS (DELETE FROM sessions USING old WHERE sessions.id = old.id RETURNING 1)
        SELECT count(*) AS n FROM gone`,
      [cutoff, origin, SWEEP_SLICE],
    );
    const changed = row?.n ?? 0;
    return { changed, more: changed === SWEEP_SLICE };
  };
}

const TRIM = `
  WITH gone AS (
    DELETE FROM turns WHERE seq = ANY(ARRAY(SELECT seq FROM turns WHERE session = $1 AND seq <= $2 ORDER BY seq LIMIT $3)) RETURNING 1)
  UPDATE sessions SET turns = greatest(0, turns - (SELECT count(*) FROM gone)) WHERE id = $1 RETURNING (SELECT count(*) FROM gone) AS n`;

/** Deletes the oldest turns of main and channel sessions that have more than `keep`. */
function trimSessions(keep: number): Step {
  let long: LongSession[] | undefined;
  return async (sql) => {
    long ??= await sql.query<LongSession>(
      // Each part has an index of its own.
      `SELECT session, turns FROM sessions WHERE origin IN ('main', 'channel') AND turns > $1
        UNION ALL SELECT session, turns FROM sessions WHERE origin = 'schedule' AND turns > $1`,
      [keep],
    );
    const [next] = long;
    if (!next) return { changed: 0, more: false };
    const id = digest(next.session);
    const [checkpoint] = await sql.query<{ covered: number }>(
      "SELECT covered FROM turns WHERE session = $1 AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1",
      [id],
    );
    let changed = 0;
    for (const { upTo, most } of getTrims(next.turns, keep, checkpoint?.covered ?? 0))
      changed ||= (await sql.query<{ n: number }>(TRIM, [id, upTo, most]))[0]?.n ?? 0;
    next.turns -= changed;
    if (changed === 0) long.shift();
    return { changed, more: true };
  };
}

function deleteKeys(now: Ms): Step {
  return async (sql) => {
    const [row] = await sql.query<{ n: number }>(
      `WITH gone AS (DELETE FROM dedupe WHERE id = ANY(ARRAY(SELECT id FROM dedupe WHERE expires <= $1 LIMIT $2)) AND expires <= $1 RETURNING 1)
        SELECT count(*) AS n FROM gone`,
      [now, SWEEP_SLICE],
    );
    const changed = row?.n ?? 0;
    return { changed, more: changed === SWEEP_SLICE };
  };
}

/** Deletes the configs of which no event is kept; one that a gateway begins to use meanwhile stays. */
function deleteConfigs(before: Ms): Step {
  return async (sql) => {
    const old = await sql.query<Pick<ConfigRow, "id" | "last_used">>(
      "SELECT id, last_used FROM configs WHERE last_used < $1",
      [before],
    );
    if (old.length === 0) return { changed: 0, more: false };
    const oldest = await sql.query<{ at: Ms; head: string }>(
      "SELECT at, head FROM events ORDER BY seq LIMIT $1",
      [OLDEST_EVENTS],
    );
    const gone = await sql.query(
      "DELETE FROM configs WHERE id = ANY($1::text[]) AND last_used < $2 RETURNING id",
      [selectUnused(old, oldest), before],
    );
    return { changed: gone.length, more: false };
  };
}

function sweepSteps(now: Ms, keep: Retention, { whole, rest, oldUpTo }: Dropped): Step[] {
  return [
    ...getRedactions(now, keep, POSTGRES_DIALECT).map((redaction) => redactTexts(redaction, now)),
    ...getAgedTables(now, keep).flatMap((aged) =>
      aged.table === "events"
        ? rest.map((part) => deleteAged(aged, { whole, oldUpTo }, part))
        : deleteAged(aged, { whole, oldUpTo: 0 }, aged.table),
    ),
    deleteSessions("hook", now - keep.hookSessions),
    deleteSessions("api", now - keep.apiSessions),
    trimSessions(keep.sessionTurns),
    deleteKeys(now),
    deleteConfigs(getUnusedBefore(now, keep.events)),
  ];
}

/**
 * Makes the partitions of the next days, and lets go of what retention says, in short transactions, until `stopped`, or
 * until the lease of `fencingToken` is lost. Two gateways may be at it at once. Returns how many rows went or were changed.
 */
export async function sweep(
  db: Db,
  now: Ms,
  keep: Retention,
  { fencingToken, stopped }: { fencingToken: FencingToken | undefined; stopped(): boolean },
): Promise<number> {
  const isStanding = async (sql: Sql): Promise<boolean> =>
    fencingToken === undefined ||
    (await standing(sql, [fencingToken.lease])).get(fencingToken.lease) === fencingToken.token;
  const isMine = async (): Promise<boolean> => !stopped() && isStanding(db);
  if (!(await isMine())) return 0;
  await addPartitions(db);
  const dropped = await dropPartitions(db, now, keep, isMine);
  let total = dropped.rows;
  for (const step of sweepSteps(now, keep, dropped)) {
    for (let more = true; more && !stopped();) {
      const slice = await db.transaction(async (sql) =>
        (await isStanding(sql)) ? step(sql) : undefined,
      );
      if (!slice) return total;
      total += slice.changed;
      more = slice.more;
    }
  }
  return total;
}
