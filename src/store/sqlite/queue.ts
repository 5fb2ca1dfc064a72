import type { Ms, Queue } from "../types.ts";
import type { SqliteGroupCommit } from "./statements.ts";
import type { MaterializeLoop } from "./materialize-loop.ts";
import type { SqliteJobs } from "./jobs.ts";
import type { SqliteSignals } from "./signals.ts";

interface Parts {
  jobs: SqliteJobs;
  group: SqliteGroupCommit;
  loop: MaterializeLoop;
  signals: SqliteSignals;
  now: () => Ms;
}

/** The queue over the store's own database, so that work and jobs share a commit. */
export function createSqliteQueue({ jobs, group, loop, signals, now }: Parts): Queue {
  return {
    async fetch(kind, limit) {
      // Jobs that are ready came in before all that is still to be taken up: only where they are too few, wait for more.
      if (jobs.readyCount(kind, now(), limit) < limit) await loop.catchUp();
      const taken = jobs.readyCount(kind, now(), 1) === 0 ? [] : await group.add(() => jobs.take(kind, limit, now()), { many: true });
      signals.watchTime(kind);
      return taken;
    },
    onReady: signals.onReady,
    async waiting(kind) {
      await loop.catchUp();
      const { count, oldest } = jobs.waiting(kind);
      return { count, oldestMs: oldest === null ? 0 : Math.max(0, now() - oldest) };
    },
    async recover() {
      await loop.catchUp();
      const released = await group.add(() => jobs.recover(now()), { many: true });
      signals.announce(new Set(released));
      return released.length;
    },
  };
}
