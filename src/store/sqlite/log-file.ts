import { closeSync, fdatasync, openSync, read } from "node:fs";
import { promisify } from "node:util";

const syncFile = (file: number): Promise<void> =>
  new Promise((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
const readFrom = promisify(read);

/** The format of a write-ahead log: https://www.sqlite.org/fileformat2.html#walformat */
const LOG_HEADER = 32;
const FRAME_HEADER = 24;
/** Offsets of the page size in the log's header, and of the two salts in it and in the header of a frame. */
const PAGE_SIZE_AT = 8;
const LOG_SALTS_AT = 16;
const FRAME_SALTS_AT = 8;
const SALTS = 8;

async function readBytes(
  file: number,
  length: number,
  position: number,
): Promise<Buffer | undefined> {
  const { bytesRead, buffer } = await readFrom(file, Buffer.alloc(length), 0, length, position);
  return bytesRead === length ? buffer : undefined;
}

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

  /** Whether the log has at least so many frames since it was restarted: only those have the salts of its header. */
  async reaches(frames: number): Promise<boolean> {
    const header = await readBytes(this.#log, LOG_HEADER, 0);
    if (!header) return false;
    const frame = LOG_HEADER + (frames - 1) * (FRAME_HEADER + header.readUInt32BE(PAGE_SIZE_AT));
    const salts = await readBytes(this.#log, SALTS, frame + FRAME_SALTS_AT);
    return salts?.equals(header.subarray(LOG_SALTS_AT, LOG_SALTS_AT + SALTS)) ?? false;
  }

  close(): void {
    closeSync(this.#log);
    closeSync(this.#database);
  }
}
