import type { HeldJob, Job, Ms, Queue, Sql } from "#store-kit";
import { findEarlierPostgresJob, findPostgresJob } from "./job-positions.ts";
import type { Membership } from "./membership.ts";
import type { Jobs } from "./jobs.ts";
import type { Signals } from "./signals.ts";

interface Parts {
  sql: Sql;
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
  #jobs = new Map<string, HeldJob>();
  /** Names of jobs that were not held at the last look: the worker of one may have just ended it. */
  #missing = new Set<string>();
  readonly #listeners = new Set<(job: HeldJob) => void>();
  #fetching = 0;
  #begun = 0;

  async during(take: () => Promise<Job[]>): Promise<Job[]> {
    this.#begun++;
    this.#fetching++;
    try {
      const taken = await take();
      for (const job of taken) this.#jobs.set(nameOf(job), job);
      return taken;
    } finally {
      this.#fetching--;
    }
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
    for (const [name, job] of this.#jobs) {
      if (names.has(name)) continue;
      if (!this.#missing.has(name)) {
        missing.add(name);
        continue;
      }
      this.#jobs.delete(name);
      for (const listener of this.#listeners) listener(job);
    }
    this.#missing = missing;
    return held.filter((job) => !this.#jobs.has(nameOf(job)));
  }
}

/** The queue over the store's own schema, so that work and jobs share a commit. */
export function createPostgresQueue({ sql, jobs, membership, signals, handedOut, now, dbTime }: Parts): Queue {
  /** A job as it was read, with the database's time as ours. */
  const toOwnTime = <T extends { runAt: Ms }>(found: T | undefined): T | undefined =>
    found && { ...found, runAt: found.runAt === 0 ? 0 : found.runAt - (dbTime(now()) - now()) };
  return {
    async fetch(kind, limit) {
      membership.start();
      const at = dbTime(now());
      let later: Ms | undefined;
      const fetched = await handedOut.during(async () => {
        let taken = await jobs.take(kind, limit, at, await membership.id());
        if (!taken.alive) {
          membership.forget();
          taken = await jobs.take(kind, limit, at, await membership.id());
        }
        later = taken.later;
        return taken.jobs;
      });
      // The database's time as ours.
      if (later !== undefined) signals.later(kind, later - (at - now()));
      return fetched;
    },
    onReady: signals.onReady,
    onLost: (listener) => handedOut.onLost(listener),
    find: async (kind, id) => toOwnTime(await findPostgresJob(sql, kind, id)),
    findEarlier: async (job, keys) => toOwnTime(await findEarlierPostgresJob(sql, job, keys)),
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
