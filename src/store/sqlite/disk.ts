import { closeSync, fdatasync, fstat, openSync } from "node:fs";
import { promisify } from "node:util";
import { once } from "node:events";
import type { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { RouseError, safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { compiledCodeEnv } from "../../core/process-group.ts";
import type { Ms } from "../records.ts";
import { createFailureLog } from "../sql/errors.ts";
import type { CheckpointCall, CheckpointReply } from "./checkpoint-worker.ts";
import type { SqliteGroupCommit, Statements } from "./connection.ts";
import { restartLog, type Checkpointed } from "./restart-log.ts";
import { PAGE_BYTES, prepareDatabase } from "./schema.ts";

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

/** Brings the schema up to date. From here on this connection waits neither for the disk nor for a lock. */
export function openLog(db: DatabaseSync, now: Ms): LogFile {
  prepareDatabase(db, now);
  // The last writes of a process that died are visible, and may not be on disk.
  restartLog(db);
  db.exec("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA busy_timeout=0;");
  return new LogFile(db.location() ?? "");
}

/** Answers are sent within this time. */
const LAST_WORDS: Ms = 200;

/**
 * Ends the process after a sync that failed. The system forgets what it could not write, and the next sync succeeds
 * without it: only reading the files again shows what is there. The next start does so, and copies it to where a sync
 * of its own confirms it.
 */
export function endProcess(log: Logger, file: string, error: unknown): void {
  const { code = "error" } = error as { code?: string };
  const message = `the disk did not confirm what was written to ${file} (${code}), so the process ends; check the disk, then start again: what was acknowledged before is kept`;
  log.fatal({ err: safeError(error) }, message);
  setTimeout(() => {
    throw new RouseError({ code: "store_unavailable", message });
  }, LAST_WORDS);
}

/** The number and name that SQLite gives a failure, which quote nothing. */
const describeFailure = (error: unknown): object => {
  const { errcode, errstr } = ((error as Error | undefined)?.cause ?? {}) as {
    errcode?: number;
    errstr?: string;
  };
  return { errcode, reason: errstr };
};

/** Between looks whether a store that could not commit can do so again. */
const LOOK_MS = 1000;
/** The state of the database's disk. */
export interface Writable {
  /** False from a commit that failed, as on a disk that is full, until one has gone through again. */
  isWritable(): boolean;
  /** To be called when a commit has failed, which is logged. */
  failed: (error: unknown) => void;
  close(): void;
}

const WRITE_MARK =
  "INSERT INTO marks VALUES ('written', 0) ON CONFLICT (name) DO UPDATE SET seq = seq + 1";

/**
 * Remembers whether commits go through. After one that failed it makes commits of its own, since a gateway that is taken out of
 * service gets no hooks.
 */
export function createWritable(
  sql: Statements,
  group: () => SqliteGroupCommit,
  log: Logger,
): Writable {
  const logFailure = createFailureLog(log, describeFailure);
  let isWritable = true;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  const look = (): Promise<void> =>
    group()
      .add(() => sql.run(WRITE_MARK), { many: false })
      .then(
        () => void (isWritable = true),
        () => undefined,
      );
  return {
    isWritable: () => isWritable,
    failed(error) {
      logFailure(error);
      isWritable = false;
      clearTimeout(timer);
      if (!isClosed) timer = setTimeout(() => void look(), LOOK_MS).unref();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

const WORKER = new URL(
  `./checkpoint-worker${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`,
  import.meta.url,
);
/** Pages after which the log is copied into the database, and their bytes. */
const FRAMES = 4000;
const BYTES = FRAMES * PAGE_BYTES;
/** Commits between two looks at the log. */
const LOOK_EVERY = 8;
const RETRY: Ms = 1000;

interface Parts {
  file: string;
  log: LogFile;
  group: Pick<SqliteGroupCommit, "hold">;
  onFailure(error: unknown): void;
}

/** Keeps the log short: copies it into the database in a thread of its own, and restarts it there. */
export class Checkpoints {
  readonly #parts: Parts;
  #worker: Worker | undefined;
  #running: Promise<void> | undefined;
  #limit = FRAMES;
  #commits = 0;
  #notBefore = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** To be called after each commit. */
  committed(): void {
    if (++this.#commits % LOOK_EVERY !== 0 || this.#running || performance.now() < this.#notBefore)
      return;
    this.#running = this.#look()
      .catch((error: unknown) => {
        this.#notBefore = performance.now() + RETRY;
        this.#parts.onFailure(error);
      })
      .finally(() => (this.#running = undefined));
  }

  /** Ends the thread, so that the last connection to the database is the caller's. */
  async close(): Promise<void> {
    await this.#running;
    const worker = this.#worker;
    if (!worker) return;
    worker.ref();
    worker.postMessage("close" satisfies CheckpointCall, []);
    await once(worker, "exit");
  }

  async #look(): Promise<void> {
    const { log, group } = this.#parts;
    // A file that was never so long has no log that is: until then there is no thread.
    if ((await log.size()) < BYTES || (await this.#call("look")).frames < this.#limit) return;
    // Nearly all is copied; what is left for the time while nothing may be committed is little.
    if (!(await this.#call("copy")).isComplete) await log.syncDatabase();
    // Also if all is copied: until then the thread keeps the next commit from restarting the log, and from syncing its header here.
    const { frames, isComplete } = await group.hold(() => this.#call("restart"));
    this.#limit = FRAMES + (isComplete ? 0 : frames);
  }

  async #call(call: Exclude<CheckpointCall, "close">): Promise<Checkpointed> {
    const worker = (this.#worker ??= this.#open());
    const answered = new AbortController();
    const { signal } = answered;
    const died = once(worker, "exit", { signal }).then(() => {
      throw new Error("the thread of checkpoints ended");
    });
    worker.postMessage(call, []);
    try {
      const [reply] = (await Promise.race([once(worker, "message", { signal }), died])) as [
        CheckpointReply,
      ];
      if (!reply.ok)
        throw new Error("a checkpoint failed", {
          cause: { errcode: reply.errcode, errstr: reply.reason },
        });
      return reply.done;
    } finally {
      answered.abort();
    }
  }

  #open(): Worker {
    const worker = new Worker(WORKER, {
      workerData: this.#parts.file,
      execArgv: ["--no-warnings"],
      env: compiledCodeEnv(),
      stdin: false,
    });
    worker.on("error", this.#parts.onFailure);
    worker.once("exit", () => (this.#worker = undefined));
    worker.unref();
    return worker;
  }
}
