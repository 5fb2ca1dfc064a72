import { DatabaseSync } from "node:sqlite";

/** The progress of a checkpoint, in pages of the log; 0 if the log is empty. */
export interface Checkpointed {
  frames: number;
  /** All of them are in the database, and no reader or writer was in the way. */
  isComplete: boolean;
}

/**
 * Copies what the log holds into the database; with `NOOP` it only looks how much that is (https://sqlite.org/pragma.html#pragma_wal_checkpoint).
 * SQLite before 3.51 takes `NOOP` for `PASSIVE`.
 */
export function copyLog(
  db: DatabaseSync,
  mode: "NOOP" | "PASSIVE" | "RESTART" = "PASSIVE",
): Checkpointed {
  const { busy, log, checkpointed } = db.prepare(`PRAGMA wal_checkpoint(${mode})`).get() as {
    busy: number;
    log: number;
    checkpointed: number;
  };
  return { frames: log, isComplete: busy === 0 && checkpointed === log };
}

/** Commits something that changes nothing. An UPDATE to the same values would write no page. */
function commitMark(db: DatabaseSync): void {
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec("DELETE FROM marks WHERE name = 'log'; INSERT INTO marks VALUES ('log', 0); COMMIT");
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Copies all of the log into the database, then writes to the log from its begin. The first commit there waits for the disk: it
 * is this connection's, which must have `synchronous=FULL`. All that it sees is on disk when this returns. It is not complete if
 * a reader needs the log, which goes on then. The file keeps its size: a sync of a file that grows takes longer.
 */
export function restartLog(db: DatabaseSync): Checkpointed {
  const done = copyLog(db, "RESTART");
  commitMark(db);
  return done;
}

/** A reader of the database: while it reads, no writer can start the log again from its beginning, however much of it is copied. */
export interface LogHold {
  take(): void;
  release(): void;
  close(): void;
}

/** Opens a connection that can hold the log as it is. */
export function openHold(file: string): LogHold {
  const reader = new DatabaseSync(file, { readOnly: true });
  const release = (): void => {
    if (reader.isTransaction) reader.exec("ROLLBACK");
  };
  return {
    take() {
      reader.exec("BEGIN");
      // A transaction reads from its first statement on.
      reader.prepare("SELECT seq FROM marks LIMIT 1").get();
    },
    release,
    close() {
      release();
      reader.close();
    },
  };
}
