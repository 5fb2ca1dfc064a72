import {
  ALL_RUNS,
  type Counted,
  type CountedScope,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  HOUR_WINDOW,
  type JobKind,
  type Ms,
  PARKED_FROM,
  type ParkedMapping,
  type Reservation,
  type ReservationRequest,
  RESOURCES,
  type UsageStore,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { KEEPS_RESERVED } from "../cluster/holders.ts";
import { NEXT_PLACE } from "../queue/jobs.ts";
import type { Membership } from "../cluster/membership.ts";
import { tidyUsage } from "./usage-tidy.ts";

/** A gateway that reserves room was heard of within so long, so that its jobs are not freed before it has started them. */
const HEARD_MS = 4000;

const HOURS = `
  hours AS MATERIALIZED (SELECT names.scope, usage.at, sum(usage.starts)::bigint AS starts FROM names JOIN usage ON usage.counter = names.counter
    AND usage.width = ${HOUR_WINDOW.widthMs} AND usage.at > $9::bigint AND usage.at <= $10::bigint GROUP BY 1, 2),`;
const DAYS = `
  days AS MATERIALIZED (SELECT names.scope, usage.at, sum(usage.tokens)::bigint AS tokens, sum(usage.micros)::bigint AS micros
    FROM names JOIN usage ON usage.counter = names.counter
    AND usage.width = ${DAY_WINDOW.widthMs} AND usage.at > $11::bigint AND usage.at <= $12::bigint GROUP BY 1, 2),`;
/** Without a limit that needs it, nothing is read. */
const NO_HOURS =
  "hours AS (SELECT NULL::text AS scope, 0::bigint AS at, 0::bigint AS starts WHERE $9::bigint + $10::bigint IS NULL),";
const NO_DAYS =
  "days AS (SELECT NULL::text AS scope, 0::bigint AS at, 0::bigint AS tokens, 0::bigint AS micros WHERE $11::bigint + $12::bigint IS NULL),";

const COUNTS = `
  counts AS MATERIALIZED (
    SELECT names.scope, usage.part, sum(running)::bigint AS running, sum(waiting)::bigint AS waiting, sum(parked)::bigint AS parked,
      sum(in_line)::bigint AS in_line, sum(starts)::bigint AS starts, sum(places)::bigint AS places
    FROM names JOIN usage ON usage.counter = names.counter AND usage.width = 0 GROUP BY 1, 2),`;
const COUNTED = `
    coalesce((SELECT sum(running) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS running,
    coalesce((SELECT sum(waiting) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS waiting,
    coalesce((SELECT sum(parked) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS parked,
    coalesce((SELECT sum(in_line) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS "inLine",
    (SELECT json_agg(json_build_array(at, starts) ORDER BY at) FROM hours WHERE hours.scope = given.scope) AS hours,
    (SELECT json_agg(json_build_array(at, tokens, micros) ORDER BY at) FROM days WHERE days.scope = given.scope) AS days`;
const STARTED =
  "coalesce(CASE resource WHEN 'starts' THEN counts.starts ELSE counts.places END, 0)";

/**
 * Reserves room in budgets. What was reserved for a gateway is kept as a sum of all times, and so is what it has started: the commit
 * that starts a run turns the one into the other. A budget is locked, without waiting for it, by one request at a time; one that
 * has changed since this statement began is left for the next try, because the sums are those of its beginning. A gateway that the
 * database does not know reserves nothing. Of what a gateway says is pending, the database may have seen some start already.
 */
const renderReserve = (hours: boolean, days: boolean): string => `
  WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]) AS a (scope, resource, most, pending, wanted)),
  names AS MATERIALIZED (SELECT * FROM unnest($6::text[], $7::text[]) AS n (scope, counter)),
  given AS MATERIALIZED (
    SELECT scope FROM budgets WHERE scope = ANY($6::text[])
      AND version = (SELECT same.version FROM budgets AS same WHERE same.scope = budgets.scope)
      AND (SELECT id FROM holders WHERE id = $13::bigint) IS NOT NULL
    ORDER BY scope FOR NO KEY UPDATE OF budgets SKIP LOCKED),
  bumped AS (UPDATE budgets SET version = version + 1 FROM given WHERE budgets.scope = given.scope),
  heard AS (UPDATE holders SET seen = now(), freed = NULL
    WHERE id = $13::bigint AND (seen < now() - interval '${HEARD_MS} ms' OR NOT ${KEEPS_RESERVED})),
  ${COUNTS}
  ${hours ? HOURS : NO_HOURS}
  ${days ? DAYS : NO_DAYS}
  pending AS MATERIALIZED (
    SELECT reserved.scope, resource, reserved.part = $8 AS own, sum(greatest(0, granted - ${STARTED}))::bigint AS n
    FROM reserved LEFT JOIN counts ON counts.scope = reserved.scope AND counts.part = reserved.part
    WHERE reserved.scope = ANY($1::text[])
      AND (reserved.part = $8 OR EXISTS (SELECT 1 FROM holders WHERE gateway = reserved.part AND ${KEEPS_RESERVED}))
    GROUP BY 1, 2, 3),
  asked_now AS MATERIALIZED (
    SELECT asked.scope, asked.resource, most, wanted, least(asked.pending, coalesce(own.n, 0)) AS pending, coalesce(others.n, 0) AS others
    FROM asked JOIN given ON given.scope = asked.scope
      LEFT JOIN pending AS own ON own.scope = asked.scope AND own.resource = asked.resource AND own.own
      LEFT JOIN pending AS others ON others.scope = asked.scope AND others.resource = asked.resource AND NOT others.own),
  free AS MATERIALIZED (
    SELECT *, greatest(0, most - pending - others
      - coalesce(CASE resource WHEN 'starts' THEN (SELECT sum(starts) FROM hours WHERE hours.scope = asked_now.scope)
          WHEN 'places' THEN (SELECT sum(running) FROM counts WHERE counts.scope = asked_now.scope)
          WHEN 'tokens' THEN (SELECT sum(tokens) FROM days WHERE days.scope = asked_now.scope)
          ELSE (SELECT sum(micros) FROM days WHERE days.scope = asked_now.scope) END, 0))::bigint AS free
    FROM asked_now),
  put AS (
    INSERT INTO reserved AS known (scope, resource, part, granted)
    SELECT free.scope, resource, $8, ${STARTED} + pending + least(free, wanted)
    FROM free LEFT JOIN counts ON counts.scope = free.scope AND counts.part = $8
    WHERE resource IN ('starts', 'places')
    ON CONFLICT (scope, resource, part) DO UPDATE SET granted = excluded.granted)
  SELECT given.scope, ${COUNTED},
    (SELECT json_object_agg(resource, least(free, wanted)) FROM free WHERE free.scope = given.scope AND resource IN ('starts', 'places')) AS reserved,
    (SELECT json_object_agg(resource, free - least(free, wanted)) FROM free WHERE free.scope = given.scope) AS "left"
  FROM given`;

const COUNT = `
  WITH names AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[]) AS n (scope, counter)),
  given AS (SELECT DISTINCT scope FROM names),
  ${COUNTS}
  ${HOURS.replace("$9", "$3").replace("$10", "$4")}
  ${DAYS.replace("$11", "$5").replace("$12", "$6").replace(/,$/, "")}
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

interface CountedRow {
  scope: string;
  running: number;
  waiting: number;
  parked: number;
  inLine: number;
  hours: [at: Ms, starts: number][] | null;
  days: [at: Ms, tokens: number, micros: number][] | null;
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

const toNames = (scopes: readonly CountedScope[]): [string[], string[]] => {
  const pairs = scopes.flatMap(({ scope, counters }) =>
    counters.map((counter) => [scope, counter] as const),
  );
  return [pairs.map(([scope]) => scope), pairs.map(([, counter]) => counter)];
};

const toCounted = (
  { running, waiting, parked, inLine, hours, days }: CountedRow,
  skew: Ms,
): Counted => ({
  running,
  waiting,
  parked,
  inLine,
  hour: (hours ?? []).map(([at, starts]) => ({ at: at - skew, starts })),
  day: (days ?? []).map(([at, tokens, micros]) => ({ at: at - skew, tokens, micros })),
});

/** Bounds of the buckets that count, at the database's time. */
const toTimes = (at: Ms): Ms[] =>
  [HOUR_WINDOW, DAY_WINDOW].flatMap((window) => [countsAfter(window, at), countsUntil(window, at)]);

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
    const hasDay = asked.some(({ name }) => name === "tokens" || name === "micros");
    const text = renderReserve(
      asked.some(({ name }) => name === "starts"),
      hasDay,
    );
    const rows = await db.query<ReservedRow>(text, [
      asked.map(({ scope }) => scope),
      asked.map(({ name }) => name),
      asked.map(({ most }) => most),
      asked.map(({ pending }) => pending),
      asked.map(({ wanted }) => wanted),
      ...toNames(requests),
      gateway,
      ...toTimes(dbTime(now())),
      holder,
    ]);
    return rows.map((row) => ({
      scope: row.scope,
      ...toCounted(row, dbTime(0)),
      reserved: row.reserved ?? {},
      left: row.left ?? {},
    }));
  };
}

/** The counters that gateways share, and what each of them has reserved. */
export function createUsage(parts: UsageParts): UsageStore {
  const { db, now, dbTime, ready } = parts;
  const times = (): Ms[] => toTimes(dbTime(now()));
  return {
    shared: true,
    reserve: createReserve(parts),
    async count(scopes) {
      const rows = await db.query<CountedRow>(COUNT, [...toNames(scopes), ...times()]);
      return new Map(rows.map((row) => [row.scope, toCounted(row, dbTime(0))]));
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
    tidy: () => tidyUsage(db, times()),
  };
}
