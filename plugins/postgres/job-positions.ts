import type { EarlierJob, Job, JobKind, JobPosition, Sql } from "#store-kit";
import { digest } from "./digest.ts";

/** Where a job stands: the first of its key is the one that `TAKE` takes. */
const FIND = `
  SELECT run_at AS "runAt", holder IS NOT NULL AS held,
    coalesce((SELECT begun.id FROM jobs AS begun WHERE begun.kind = jobs.kind AND begun.key = jobs.key AND begun.starts > 0 LIMIT 1),
      (SELECT first.id FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key ORDER BY first.seq LIMIT 1)) AS head
  FROM jobs WHERE kind = $1 AND id = $2`;

const FIND_EARLIER = `
  SELECT earlier.id, earlier.name AS key, earlier.run_at AS "runAt" FROM unnest($3::bytea[]) AS given (key)
    CROSS JOIN LATERAL (SELECT seq, id, name, run_at FROM jobs
      WHERE jobs.kind = $1 AND jobs.key = given.key AND jobs.seq < (SELECT seq FROM jobs WHERE kind = $1 AND id = $2) ORDER BY jobs.seq LIMIT 1) AS earlier
  ORDER BY earlier.seq LIMIT 1`;

/** Where a job stands, by the database's time. */
export async function findPostgresJob(sql: Sql, kind: JobKind, id: string): Promise<JobPosition | undefined> {
  const [row] = await sql.query<JobPosition>(FIND, [kind, id]);
  return row;
}

/** The first of those with one of these keys that were added before a job, by the database's time. */
export async function findEarlierPostgresJob(
  sql: Sql,
  { kind, id }: Pick<Job, "kind" | "id">,
  keys: readonly string[],
): Promise<EarlierJob | undefined> {
  const [row] = await sql.query<EarlierJob>(FIND_EARLIER, [kind, id, keys.map((key) => digest(key))]);
  return row;
}
