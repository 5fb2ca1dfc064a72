import type { Ms } from "#store-kit";

/** A holder that was not heard of for so long holds nothing any more. */
export const LEASE_MS: Ms = 10_000;

/** SQL: whether a holder is heard of. */
export const ALIVE = `seen > now() - interval '${LEASE_MS} ms'`;

/** SQL: whether the server has run for the time of a lease: all that were connected before had the time to be heard of again. */
export const STEADY = `pg_postmaster_start_time() < now() - interval '${LEASE_MS} ms'`;

/**
 * SQL: whether a gateway still has what it has reserved of limits. One that is silent has it until its jobs are freed: before that, a
 * commit that starts a run may still arrive, and nothing would refuse it.
 */
export const KEEPS_RESERVED = "(freed IS NULL OR seen > freed)";

/**
 * SQL: frees jobs whose holder has left; with `$1`, also of silent holders. These are locked: their next sign of life waits for the
 * commit.
 * @param mine a condition, followed by OR, under which jobs are freed as well
 */
export const buildFree = (mine: string, nextPlace: string): string => `
  WITH silent AS MATERIALIZED (SELECT id FROM holders WHERE $1::boolean AND ${STEADY} AND NOT ${ALIVE} ORDER BY id FOR NO KEY UPDATE),
  marked AS (UPDATE holders SET freed = now() FROM silent WHERE holders.id = silent.id AND ${KEEPS_RESERVED})
  UPDATE jobs SET holder = NULL, run_at = 0, ready = ${nextPlace}
  WHERE holder IS NOT NULL AND (${mine}holder IN (SELECT id FROM silent) OR NOT EXISTS (SELECT FROM holders WHERE holders.id = jobs.holder)) RETURNING kind`;
