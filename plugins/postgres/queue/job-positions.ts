import type { EarlierJob, Job, JobKind, JobPosition, Sql } from "#store-kit";
import { digest } from "../client/digest.ts";
import { readTogether } from "../records/reads.ts";

/** Finds the position of a job: the first of its key is the one that `TAKE` takes. */
const FIND = `
  SELECT run_at AS "runAt", holder IS NOT NULL AS held,
    coalesce((SELECT begun.id FROM jobs AS begun WHERE begun.kind = jobs.kind AND begun.key = jobs.key AND begun.starts > 0 LIMIT 1),
      (SELECT first.id FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key ORDER BY first.seq LIMIT 1)) AS head
  FROM jobs WHERE kind = $1 AND id = $2`;

/** The places are the kind and the id of a job, and digests of keys, hexadecimal, with commas between them. */
const FIND_EARLIER = `
  SELECT earlier.id, earlier.name AS key, earlier.run_at AS "runAt" FROM (SELECT ? AS kind, ? AS id, ? AS digests) AS asked
    CROSS JOIN LATERAL unnest(string_to_array(asked.digests, ',')) AS one (digest)
    CROSS JOIN LATERAL (SELECT seq, jobs.id, name, run_at FROM jobs
      WHERE jobs.kind = asked.kind AND jobs.key = decode(one.digest, 'hex')
        AND jobs.seq < (SELECT seq FROM jobs AS own WHERE own.kind = asked.kind AND own.id = asked.id)
      ORDER BY jobs.seq LIMIT 1) AS earlier
  ORDER BY earlier.seq LIMIT 1`;

/** Finds the position of a job, by the database's time. */
export async function findPostgresJob(
  sql: Sql,
  kind: JobKind,
  id: string,
): Promise<JobPosition | undefined> {
  const [row] = await sql.query<JobPosition>(FIND, [kind, id]);
  return row;
}

/** Finds the first of those with one of these keys that were added before a job, by the database's time. */
export function createFindEarlier(
  sql: Sql,
): (job: Pick<Job, "kind" | "id">, keys: readonly string[]) => Promise<EarlierJob | undefined> {
  const find = readTogether<EarlierJob>(sql, FIND_EARLIER, ["text", "text", "text"]);
  return async ({ kind, id }, keys) =>
    (await find(kind, id, keys.map((key) => digest(key).toString("hex")).join(",")))[0];
}
