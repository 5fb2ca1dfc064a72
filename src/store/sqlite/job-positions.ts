import type { EarlierJob, Job, JobKind, JobPosition, Ms } from "../types.ts";
import type { Statements } from "./statements.ts";

/** Where a job stands. The first of its key is the one that may start or is under way. */
export function findSqliteJob(sql: Statements, kind: JobKind, id: string): JobPosition | undefined {
  const row = sql.get<{ head: string; runAt: Ms; held: number }>(
    `SELECT run_at AS runAt, held, iif(held = 1 OR ready IS NOT NULL, id,
        coalesce((SELECT id FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key AND (first.held = 1 OR first.ready IS NOT NULL) ORDER BY seq LIMIT 1), id)) AS head
      FROM jobs WHERE kind = ? AND id = ?`,
    kind,
    id,
  );
  return row && { ...row, held: row.held === 1 };
}

/** The first of those with one of these keys that were added before a job. Reads one row of each key. */
export function findEarlierSqliteJob(
  sql: Statements,
  { kind, id }: Pick<Job, "kind" | "id">,
  keys: readonly string[],
): EarlierJob | undefined {
  return sql.get<EarlierJob>(
    `SELECT id, key, run_at AS runAt FROM jobs WHERE seq = (
        SELECT min((SELECT min(seq) FROM jobs INDEXED BY jobs_key WHERE kind = ?1 AND key = given.value AND seq < own.seq))
        FROM jobs AS own, json_each(?3) AS given WHERE own.kind = ?1 AND own.id = ?2)`,
    kind,
    id,
    JSON.stringify(keys),
  );
}
