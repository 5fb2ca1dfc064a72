import {
  ALL_RUNS,
  type CountedScope,
  countsAfter,
  countsUntil,
  getWindows,
  type JobKind,
  type Loan,
  type LoanRequest,
  type Ms,
  PARKED_FROM,
  type ParkedMapping,
  type Resource,
  RESOURCES,
  toCounted,
  USAGE_NUMBERS,
  type UsageRow,
  type UsageStore,
  type Window,
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
const usedBy = (sums: string, resource: string, places: string): string =>
  `coalesce(CASE ${resource} WHEN 'starts' THEN ${sums}.starts WHEN 'places' THEN ${sums}.${places} WHEN 'tokens' THEN ${sums}.tokens ELSE ${sums}.micros END, 0)`;

/**
 * Borrows from budgets. What was lent to a gateway is kept as a sum of all times, and so is what it has used: the commit that
 * starts a run turns the one into the other. A budget is locked, without waiting for it, by one request at a time; one that
 * has changed since this statement began is left for the next try, because the sums are those of its beginning. A gateway that the
 * database does not know borrows nothing.
 */
const LEND = `
  WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS a (scope, resource, most, held, needed, ahead)),
  ${renderSums(9)},
  given AS MATERIALIZED (
    SELECT scope FROM budgets WHERE scope = ANY($9::text[])
      AND version = (SELECT same.version FROM budgets AS same WHERE same.scope = budgets.scope)
      AND (SELECT id FROM holders WHERE id = $8::bigint) IS NOT NULL
    ORDER BY scope FOR NO KEY UPDATE OF budgets SKIP LOCKED),
  bumped AS (UPDATE budgets SET version = version + 1 FROM given WHERE budgets.scope = given.scope),
  heard AS (UPDATE holders SET seen = now(), freed = NULL
    WHERE id = $8::bigint AND (seen < now() - interval '${HEARD_MS} ms' OR NOT ${KEEPS_LOANS})),
  counts AS (SELECT * FROM sums WHERE width = 0),
  others AS MATERIALIZED (
    SELECT lent.scope, lent.resource, sum(greatest(0, lent.granted - ${usedBy("counts", "lent.resource", "places")}))::bigint AS held
    FROM lent LEFT JOIN counts ON counts.scope = lent.scope AND counts.part = lent.part
    WHERE lent.scope = ANY($1::text[]) AND lent.part <> $7 AND EXISTS (SELECT 1 FROM holders WHERE gateway = lent.part AND ${KEEPS_LOANS})
    GROUP BY 1, 2),
  peers AS MATERIALIZED (SELECT count(*) AS n FROM holders WHERE gateway IS NOT NULL AND ${ALIVE}),
  room AS MATERIALIZED (
    SELECT asked.*, greatest(0, most - asked.held - coalesce((SELECT held FROM others WHERE others.scope = asked.scope AND others.resource = asked.resource), 0)
      - coalesce((SELECT sum(${usedBy("sums", "asked.resource", "running")}) FROM sums
          WHERE sums.scope = asked.scope AND (sums.width = 0) = (asked.resource = 'places')), 0))::bigint AS free
    FROM asked JOIN given ON given.scope = asked.scope),
  shares AS MATERIALIZED (
    SELECT *, least(free, needed) + least(ahead, CASE WHEN (SELECT n FROM peers) <= 1 THEN free - least(free, needed)
      ELSE ceil((free - least(free, needed)) / (2.0 * (SELECT n FROM peers)))::bigint END) AS lent FROM room),
  put AS (
    INSERT INTO lent AS known (scope, resource, part, granted)
    SELECT shares.scope, shares.resource, $7, ${usedBy("counts", "shares.resource", "places")} + shares.held + shares.lent
    FROM shares LEFT JOIN counts ON counts.scope = shares.scope AND counts.part = $7
    ON CONFLICT (scope, resource, part) DO UPDATE SET granted = excluded.granted)
  SELECT given.scope, ${COUNTED},
    (SELECT json_object_agg(resource, json_build_array(lent, free - lent)) FROM shares WHERE shares.scope = given.scope) AS lent
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

interface CountedRow {
  scope: string;
  sums: Omit<UsageRow, "counter">[] | null;
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
    const windows = getWindows(asked.map(({ name }) => name));
    const rows = await db.query<LentRow>(LEND, [
      asked.map(({ scope }) => scope),
      asked.map(({ name }) => name),
      asked.map(({ most }) => most),
      asked.map(({ held }) => held),
      asked.map(({ needed }) => needed),
      asked.map(({ ahead }) => ahead),
      gateway,
      holder,
      ...toValues(requests, windows, dbTime(now())),
    ]);
    return rows.map((row): Loan => {
      const pairs = Object.entries(row.lent ?? {});
      return {
        scope: row.scope,
        ...toCounted(row.sums ?? [], dbTime(0)),
        lent: Object.fromEntries(pairs.map(([name, [lent]]) => [name, lent])),
        left: Object.fromEntries(pairs.map(([name, [, left]]) => [name, left])),
      };
    });
  };
}

/** The counters that gateways share, and what each of them has borrowed. */
export function createUsage(parts: UsageParts): UsageStore {
  const { db, now, dbTime, ready } = parts;
  return {
    shared: true,
    lend: createLend(parts),
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
