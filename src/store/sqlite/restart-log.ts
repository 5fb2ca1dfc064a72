import { DatabaseSync } from "node:sqlite";

interface CheckpointRow {
  busy: number;
  log: number;
  checkpointed: number;
}

/** How far a checkpoint came, in frames of the log; 0 and 0 if the log is empty. */
export interface Checkpointed {
  frames: number;
  /** Everything is in the database, and no reader or writer was in the way. */
  complete: boolean;
}

/** Copies what the log holds into the database, as far as it can without waiting for others. */
export function copyLog(db: DatabaseSync, mode: "PASSIVE" | "RESTART" = "PASSIVE"): Checkpointed {
  const { busy, log, checkpointed } = db
    .prepare(`PRAGMA wal_checkpoint(${mode})`)
    .get() as unknown as CheckpointRow;
  return { frames: log, complete: busy === 0 && checkpointed === log };
}

/** The number of a schema's user is kept on the first page, and nothing else uses it. */
const MAX_NUMBER = 2 ** 31 - 1;

/**
 * Copies all of the log into the database, then writes to the log from its start. The first writer after a complete
 * checkpoint has to sync the log's header before another frame may be overwritten (https://sqlite.org/src/info/ff5be73dee):
 * it is this connection, which must have `synchronous=FULL`. All that it sees is on disk when this returns. `complete` is
 * false if the log goes on because a reader needs it.
 */
export function restartLog(db: DatabaseSync): Checkpointed {
  const done = copyLog(db, "RESTART");
  const { user_version: number } = db.prepare("PRAGMA user_version").get() as {
    user_version: number;
  };
  db.exec(`PRAGMA user_version = ${(number + 1) % MAX_NUMBER}`);
  return done;
}

/** A reader of the database: while it reads, no writer can start the log again from its beginning, however much of it is copied. */
export interface Hold {
  take(): void;
  release(): void;
  close(): void;
}

/** Opens a connection that can hold the log as it is. */
export function openHold(file: string): Hold {
  const reader = new DatabaseSync(file, { readOnly: true });
  const release = (): void => {
    if (reader.isTransaction) reader.exec("ROLLBACK");
  };
  return {
    take() {
      reader.exec("BEGIN");
      // A transaction reads from its first statement on.
      reader.prepare("PRAGMA user_version").get();
    },
    release,
    close() {
      release();
      reader.close();
    },
  };
}
