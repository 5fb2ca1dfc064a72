import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { compiledCodeEnv } from "../../core/process-group.ts";
import type { Ms } from "../records.ts";
import type { CheckpointCall, CheckpointReply } from "./checkpoint-worker.ts";
import type { SqliteGroupCommit } from "./group-commit.ts";
import type { LogFile } from "./log-file.ts";

const WORKER = new URL(
  `./checkpoint-worker${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`,
  import.meta.url,
);
/** Bytes after which the log is copied into the database. */
const LIMIT = 32 * 2 ** 20;
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
  #limit = LIMIT;
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
    if ((await log.size()) < this.#limit) return;
    // Nearly all is copied; what is left for the time while nothing may be committed is little.
    if (!(await this.#call("copy"))) await log.syncDatabase();
    // Also if all is copied: until then the thread keeps the next commit from restarting the log, and from syncing its header here.
    const isComplete = await group.hold(() => this.#call("restart"));
    this.#limit = LIMIT + (isComplete ? 0 : await log.size());
  }

  /** Returns false if some of the log was not copied. */
  async #call(call: Exclude<CheckpointCall, "close">): Promise<boolean> {
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
      return reply.isComplete;
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
