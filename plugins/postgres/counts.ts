import type { Db } from "./db.ts";
import { COUNTED } from "./schema.ts";

/** Rows of changes that one transaction sums up. */
const SLICE = 20_000;

/** How many there are of everything, from what statements noted of their changes. */
export async function readCounts(db: Db): Promise<Record<string, number>> {
  const rows = await db.query<{ name: string; n: number }>(
    "SELECT name, sum(n)::bigint AS n FROM (SELECT name, n FROM counts UNION ALL SELECT name, n FROM count_deltas) AS noted GROUP BY name",
  );
  const counts = Object.fromEntries(COUNTED.map((name) => [name, 0]));
  for (const { name, n } of rows) counts[name] = n;
  return counts;
}

/** Sums up what was noted since; where another gateway is at it, that is enough. */
export async function foldCounts(db: Db): Promise<void> {
  await db.query(
    `WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtextextended($1, 7421)) AS me),
      gone AS (
        DELETE FROM count_deltas WHERE ctid = ANY(ARRAY(SELECT ctid FROM count_deltas WHERE (SELECT me FROM alone) LIMIT ${SLICE})) RETURNING name, n)
      INSERT INTO counts AS known (name, n) SELECT name, sum(n) FROM gone GROUP BY name ORDER BY name
        ON CONFLICT (name) DO UPDATE SET n = known.n + excluded.n`,
    [`rouse ${db.address.schema}`],
  );
}
