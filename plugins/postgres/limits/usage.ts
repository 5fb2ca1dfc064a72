import {
  ALL_RUNS,
  type Counted,
  type CountedScope,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  HOUR_WINDOW,
  type JobKind,
  type Loan,
  type LoanRequest,
  type Ms,
  PARKED_FROM,
  type ParkedMapping,
  type Resource,
  RESOURCES,
  type UsageStore,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { ALIVE, KEEPS_LOANS } from "../cluster/holders.ts";
import { NEXT_PLACE } from "../queue/jobs.ts";
import type { Membership } from "../cluster/membership.ts";
import { tidyUsage } from "./usage-tidy.ts";

/**
 * A gateway that borrows was heard of within so long. With the time for which it keeps what it does not use (`SURE_MS` of its accounts),
 * that is less than the time of a lease: when its jobs are freed, it can use what it has borrowed for none but them.
 */
const HEARD_MS = 4000;

const HOURS = `
  hours AS MATERIALIZED (SELECT names.scope, usage.at, sum(usage.starts)::bigint AS starts FROM names JOIN usage ON usage.counter = names.counter
    AND usage.width = ${HOUR_WINDOW.widthMs} AND usage.at > $10::bigint AND usage.at <= $11::bigint GROUP BY 1, 2),`;
const DAYS = `
  days AS MATERIALIZED (SELECT names.scope, usage.at, sum(usage.tokens)::bigint AS tokens, sum(usage.micros)::bigint AS micros
    FROM names JOIN usage ON usage.counter = names.counter
    AND usage.width = ${DAY_WINDOW.widthMs} AND usage.at > $12::bigint AND usage.at <= $13::bigint GROUP BY 1, 2),`;
/** Without a limit that needs it, nothing is read. */
const NO_HOURS =
  "hours AS (SELECT NULL::text AS scope, 0::bigint AS at, 0::bigint AS starts WHERE $10::bigint + $11::bigint IS NULL),";
const NO_DAYS =
  "days AS (SELECT NULL::text AS scope, 0::bigint AS at, 0::bigint AS tokens, 0::bigint AS micros WHERE $12::bigint + $13::bigint IS NULL),";

const COUNTS = `
  counts AS MATERIALIZED (
    SELECT names.scope, usage.part, sum(running)::bigint AS running, sum(waiting)::bigint AS waiting, sum(parked)::bigint AS parked,
      sum(in_line)::bigint AS in_line, sum(starts)::bigint AS starts, sum(places)::bigint AS places, sum(tokens)::bigint AS tokens, sum(micros)::bigint AS micros
    FROM names JOIN usage ON usage.counter = names.counter AND usage.width = 0 GROUP BY 1, 2),`;
const COUNTED = `
    coalesce((SELECT sum(running) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS running,
    coalesce((SELECT sum(waiting) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS waiting,
    coalesce((SELECT sum(parked) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS parked,
    coalesce((SELECT sum(in_line) FROM counts WHERE counts.scope = given.scope), 0)::bigint AS "inLine",
    (SELECT json_agg(json_build_array(at, starts) ORDER BY at) FROM hours WHERE hours.scope = given.scope) AS hours,
    (SELECT json_agg(json_build_array(at, tokens, micros) ORDER BY at) FROM days WHERE days.scope = given.scope) AS days`;
const usedBy = (counts: string, resource: string): string =>
  `coalesce(CASE ${resource} WHEN 'starts' THEN ${counts}.starts WHEN 'places' THEN ${counts}.places WHEN 'tokens' THEN ${counts}.tokens ELSE ${counts}.micros END, 0)`;

/**
 * Borrows from budgets. What was lent to a gateway is kept as a sum of all times, and so is what it has used: the commit that
 * starts a run turns the one into the other. A budget is locked, without waiting for it, by one request at a time; one that
 * has changed since this statement began is left for the next try, because the sums are those of its beginning. A gateway that the
 * database does not know borrows nothing.
 */
const lendText = (hours: boolean, days: boolean): string => `
  WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS a (scope, resource, most, held, needed, ahead)),
  names AS MATERIALIZED (SELECT * FROM unnest($7::text[], $8::text[]) AS n (scope, counter)),
  given AS MATERIALIZED (
    SELECT scope FROM budgets WHERE scope = ANY($7::text[])
      AND version = (SELECT same.version FROM budgets AS same WHERE same.scope = budgets.scope)
      AND (SELECT id FROM holders WHERE id = $14::bigint) IS NOT NULL
    ORDER BY scope FOR NO KEY UPDATE OF budgets SKIP LOCKED),
  bumped AS (UPDATE budgets SET version = version + 1 FROM given WHERE budgets.scope = given.scope),
  heard AS (UPDATE holders SET seen = now(), freed = NULL
    WHERE id = $14::bigint AND (seen < now() - interval '${HEARD_MS} ms' OR NOT ${KEEPS_LOANS})),
  ${COUNTS}
  ${hours ? HOURS : NO_HOURS}
  ${days ? DAYS : NO_DAYS}
  others AS MATERIALIZED (
    SELECT lent.scope, lent.resource, sum(greatest(0, lent.granted - ${usedBy("counts", "lent.resource")}))::bigint AS held
    FROM lent LEFT JOIN counts ON counts.scope = lent.scope AND counts.part = lent.part
    WHERE lent.scope = ANY($1::text[]) AND lent.part <> $9 AND EXISTS (SELECT 1 FROM holders WHERE gateway = lent.part AND ${KEEPS_LOANS})
    GROUP BY 1, 2),
  peers AS MATERIALIZED (SELECT count(*) AS n FROM holders WHERE gateway IS NOT NULL AND ${ALIVE}),
  room AS MATERIALIZED (
    SELECT asked.*, greatest(0, most - asked.held - coalesce((SELECT held FROM others WHERE others.scope = asked.scope AND others.resource = asked.resource), 0)
      - coalesce(CASE asked.resource WHEN 'starts' THEN (SELECT sum(starts) FROM hours WHERE hours.scope = asked.scope)
          WHEN 'places' THEN (SELECT sum(running) FROM counts WHERE counts.scope = asked.scope)
          WHEN 'tokens' THEN (SELECT sum(tokens) FROM days WHERE days.scope = asked.scope)
          ELSE (SELECT sum(micros) FROM days WHERE days.scope = asked.scope) END, 0))::bigint AS free
    FROM asked JOIN given ON given.scope = asked.scope),
  shares AS MATERIALIZED (
    SELECT *, least(free, needed) + least(ahead, CASE WHEN (SELECT n FROM peers) <= 1 THEN free - least(free, needed)
      ELSE ceil((free - least(free, needed)) / (2.0 * (SELECT n FROM peers)))::bigint END) AS lent FROM room),
  put AS (
    INSERT INTO lent AS known (scope, resource, part, granted)
    SELECT shares.scope, shares.resource, $9, ${usedBy("counts", "shares.resource")} + shares.held + shares.lent
    FROM shares LEFT JOIN counts ON counts.scope = shares.scope AND counts.part = $9
    ON CONFLICT (scope, resource, part) DO UPDATE SET granted = excluded.granted)
  SELECT given.scope, ${COUNTED},
    (SELECT json_object_agg(resource, json_build_array(lent, free - lent)) FROM shares WHERE shares.scope = given.scope) AS lent
  FROM given`;

const COUNT = `
  WITH names AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[]) AS n (scope, counter)),
  given AS (SELECT DISTINCT scope FROM names),
  ${COUNTS}
  ${HOURS.replace("$10", "$3").replace("$11", "$4")}
  ${DAYS.replace("$12", "$5").replace("$13", "$6").replace(/,$/, "")}
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

type LentRow = CountedRow & {
  lent: Partial<Record<Resource, [lent: number, left: number]>> | null;
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

function createLend({ db, membership, gateway, now, dbTime }: UsageParts): UsageStore["lend"] {
  const known = new Set<string>();
  /** Budgets have rows to be locked by. */
  const addBudgets = async (scopes: readonly string[]): Promise<void> => {
    const fresh = scopes.filter((scope) => !known.has(scope));
    if (fresh.length === 0) return;
    // Without the look, a row that is there would be waited for while another gateway borrows from it.
    await db.query(
      `INSERT INTO budgets (scope) SELECT scope FROM unnest($1::text[]) AS fresh (scope)
        WHERE NOT EXISTS (SELECT 1 FROM budgets WHERE budgets.scope = fresh.scope) ORDER BY 1 ON CONFLICT DO NOTHING`,
      [fresh],
    );
    for (const scope of fresh) known.add(scope);
  };
  return async (requests: readonly LoanRequest[]) => {
    membership.start();
    const holder = await membership.id();
    await addBudgets(requests.map(({ scope }) => scope));
    const asked = requests.flatMap(({ scope, limits, held, needed, ahead }) =>
      RESOURCES.flatMap((name) => {
        const most = limits[name];
        return most === undefined
          ? []
          : [{ scope, name, most, held: held[name], needed: needed[name], ahead: ahead[name] }];
      }),
    );
    const hasDay = asked.some(({ name }) => name === "tokens" || name === "micros");
    const text = lendText(
      asked.some(({ name }) => name === "starts"),
      hasDay,
    );
    const rows = await db.query<LentRow>(text, [
      asked.map(({ scope }) => scope),
      asked.map(({ name }) => name),
      asked.map(({ most }) => most),
      asked.map(({ held }) => held),
      asked.map(({ needed }) => needed),
      asked.map(({ ahead }) => ahead),
      ...toNames(requests),
      gateway,
      ...toTimes(dbTime(now())),
      holder,
    ]);
    return rows.map((row): Loan => {
      const pairs = Object.entries(row.lent ?? {});
      return {
        scope: row.scope,
        ...toCounted(row, dbTime(0)),
        lent: Object.fromEntries(pairs.map(([name, [lent]]) => [name, lent])),
        left: Object.fromEntries(pairs.map(([name, [, left]]) => [name, left])),
      };
    });
  };
}

/** The counters that gateways share, and what each of them has borrowed. */
export function createUsage(parts: UsageParts): UsageStore {
  const { db, now, dbTime, ready } = parts;
  const times = (): Ms[] => toTimes(dbTime(now()));
  return {
    shared: true,
    lend: createLend(parts),
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
