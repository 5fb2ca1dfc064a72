import type { Ms, Queue, StoreHandle } from "../types.ts";
import { type SqliteGroupCommit, createSqliteGroupCommit, Statements } from "./statements.ts";
import { MaterializeLoop, Materializer } from "./materialize-loop.ts";
import { SqliteJobs } from "./jobs.ts";
import { type SqliteSignals, createSqliteSignals } from "./signals.ts";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import { createFailureLog } from "../errors.ts";
import { singleNode } from "../cluster.ts";
import { prepareDatabase } from "./schema.ts";
import { createSqliteStore } from "./store.ts";
import { createSqliteUsage } from "./usage.ts";
import { createWrites } from "./writes.ts";

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

/** The number and name that SQLite gives a failure, which quote nothing. */
const describeFailure = (error: unknown): object => {
  const { errcode, errstr } = ((error as Error | undefined)?.cause ?? {}) as { errcode?: number; errstr?: string };
  return { errcode, reason: errstr };
};

/** The store and its queue on a database that is open, and belongs to this process alone. */
export function createSqlite(db: DatabaseSync, clock: Pick<Clock, "now">, log: Logger): StoreHandle {
  prepareDatabase(db, clock.now());
  const now = (): number => clock.now();
  const sql = new Statements(db);
  const jobs = new SqliteJobs(sql);
  const materializer = new Materializer(sql);
  const newWrites = () => createWrites({ sql, jobs, now });
  const group = createSqliteGroupCommit(sql, createFailureLog(log, describeFailure));
  const signals = createSqliteSignals({ jobs, now, log });
  const loop = new MaterializeLoop({ materializer, group, signals, newWrites, log });
  return {
    store: createSqliteStore({ sql, jobs, group, materializer, loop, signals, newWrites, now }),
    queue: createSqliteQueue({ jobs, group, loop, signals, now }),
    cluster: singleNode(now, log),
    usage: createSqliteUsage({ sql, jobs, group, loop, signals, now }),
  };
}

/** Opens the embedded store and its queue on a file. */
export function openSqlite(file: string, clock: Pick<Clock, "now">, log: Logger): StoreHandle {
  const db = new DatabaseSync(file);
  try {
    return createSqlite(db, clock, log);
  } catch (error) {
    db.close();
    throw error;
  }
}
