import type { Job, Ms, Queue } from "../types.ts";
import type { Holder } from "./holder.ts";
import type { HeldJob, Jobs } from "./jobs.ts";
import type { Signals } from "./signals.ts";

interface Parts {
  jobs: Jobs;
  holder: Holder;
  signals: Signals;
  given: Given;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
}

const nameOf = ({ kind, id, lease }: Pick<HeldJob, "kind" | "id" | "lease">): string => `${kind} ${id} ${lease}`;

/**
 * The jobs that this handle has given out. What the database holds for it besides was taken by a statement whose answer
 * got lost: nobody works on it, and it would wait for as long as this process lives.
 */
export class Given {
  #given = new Set<string>();
  #fetching = 0;
  #begun = 0;

  async during(take: () => Promise<Job[]>): Promise<Job[]> {
    this.#begun++;
    this.#fetching++;
    try {
      const taken = await take();
      for (const { kind, id, lease = 0 } of taken) this.#given.add(nameOf({ kind, id, lease }));
      return taken;
    } finally {
      this.#fetching--;
    }
  }

  /** Those of the held jobs that nobody was given. `look` is only believed where nothing was taken meanwhile. */
  async strays(look: () => Promise<readonly HeldJob[]>): Promise<readonly HeldJob[]> {
    const begun = this.#begun;
    if (this.#fetching > 0) return [];
    const held = await look();
    if (this.#begun !== begun) return [];
    const names = new Set(held.map(nameOf));
    this.#given = new Set([...this.#given].filter((name) => names.has(name)));
    return held.filter((job) => !this.#given.has(nameOf(job)));
  }
}

/** The queue over the store's own schema, so that work and jobs share a commit. */
export function createPostgresQueue({ jobs, holder, signals, given, now, dbTime }: Parts): Queue {
  return {
    async fetch(kind, limit) {
      holder.start();
      const at = dbTime(now());
      let later: Ms | undefined;
      const fetched = await given.during(async () => {
        let taken = await jobs.take(kind, limit, at, await holder.id());
        if (!taken.alive) {
          holder.forget();
          taken = await jobs.take(kind, limit, at, await holder.id());
        }
        later = taken.later;
        return taken.jobs;
      });
      // The database's time as ours.
      if (later !== undefined) signals.later(kind, later - (at - now()));
      return fetched;
    },
    onReady: signals.onReady,
    async waiting(kind) {
      const { count, oldest } = await jobs.waiting(kind);
      return { count, oldestMs: oldest === null ? 0 : Math.max(0, now() - oldest) };
    },
    async recover() {
      holder.start();
      const freed = await jobs.free(dbTime(now()), await holder.id());
      signals.announce(new Set(freed));
      return freed.length;
    },
  };
}
