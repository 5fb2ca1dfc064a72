import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { alone } from "../peers.ts";
import type { StoreHandle } from "../types.ts";
import { createGroupCommit } from "./commit.ts";
import { createIntakeLoop } from "./intake-loop.ts";
import { Intake } from "./intake.ts";
import { Jobs } from "./jobs.ts";
import { createSqliteQueue } from "./queue.ts";
import { Reads } from "./reads.ts";
import { prepareDatabase } from "./schema.ts";
import { createSignals } from "./signals.ts";
import { Statements } from "./statements.ts";
import { createSqliteStore } from "./store.ts";
import { SqliteWrites } from "./writes.ts";

/** A disk that is full fails every commit: it is told once in a while. */
const TELL_EVERY_MS = 10_000;

/** Logs why a commit failed: the number and name that SQLite gives its conditions, which quote nothing. */
function failureLog(log: Logger): (error: unknown) => void {
  let last = -Infinity;
  return (error) => {
    if (performance.now() - last < TELL_EVERY_MS) return;
    last = performance.now();
    const { errcode, errstr } = ((error as Error | undefined)?.cause ?? {}) as { errcode?: number; errstr?: string };
    log.error({ err: safeError(error), errcode, reason: errstr }, "the store could not commit");
  };
}

/** The store and its queue on a database that is open, and belongs to this process alone. */
export function createSqlite(db: DatabaseSync, clock: Pick<Clock, "now">, log: Logger): StoreHandle {
  prepareDatabase(db, clock.now());
  const now = (): number => clock.now();
  const sql = new Statements(db);
  const jobs = new Jobs(sql);
  const intake = new Intake(sql);
  const newWrites = (): SqliteWrites => new SqliteWrites({ sql, jobs, now });
  const group = createGroupCommit(sql, failureLog(log));
  const signals = createSignals({ jobs, now, log });
  const loop = createIntakeLoop({ intake, group, signals, newWrites, log });
  return {
    store: createSqliteStore({ sql, jobs, reads: new Reads(sql), group, intake, loop, signals, newWrites, now }),
    queue: createSqliteQueue({ jobs, group, loop, signals, now }),
    peers: alone(now, log),
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
