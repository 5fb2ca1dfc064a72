import { fork, type ChildProcess } from "node:child_process";
import { constants, setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import { RouseError, type Failure } from "../core/errors.ts";
import { compiledCodeEnv, killGroup, lowerGroup } from "../core/process-group.ts";
import type { JobLine } from "../workbench/what-if-job.ts";
import type { WhatIfCall, WhatIfReply } from "./what-if-messages.ts";

/** A process without work is kept so long: the next key that is typed must not wait for a start. */
const IDLE_MS = 120_000;
/** How long a process may take to end a job that is not wanted any more; then the process is ended. */
const STOP_MS = 300;
/** How long a line may wait for its reader. */
const UNREAD_MS = 60_000;
const HEAP_MB = 384;
/** A process that holds more memory after a job, in bytes, is ended: the next job gets a new one. */
const MAX_MEMORY = 200e6;

const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
/** In a clone `#plugin` means a source file, in a child as in its parent. */
const SOURCE_CONDITION = extension === ".ts" ? ["--conditions=rouse-source"] : [];
/** Half of its time is the collection of garbage, which would otherwise take all processors together. */
const ONE_THREAD = ["--single-threaded-gc"];
const CHILD = fileURLToPath(new URL(`./what-if-child${extension}`, import.meta.url));

const ENDED: Failure = {
  code: "internal",
  message: "the process that compared ended before it was done; it may have needed too much memory",
};

const UNREAD: Failure = {
  code: "internal",
  message: "the lines of the comparison were not read in time",
};

/** The lines of a job, each asked for by the reader. `return` ends the job. */
export class JobLines implements AsyncIterableIterator<JobLine> {
  readonly #lines: JobLine[] = [];
  #waiting: PromiseWithResolvers<IteratorResult<JobLine, undefined>> | undefined;
  #end: { failure: Failure | undefined } | undefined;
  readonly #ended = Promise.withResolvers<void>();
  readonly #ask: () => void;
  readonly #stop: () => void;
  #unread: NodeJS.Timeout | undefined;

  constructor({ ask, stop }: { ask(): void; stop(): void }) {
    this.#ask = ask;
    this.#stop = stop;
  }

  /** Resolves when no further line comes. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<JobLine, undefined>> {
    const waiting = (this.#waiting = Promise.withResolvers());
    this.#hand();
    return waiting.promise;
  }

  return(): Promise<IteratorResult<JobLine, undefined>> {
    this.fail(undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Adds a line that came. */
  put(line: JobLine): void {
    if (this.#end) return;
    this.#lines.push(line);
    this.#unread = setTimeout(() => this.fail(UNREAD), UNREAD_MS);
    this.#unread.unref();
    this.#hand();
  }

  /** Ends the lines behind those that came, and the job if it is still under way. */
  fail(failure: Failure | undefined): void {
    if (this.#end) return;
    this.finish(failure);
    this.#stop();
  }

  /** Ends the lines of a job that has ended. */
  finish(failure: Failure | undefined): void {
    this.#end ??= { failure };
    clearTimeout(this.#unread);
    this.#ended.resolve();
    this.#hand();
  }

  #hand(): void {
    const [waiting, end] = [this.#waiting, this.#end];
    if (!waiting) return;
    const value = this.#lines.shift();
    if (value === undefined && !end) return;
    this.#waiting = undefined;
    clearTimeout(this.#unread);
    if (value !== undefined) {
      this.#ask();
      waiting.resolve({ done: false, value });
    } else if (end?.failure) waiting.reject(new RouseError(end.failure));
    else waiting.resolve({ done: true, value: undefined });
  }
}

type Start = Omit<Extract<WhatIfCall, { kind: "start" }>, "kind" | "id">;

/** A process that carries out jobs one after the other. */
export class WhatIfProcess {
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  #job: { id: number; lines: JobLines; ended: PromiseWithResolvers<void> } | undefined;
  #nextId = 1;
  #timer: NodeJS.Timeout | undefined;
  /** Set once it takes no further job. */
  isGone = false;

  constructor(env: Record<string, string | undefined>) {
    const child = (this.#process = fork(CHILD, [], {
      env: { ...env, ...compiledCodeEnv() },
      execArgv: [
        ...SOURCE_CONDITION,
        ...ONE_THREAD,
        `--max-old-space-size=${HEAP_MB}`,
        "--no-warnings",
      ],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // A process group of its own, which can be ended as a whole.
      detached: true,
    }));
    try {
      if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    } catch {
      // Not allowed here, or it has ended already: it lowers its priority by itself too.
    }
    if (child.pid !== undefined) lowerGroup(child.pid);
    child.on("message", (reply: WhatIfReply) => this.#onReply(reply));
    this.#exited = new Promise((resolve) => {
      const onEnd = (): void => {
        this.#onEnd();
        resolve();
      };
      child.once("exit", onEnd);
      child.on("error", () => void (child.pid === undefined ? onEnd() : this.end()));
    });
  }

  /** Whether a job is under way, also one that is being stopped. */
  get isBusy(): boolean {
    return this.#job !== undefined;
  }

  /** Resolves when no job is under way. */
  async whenFree(): Promise<void> {
    await this.#job?.ended.promise;
  }

  /** Starts a job. The process must not be busy. */
  start(call: Start): JobLines {
    clearTimeout(this.#timer);
    const id = this.#nextId++;
    const lines: JobLines = new JobLines({
      ask: () => this.#send({ kind: "next", id }),
      stop: () => this.#stop(id),
    });
    this.#job = { id, lines, ended: Promise.withResolvers() };
    this.#process.ref();
    this.#process.channel?.ref();
    this.#send({ kind: "start", id, ...call });
    return lines;
  }

  /** Ends the process and all that it has started. */
  end(): Promise<void> {
    this.isGone = true;
    clearTimeout(this.#timer);
    this.#process.ref();
    this.#kill();
    return this.#exited;
  }

  #send(call: WhatIfCall): void {
    if (this.#process.connected) this.#process.send(call, (error) => void (error && this.end()));
  }

  #stop(id: number): void {
    if (this.#job?.id !== id) return;
    this.#send({ kind: "stop", id });
    this.#timer = setTimeout(() => void this.end(), STOP_MS);
  }

  #onReply(reply: WhatIfReply): void {
    const job = this.#job;
    if (reply.id !== job?.id) return;
    if (reply.kind === "line") return job.lines.put(reply.line);
    this.#free(reply.failure);
    if (reply.memory > MAX_MEMORY) return void this.end();
    this.#timer = setTimeout(() => void this.end(), IDLE_MS);
    this.#timer.unref();
    this.#process.unref();
    this.#process.channel?.unref();
  }

  #free(failure: Failure | undefined): void {
    clearTimeout(this.#timer);
    const job = this.#job;
    this.#job = undefined;
    job?.lines.finish(failure);
    job?.ended.resolve();
  }

  #onEnd(): void {
    this.isGone = true;
    // What its modules left running has no parent any more.
    this.#kill();
    this.#free(ENDED);
  }

  #kill(): void {
    if (this.#process.pid !== undefined) killGroup(this.#process.pid);
  }
}
