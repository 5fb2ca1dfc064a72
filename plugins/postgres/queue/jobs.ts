import {
  FIRST_TIME,
  getReadyUntil,
  type HeldJob,
  type Job,
  type JobKind,
  type Ms,
  PARKED_FROM,
  STEP_MS,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { isClash, isConflict } from "../client/errors.ts";
import { buildFree, STEADY } from "../cluster/holders.ts";

const ATTEMPTS = 5;
/** Jobs whose delay is over and that join the line in one statement; the others are taken all the same once the line is empty. */
const JOIN_AT_ONCE = 256;

/** SQL: the next place in the line (`FIRST_TIME`). All gateways share it with the numbers of jobs. */
export const NEXT_PLACE = "next_place()";

/** SQL: the `ready` of a job whose delay ends at a time; 0 stands for one without a delay. */
export const readyAt = (delayEnd: string): string =>
  `CASE WHEN ${delayEnd} = 0 THEN ${NEXT_PLACE} ELSE ${delayEnd} END`;

/**
 * SQL: the lease of a start, the same for no other of the last two thousand million: a job that was ended and added again has
 * leases of its own, while a gateway that stood still may have an old one.
 */
const NEXT_LEASE = `(${NEXT_PLACE} % 2000000000)::int + 1`;

/**
 * Takes jobs that may start: of each key the one that was begun already, else the first; never one of a key that is
 * under way (\`jobs_begun\` would refuse it). The conditions are subqueries of one row each, so that no plan looks
 * through what waits. Always answers with a row, which says whether the holder is known, whether delays are over (jobs that stand
 * behind the whole line), and when the next one's time is.
 */
export const TAKE = `
  WITH next AS MATERIALIZED (
    SELECT seq, ready FROM jobs
    WHERE kind = $1 AND ready IS NOT NULL AND ready <= $2
      AND coalesce((SELECT begun.seq FROM jobs AS begun WHERE begun.kind = jobs.kind AND begun.key = jobs.key AND begun.starts > 0 LIMIT 1),
        (SELECT first.seq FROM jobs AS first WHERE first.kind = jobs.kind AND first.key = jobs.key ORDER BY first.seq LIMIT 1)) = jobs.seq
      AND (SELECT id FROM holders WHERE id = $4) IS NOT NULL
    ORDER BY ready, seq LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED),
  taken AS (
    UPDATE jobs SET holder = $4, ready = NULL, attempts = attempts + 1, starts = ${NEXT_LEASE} FROM next WHERE jobs.seq = next.seq
    RETURNING next.ready AS was, jobs.seq, jobs.id, jobs.name, jobs.data, jobs.attempts, jobs.starts, jobs.enqueued)
  SELECT (SELECT id FROM holders WHERE id = $4) IS NOT NULL AS alive,
    EXISTS (SELECT 1 FROM jobs WHERE kind = $1 AND ready IS NOT NULL AND ready >= ${FIRST_TIME} AND ready <= $2) AS due,
    (SELECT ready FROM jobs WHERE kind = $1 AND ready IS NOT NULL AND ready > $2 ORDER BY ready LIMIT 1) AS later, taken.*
  FROM (SELECT 1) AS one LEFT JOIN taken ON true ORDER BY taken.was, taken.seq`;

/** Jobs whose delay is over go to the end of the line. They would wait for it to be empty otherwise. */
const JOIN = `
  UPDATE jobs SET run_at = 0, ready = ${NEXT_PLACE}
  FROM (SELECT seq FROM jobs WHERE kind = $1 AND ready IS NOT NULL AND ready >= ${FIRST_TIME} AND ready <= $2
    ORDER BY ready, seq LIMIT ${JOIN_AT_ONCE} FOR NO KEY UPDATE SKIP LOCKED) AS due
  WHERE jobs.seq = due.seq`;

/** SQL: the database's time. */
const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/**
 * Notes the database's time. If it is before what a gateway noted earlier, the database's clock was set back: the ends of delays
 * move with it, so that they last as long as they were to, and no holder was heard of in the future. Returns the step.
 */
const FOLLOW_CLOCK = `
  WITH mark AS MATERIALIZED (SELECT seq, ${NOW} AS at FROM marks WHERE name = 'clock' FOR UPDATE),
  step AS MATERIALIZED (SELECT at, seq - at AS ms FROM mark WHERE seq - at >= ${STEP_MS}),
  noted AS (INSERT INTO marks (name, seq) VALUES ('clock', ${NOW}) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq),
  moved AS (UPDATE jobs SET run_at = run_at - step.ms, ready = CASE WHEN ready >= ${FIRST_TIME} THEN ready - step.ms ELSE ready END
    FROM step WHERE run_at > step.at AND run_at < ${PARKED_FROM}),
  heard AS (UPDATE holders SET seen = now() FROM step WHERE seen > now())
  SELECT ms FROM step`;

interface TakenRow {
  alive: boolean;
  due: boolean;
  later: Ms | null;
  id: string | null;
  name: string;
  data: string;
  attempts: number;
  starts: number;
  enqueued: Ms;
}

/** The jobs that were taken, the kinds that have none left, and the time of the next one. */
export interface Taken {
  jobs: Job[];
  /** False where the holder is not known any more: nothing was taken. */
  alive: boolean;
  later: Ms | undefined;
}

/** The queue's table. Times are the database's, in milliseconds since the epoch. */
export class Jobs {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Takes up to `limit` jobs that may start at `now` and gives each start its lease. */
  async take(kind: JobKind, limit: number, now: Ms, holder: number, attempt = 1): Promise<Taken> {
    let rows: TakenRow[];
    const until = getReadyUntil(now);
    try {
      rows = await this.#db.query<TakenRow>(TAKE, [kind, until, limit, holder]);
    } catch (error) {
      // Another gateway has just begun a job of one of these keys, which this statement could not see yet.
      if ((isConflict(error) || isClash(error)) && attempt < ATTEMPTS)
        return this.take(kind, limit, now, holder, attempt + 1);
      throw error;
    }
    const jobs = rows.flatMap((row): Job[] =>
      row.id === null
        ? []
        : [
            {
              id: row.id,
              kind,
              key: row.name,
              data: JSON.parse(row.data) as unknown,
              attempts: row.attempts,
              enqueuedAt: row.enqueued,
              lease: row.starts,
            },
          ],
    );
    if (rows[0]?.due && jobs.length === limit) await this.#db.query(JOIN, [kind, until]);
    return { jobs, alive: rows[0]?.alive ?? false, later: rows[0]?.later ?? undefined };
  }

  /**
   * Jobs whose holder has left may start again; with `steady` (see `Membership`), also those whose holder is not heard of
   * any more: what these have reserved of limits is gone from then on. With `own`, those of that holder too. Returns their kinds.
   */
  async free(steady: boolean, own?: number): Promise<JobKind[]> {
    // The start that was cut off stays counted, and its lease is worth nothing any more.
    const mine = own === undefined ? "" : "holder = $2 OR ";
    const rows = await this.#db.query<{ kind: JobKind }>(
      buildFree(mine, NEXT_PLACE),
      own === undefined ? [steady] : [steady, own],
    );
    if (steady)
      await this.#db.query(
        `DELETE FROM holders WHERE seen < now() - interval '1 hour' AND ${STEADY}`,
      );
    return rows.map((row) => row.kind);
  }

  /** Follows the database's clock. Returns how far it was set back since any gateway noted it; 0 if it was not. */
  async followClock(): Promise<Ms> {
    const [row] = await this.#db.query<{ ms: Ms }>(FOLLOW_CLOCK);
    return row?.ms ?? 0;
  }

  /** Reads the jobs that the database holds for a holder. */
  heldBy(holder: number): Promise<HeldJob[]> {
    return this.#db.query<HeldJob>("SELECT kind, id, starts AS lease FROM jobs WHERE holder = $1", [
      holder,
    ]);
  }

  /** Lets go of jobs as they were held, for others to start. */
  async letGo(jobs: readonly HeldJob[]): Promise<void> {
    await this.#db.query(
      `UPDATE jobs SET holder = NULL, run_at = 0, ready = ${NEXT_PLACE} FROM unnest($1::text[], $2::text[], $3::int[]) AS given (kind, id, lease)
        WHERE jobs.kind = given.kind AND jobs.id = given.id AND jobs.starts = given.lease AND jobs.holder IS NOT NULL`,
      [jobs.map((job) => job.kind), jobs.map((job) => job.id), jobs.map((job) => job.lease)],
    );
  }

  /** The kinds of which a job may start at `now`. */
  async readyKinds(now: Ms): Promise<JobKind[]> {
    const rows = await this.#db.query<{ kind: JobKind }>(
      `SELECT kind FROM (VALUES ('turn'), ('delivery'), ('command')) AS kinds (kind)
        WHERE (SELECT ready FROM jobs WHERE jobs.kind = kinds.kind AND ready IS NOT NULL ORDER BY ready LIMIT 1) <= $1`,
      [getReadyUntil(now)],
    );
    return rows.map((row) => row.kind);
  }

  /** Counts the jobs without a holder, with the time since which the oldest of them waits. */
  async waiting(kind: JobKind): Promise<{ count: number; oldest: Ms | null }> {
    const [row] = await this.#db.query<{ count: number; oldest: Ms | null }>(
      `SELECT (SELECT coalesce(sum(n), 0) FROM (SELECT n FROM counts WHERE name = $2 UNION ALL SELECT n FROM count_deltas WHERE name = $2) AS all_of_it)::bigint
          - (SELECT count(*) FROM jobs WHERE holder IS NOT NULL AND kind = $1) AS count,
        (SELECT enqueued FROM jobs WHERE kind = $1 AND holder IS NULL ORDER BY seq LIMIT 1) AS oldest`,
      [kind, `jobs.${kind}`],
    );
    return row ?? { count: 0, oldest: null };
  }
}
