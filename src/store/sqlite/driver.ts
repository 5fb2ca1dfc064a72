import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import { createFailureLog } from "../errors.ts";
import { singleNode } from "../cluster.ts";
import type { StoreHandle } from "../types.ts";
import { createSqliteGroupCommit, Statements } from "./statements.ts";
import { MaterializeLoop, Materializer } from "./materialize-loop.ts";
import { SqliteJobs } from "./jobs.ts";
import { createSqliteQueue } from "./queue.ts";
import { createSqliteSignals } from "./signals.ts";
import { prepareDatabase } from "./schema.ts";
import { createSqliteStore } from "./store.ts";
import { createWrites } from "./writes.ts";

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
