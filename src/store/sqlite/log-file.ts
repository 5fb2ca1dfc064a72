import { closeSync, fdatasync, fstat, openSync } from "node:fs";
import { promisify } from "node:util";

const syncFile = (file: number): Promise<void> =>
  new Promise((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
const readStats = promisify(fstat);

/**
 * A database's files, opened beside SQLite to be synced off the event loop, by libuv's threads. Closing a database file
 * drops the locks that the process has on it, so it must be closed after the database.
 */
export class LogFile {
  readonly #log: number;
  readonly #database: number;

  constructor(file: string) {
    this.#log = openSync(`${file}-wal`, "r+");
    this.#database = openSync(file, "r+");
  }

  /** Resolves when all that was written to the log before the call is on disk. */
  sync(): Promise<void> {
    return syncFile(this.#log);
  }

  /** Resolves when all that a checkpoint copied before the call is on disk. */
  syncDatabase(): Promise<void> {
    return syncFile(this.#database);
  }

  /** The bytes of the file, which is never shortened. */
  async size(): Promise<number> {
    return (await readStats(this.#log)).size;
  }

  close(): void {
    closeSync(this.#log);
    closeSync(this.#database);
  }
}
