import type {
  HeldJob,
  Job,
  JobKind,
  Ms,
  Queue,
  Signals,
  Sql,
  EarlierJob,
  JobPosition,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import type { Membership } from "../cluster/membership.ts";
import type { Jobs, Taken } from "./jobs.ts";
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

interface Parts {
  db: Db;
  jobs: Jobs;
  membership: Membership;
  signals: Signals;
  handedOut: HandedOutJobs;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
}

const nameOf = ({ kind, id, lease = 0 }: HeldJob): string => `${kind} ${id} ${lease}`;

/**
 * The jobs that this gateway has handed to its workers. What the database holds for it besides was taken by a statement whose answer
 * got lost: nobody works on it, and it would wait for as long as this process lives.
 */
export class HandedOutJobs {
  /** With the number of lapses (see `Membership`) when the job was last known to be held. */
  #jobs = new Map<string, { job: HeldJob; lapses: number }>();
  /** Names of jobs that were not held at the last look: the worker of one may have just ended it. */
  #missing = new Set<string>();
  readonly #listeners = new Set<(job: HeldJob) => void>();
  #fetching = 0;
  #begun = 0;

  async during(take: () => Promise<{ jobs: Job[]; lapses: number }>): Promise<Job[]> {
    this.#begun++;
    this.#fetching++;
    try {
      const { jobs, lapses } = await take();
      for (const job of jobs) this.confirm(job, lapses);
      return jobs;
    } finally {
      this.#fetching--;
    }
  }

  isConfirmed(job: HeldJob, lapses: number): boolean {
    return this.#jobs.get(nameOf(job))?.lapses === lapses;
  }

  confirm(job: HeldJob, lapses: number): void {
    this.#jobs.set(nameOf(job), { job, lapses });
  }

  lose(job: HeldJob): void {
    this.#jobs.delete(nameOf(job));
    for (const listener of this.#listeners) listener(job);
  }

  /** Calls the listener with jobs that were handed out and are not held any more, those that have ended included. */
  onLost(listener: (job: HeldJob) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Those of the held jobs that nobody was given. `look` is only believed where nothing was taken meanwhile. */
  async strays(look: () => Promise<readonly HeldJob[]>): Promise<readonly HeldJob[]> {
    const begun = this.#begun;
    if (this.#fetching > 0) return [];
    const held = await look();
    if (this.#begun !== begun) return [];
    const names = new Set(held.map(nameOf));
    const missing = new Set<string>();
    for (const [name, { job }] of this.#jobs) {
      if (names.has(name)) continue;
      if (!this.#missing.has(name)) {
        missing.add(name);
        continue;
      }
      this.lose(job);
    }
    this.#missing = missing;
    return held.filter((job) => !this.#jobs.has(nameOf(job)));
  }
}

/** Makes `Queue.confirm`: without a round trip for as long as the holder is sure, and nothing has lapsed since the job was given out. */
function createConfirm({
  sql,
  membership,
  handedOut,
}: { sql: Sql } & Pick<Parts, "membership" | "handedOut">): NonNullable<Queue["confirm"]> {
  /** Asks the database whether it still holds a job for this gateway; undefined if that is not known. */
  const ask = async (job: HeldJob): Promise<boolean | undefined> => {
    try {
      const holder = await membership.id();
      const lapses = membership.lapses();
      const values = [job.kind, job.id, job.lease, holder];
      const rows = await sql.query(
        "SELECT 1 FROM jobs WHERE kind = $1 AND id = $2 AND starts = $3 AND holder = $4",
        values,
      );
      if (rows.length > 0) handedOut.confirm(job, lapses);
      return rows.length > 0;
    } catch {
      return undefined;
    }
  };
  return async (job, signal) => {
    while (!signal.aborted) {
      const isSure = membership.sure();
      if (isSure && handedOut.isConfirmed(job, membership.lapses())) return true;
      const isHeld = isSure ? await ask(job) : undefined;
      if (isHeld === false) {
        handedOut.lose(job);
        return false;
      }
      if (isHeld === undefined) await membership.nextBeat(signal);
    }
    return false;
  };
}

/** The queue over the store's own schema, so that work and jobs share a commit. */
export function createPostgresQueue({
  db,
  jobs,
  membership,
  signals,
  handedOut,
  now,
  dbTime,
}: Parts): Queue {
  /** A job as it was read, with the database's time as ours. */
  const toOwnTime = <T extends { runAt: Ms }>(found: T | undefined): T | undefined =>
    found && { ...found, runAt: found.runAt === 0 ? 0 : found.runAt - (dbTime(now()) - now()) };
  const take = async (
    kind: JobKind,
    limit: number,
    at: Ms,
  ): Promise<Taken & { lapses: number }> => {
    const holder = await membership.id();
    // Read before: whatever lapses while the statement is under way counts.
    const lapses = membership.lapses();
    return { ...(await jobs.take(kind, limit, at, holder)), lapses };
  };
  const findEarlier = readTogether<EarlierJob>(db.work, FIND_EARLIER, ["text", "text", "text"]);
  return {
    async fetch(kind, limit) {
      membership.start();
      const at = dbTime(now());
      let later: Ms | undefined;
      const fetched = await handedOut.during(async () => {
        let taken = await take(kind, limit, at);
        if (!taken.alive) {
          membership.forget();
          taken = await take(kind, limit, at);
        }
        later = taken.later;
        return taken;
      });
      // The database's time as ours.
      if (later !== undefined) signals.later(kind, later - (at - now()));
      return fetched;
    },
    onReady: signals.onReady,
    onLost: (listener) => handedOut.onLost(listener),
    confirm: createConfirm({ sql: db.heartbeats, membership, handedOut }),
    find: async (kind, id) => toOwnTime((await db.query<JobPosition>(FIND, [kind, id]))[0]),
    async findEarlier({ kind, id }, keys) {
      const digests = keys.map((key) => digest(key).toString("hex")).join(",");
      return toOwnTime((await findEarlier(kind, id, digests))[0]);
    },
    async waiting(kind) {
      const { count, oldest } = await jobs.waiting(kind);
      return { count, oldestMs: oldest === null ? 0 : Math.max(0, now() - oldest) };
    },
    async recover() {
      membership.start();
      const freed = await jobs.free(membership.steady(), await membership.id());
      signals.announce(new Set(freed));
      return freed.length;
    },
  };
}
