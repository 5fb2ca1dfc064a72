import {
  addColumns,
  ALL_RUNS,
  type CountedScope,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  getWindows,
  HOUR_WINDOW,
  type JobKind,
  type Ms,
  PARKED_FROM,
  type ParkedMapping,
  type Reservation,
  type ReservationRequest,
  RESOURCES,
  toCounted,
  USAGE_NUMBERS,
  type UsageRow,
  type UsageStore,
  type Window,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { KEEPS_RESERVED } from "../cluster/holders.ts";
import { NEXT_PLACE } from "../queue/jobs.ts";
import type { Membership } from "../cluster/membership.ts";

/** A gateway that reserves room was heard of within so long, so that its jobs are not freed before it has started them. */
const HEARD_MS = 4000;

const SUMS = USAGE_NUMBERS.map((name) => `sum(${name})::bigint AS ${name}`).join(", ");
/**
 * The sums of counters, by bucket and by gateway. Places: scopes and counters, then the windows that are needed. OFFSET keeps the
 * planner from reading the table first.
 */
const renderSums = (first: number): string => `
  names AS MATERIALIZED (SELECT * FROM unnest($${first}::text[], $${first + 1}::text[]) AS n (scope, counter)),
  windows AS MATERIALIZED (
    SELECT * FROM unnest($${first + 2}::bigint[], $${first + 3}::bigint[], $${first + 4}::bigint[]) AS w (width, after, until)),
  sums AS MATERIALIZED (
    SELECT names.scope, found.width, found.at, found.part, ${SUMS} FROM names CROSS JOIN windows CROSS JOIN LATERAL (
      SELECT * FROM usage WHERE usage.counter = names.counter AND usage.width = windows.width
        AND usage.at > windows.after AND usage.at <= windows.until OFFSET 0) AS found
    GROUP BY 1, 2, 3, 4)`;
/** The sums of a scope for `toCounted`, as JSON. */
const COUNTED = `
    (SELECT json_agg(one) FROM (
      SELECT width, at, ${SUMS} FROM sums WHERE sums.scope = given.scope GROUP BY width, at ORDER BY width, at) AS one) AS sums`;
const STARTED =
  "coalesce(CASE resource WHEN 'starts' THEN counts.starts ELSE counts.places END, 0)";

/**
 * Reserves room in budgets. What was reserved for a gateway is kept as a sum of all times, and so is what it has started: the commit
 * that starts a run turns the one into the other. A budget is locked, without waiting for it, by one request at a time; one that
 * has changed since this statement began is left for the next try, because the sums are those of its beginning. A gateway that the
 * database does not know reserves nothing. Of what a gateway says is pending, the database may have seen some start already.
 */
const RESERVE = `
  WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS a (scope, resource, most, pending, wanted)),
  ${renderSums(8)},
  given AS MATERIALIZED (
    SELECT scope FROM budgets WHERE scope = ANY($8::text[])
      AND version = (SELECT same.version FROM budgets AS same WHERE same.scope = budgets.scope)
      AND (SELECT id FROM holders WHERE id = $7::bigint) IS NOT NULL
    ORDER BY scope FOR NO KEY UPDATE OF budgets SKIP LOCKED),
  bumped AS (UPDATE budgets SET version = version + 1 FROM given WHERE budgets.scope = given.scope),
  heard AS (UPDATE holders SET seen = now(), freed = NULL
    WHERE id = $7::bigint AND (seen < now() - interval '${HEARD_MS} ms' OR NOT ${KEEPS_RESERVED})),
  counts AS (SELECT * FROM sums WHERE width = 0),
  pending AS MATERIALIZED (
    SELECT reserved.scope, resource, reserved.part = $6 AS own, sum(greatest(0, granted - ${STARTED}))::bigint AS n
    FROM reserved LEFT JOIN counts ON counts.scope = reserved.scope AND counts.part = reserved.part
    WHERE reserved.scope = ANY($1::text[])
      AND (reserved.part = $6 OR EXISTS (SELECT 1 FROM holders WHERE gateway = reserved.part AND ${KEEPS_RESERVED}))
    GROUP BY 1, 2, 3),
  asked_now AS MATERIALIZED (
    SELECT asked.scope, asked.resource, most, wanted, least(asked.pending, own.n) AS pending, coalesce(others.n, 0) AS others
    FROM asked JOIN given ON given.scope = asked.scope
      LEFT JOIN pending AS own ON own.scope = asked.scope AND own.resource = asked.resource AND own.own
      LEFT JOIN pending AS others ON others.scope = asked.scope AND others.resource = asked.resource AND NOT others.own),
  free AS MATERIALIZED (
    SELECT *, greatest(0, most - pending - others
      - coalesce((SELECT sum(CASE resource WHEN 'starts' THEN starts WHEN 'places' THEN running WHEN 'tokens' THEN tokens ELSE micros END)
          FROM sums WHERE sums.scope = asked_now.scope AND (width = 0) = (resource = 'places')), 0))::bigint AS free
    FROM asked_now),
  put AS (
    INSERT INTO reserved AS known (scope, resource, part, granted)
    SELECT free.scope, resource, $6, ${STARTED} + pending + least(free, wanted)
    FROM free LEFT JOIN counts ON counts.scope = free.scope AND counts.part = $6
    WHERE resource IN ('starts', 'places')
    ON CONFLICT (scope, resource, part) DO UPDATE SET granted = excluded.granted)
  SELECT given.scope, ${COUNTED},
    (SELECT json_object_agg(resource, least(free, wanted)) FROM free WHERE free.scope = given.scope AND resource IN ('starts', 'places')) AS reserved,
    (SELECT json_object_agg(resource, free - least(free, wanted)) FROM free WHERE free.scope = given.scope) AS "left"
  FROM given`;

const COUNT = `
  WITH ${renderSums(1)}, given AS (SELECT DISTINCT scope FROM names)
  SELECT given.scope, ${COUNTED} FROM given`;

const LANES = `
  WITH RECURSIVE
    waits (lane) AS (
      (SELECT lane FROM parked WHERE NOT released ORDER BY lane LIMIT 1)
      UNION ALL SELECT (SELECT lane FROM parked WHERE NOT released AND lane > waits.lane ORDER BY lane LIMIT 1) FROM waits WHERE waits.lane IS NOT NULL),
    gone AS (SELECT lane, count(*) AS n FROM parked WHERE released GROUP BY lane)
  SELECT coalesce(known.lane, gone.lane) AS mapping, known.lane IS NOT NULL AS waits, coalesce(gone.n, 0) AS released,
    (SELECT sum(parked) FROM usage WHERE counter = '${ALL_RUNS}' AND width = 0)::bigint AS parked
  FROM (SELECT 1) AS one LEFT JOIN ((SELECT lane FROM waits WHERE lane IS NOT NULL) AS known FULL JOIN gone ON gone.lane = known.lane) ON true`;

const RELEASE = `
  WITH wanted AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS w (lane, n)),
  picked AS MATERIALIZED (
    SELECT wanted.lane, one.seq, one.run FROM wanted CROSS JOIN LATERAL (
      SELECT seq, run FROM parked WHERE parked.lane = wanted.lane AND NOT released ORDER BY seq LIMIT wanted.n FOR NO KEY UPDATE SKIP LOCKED) AS one),
  free AS MATERIALIZED (
    SELECT jobs.seq FROM picked JOIN jobs ON kind = 'turn' AND id = picked.run WHERE holder IS NULL AND run_at >= ${PARKED_FROM}
    ORDER BY picked.seq FOR NO KEY UPDATE OF jobs SKIP LOCKED),
  placed AS MATERIALIZED (SELECT seq, ${NEXT_PLACE} AS place FROM free),
  woken AS (
    UPDATE jobs SET run_at = 0, ready = CASE WHEN jobs.ready IS NULL THEN NULL ELSE place END
    FROM placed WHERE jobs.seq = placed.seq RETURNING jobs.id),
  marked AS (
    UPDATE parked SET released = true FROM picked JOIN woken ON woken.id = picked.run WHERE parked.seq = picked.seq RETURNING parked.lane),
  passed AS (
    DELETE FROM parked USING picked WHERE parked.seq = picked.seq
      AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = 'turn' AND id = picked.run AND run_at >= ${PARKED_FROM}))
  SELECT lane, count(*) AS n FROM marked GROUP BY lane`;

const GONE = (column: string): string =>
  `NOT EXISTS (SELECT 1 FROM holders WHERE gateway = rtrim(${column}, '+') AND (seen > now() - interval '1 minute' OR ${KEEPS_RESERVED}))`;

const FOLD = `
  WITH gone AS (DELETE FROM usage WHERE part <> '' AND width = 0 AND ${GONE("part")} RETURNING counter, running, waiting, parked, in_line)
  INSERT INTO usage (counter, width, at, running, waiting, parked, in_line)
    SELECT counter, 0, 0, sum(running), sum(waiting), sum(parked), sum(in_line) FROM gone GROUP BY counter ORDER BY counter
  ON CONFLICT (counter, width, at, part) DO UPDATE SET ${addColumns("usage", ["running", "waiting", "parked", "in_line"])}`;

/** Counts the runs that have not ended, and makes the part that is nobody's the difference to what the others say. One statement sees both at the same moment. */
const COUNT_RUNS = `
  WITH open AS (
    SELECT mapping, status, count(*) AS n, count(*) FILTER (WHERE status = 'parked' AND strpos(record, '"hold":{"reason":"limit"') > 0) AS held,
      count(*) FILTER (WHERE strpos(record, '"attempts":0') > 0
        AND (status = 'queued' OR (status = 'parked' AND strpos(record, '"hold":{"reason":"limit"') > 0))) AS lined
    FROM runs WHERE status IN ('parked', 'collecting', 'queued', 'running')
      AND (mapping IS NOT NULL OR strpos(record, '"kind":"hook"') > 0) GROUP BY 1, 2),
  named AS (SELECT '${ALL_RUNS}' AS counter, status, n, held, lined FROM open UNION ALL SELECT 'mapping:' || mapping, status, n, held, lined FROM open WHERE mapping IS NOT NULL),
  deltas AS (
    SELECT counter, CASE status WHEN 'running' THEN n ELSE 0 END AS running, CASE status WHEN 'running' THEN 0 ELSE n END AS waiting,
      held AS parked, lined AS in_line FROM named
    UNION ALL SELECT counter, -running, -waiting, -parked, -in_line FROM usage WHERE part <> '' AND width = 0)
  INSERT INTO usage (counter, width, at, running, waiting, parked, in_line)
    SELECT counter, 0, 0, sum(running), sum(waiting), sum(parked), sum(in_line) FROM deltas GROUP BY counter ORDER BY counter
  ON CONFLICT (counter, width, at, part) DO UPDATE SET
    running = excluded.running, waiting = excluded.waiting, parked = excluded.parked, in_line = excluded.in_line`;

/** Between counts of all runs that have not ended. */
const COUNT_AGAIN_MS = 600_000;
const countedAt = new WeakMap<Db, Ms>();

/** Deletes counters that count no more, sums up those of gateways that are gone, and now and then counts runs again. */
async function tidyUsage(db: Db, now: Ms): Promise<void> {
  for (const window of [HOUR_WINDOW, DAY_WINDOW])
    await db.query("DELETE FROM usage WHERE width = $1 AND (at <= $2 OR at > $3)", [
      window.widthMs,
      countsAfter(window, now),
      countsUntil(window, now),
    ]);
  await db.query("DELETE FROM windows WHERE closes_at < $1", [countsAfter(DAY_WINDOW, now)]);
  await db.query(FOLD);
  await db.query(`DELETE FROM reserved WHERE ${GONE("part")}`);
  if (performance.now() - (countedAt.get(db) ?? -Infinity) < COUNT_AGAIN_MS) return;
  countedAt.set(db, performance.now());
  await db.query(COUNT_RUNS);
}

interface CountedRow {
  scope: string;
  sums: Omit<UsageRow, "counter">[] | null;
}

type ReservedRow = CountedRow & {
  [K in "reserved" | "left"]: Reservation[K] | null;
};

export interface UsageParts {
  db: Db;
  membership: Membership;
  /** The id of this gateway. */
  gateway: string;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
  /** A job may have become ready. */
  ready(kind: JobKind): void;
}

/** The values of `renderSums`. */
function toValues(scopes: readonly CountedScope[], windows: readonly Window[], now: Ms) {
  const pairs = scopes.flatMap(({ scope, counters }) =>
    counters.map((counter) => [scope, counter] as const),
  );
  return [
    pairs.map(([scope]) => scope),
    pairs.map(([, counter]) => counter),
    windows.map(({ widthMs }) => widthMs),
    windows.map((window) => countsAfter(window, now)),
    windows.map((window) => countsUntil(window, now)),
  ];
}

function createReserve({
  db,
  membership,
  gateway,
  now,
  dbTime,
}: UsageParts): UsageStore["reserve"] {
  const known = new Set<string>();
  /** Budgets have rows to be locked by. */
  const addBudgets = async (scopes: readonly string[]): Promise<void> => {
    const fresh = scopes.filter((scope) => !known.has(scope));
    if (fresh.length === 0) return;
    // Without the look, a row that is there would be waited for while another gateway reserves room in it.
    await db.query(
      `INSERT INTO budgets (scope) SELECT scope FROM unnest($1::text[]) AS fresh (scope)
        WHERE NOT EXISTS (SELECT 1 FROM budgets WHERE budgets.scope = fresh.scope) ORDER BY 1 ON CONFLICT DO NOTHING`,
      [fresh],
    );
    for (const scope of fresh) known.add(scope);
  };
  return async (requests: readonly ReservationRequest[]) => {
    membership.start();
    const holder = await membership.id();
    await addBudgets(requests.map(({ scope }) => scope));
    const asked = requests.flatMap(({ scope, limits, pending, wanted }) =>
      RESOURCES.flatMap((name) => {
        const most = limits[name];
        if (most === undefined) return [];
        const isCounted = name === "starts" || name === "places";
        const [before, more] = isCounted ? [pending[name], wanted[name]] : [0, 0];
        return [{ scope, name, most, pending: before, wanted: more }];
      }),
    );
    const windows = getWindows(asked.map(({ name }) => name));
    const rows = await db.query<ReservedRow>(RESERVE, [
      asked.map(({ scope }) => scope),
      asked.map(({ name }) => name),
      asked.map(({ most }) => most),
      asked.map(({ pending }) => pending),
      asked.map(({ wanted }) => wanted),
      gateway,
      holder,
      ...toValues(requests, windows, dbTime(now())),
    ]);
    return rows.map((row) => ({
      scope: row.scope,
      ...toCounted(row.sums ?? [], dbTime(0)),
      reserved: row.reserved ?? {},
      left: row.left ?? {},
    }));
  };
}

/** The counters that gateways share, and what each of them has reserved. */
export function createUsage(parts: UsageParts): UsageStore {
  const { db, now, dbTime, ready } = parts;
  return {
    shared: true,
    reserve: createReserve(parts),
    async count(scopes) {
      const values = toValues(scopes, getWindows(), dbTime(now()));
      const rows = await db.query<CountedRow>(COUNT, values);
      return new Map(rows.map(({ scope, sums }) => [scope, toCounted(sums ?? [], dbTime(0))]));
    },
    async lanes() {
      const rows = await db.query<
        { [K in keyof ParkedMapping]: ParkedMapping[K] | null } & { parked: number | null }
      >(LANES);
      const lanes = rows.flatMap(({ mapping, waits, released }) =>
        mapping === null ? [] : [{ mapping, waits: waits ?? false, released: released ?? 0 }],
      );
      return { lanes, parked: rows[0]?.parked ?? 0 };
    },
    async release(wanted) {
      const rows = await db.query<{ lane: string; n: number }>(RELEASE, [
        wanted.map(({ mapping }) => mapping),
        wanted.map(({ count }) => count),
      ]);
      if (rows.length > 0) ready("turn");
      const counts = new Map(rows.map(({ lane, n }) => [lane, n]));
      return wanted.map(({ mapping }) => counts.get(mapping) ?? 0);
    },
    tidy: () => tidyUsage(db, dbTime(now())),
  };
}
