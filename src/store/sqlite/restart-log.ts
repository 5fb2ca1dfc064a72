import { DatabaseSync } from "node:sqlite";

/** Copies what the log holds into the database. Returns whether all of it was copied, and no reader or writer was in the way. */
export function copyLog(db: DatabaseSync, mode: "PASSIVE" | "TRUNCATE" = "PASSIVE"): boolean {
  const { busy, log, checkpointed } = db.prepare(`PRAGMA wal_checkpoint(${mode})`).get() as {
    busy: number;
    log: number;
    checkpointed: number;
  };
  return busy === 0 && checkpointed === log;
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
 * Copies all of the log into the database and empties it, then commits to it. The first commit to an empty log waits for the
 * disk: it is this connection's, which must have `synchronous=FULL`. All that it sees is on disk when this returns. Returns false
 * if a reader needs the log, which goes on then.
 */
export function restartLog(db: DatabaseSync): boolean {
  const isComplete = copyLog(db, "TRUNCATE");
  commitMark(db);
  return isComplete;
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
      reader.prepare("SELECT seq FROM marks LIMIT 1").get();
    },
    release,
    close() {
      release();
      reader.close();
    },
  };
}
