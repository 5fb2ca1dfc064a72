import { fork, type ChildProcess } from "node:child_process";
import { constants, setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import { RouseError, type Failure } from "../core/errors.ts";
import { compiledCodeEnv, killGroup, lowerGroup } from "../core/process-group.ts";
import type { CheckOptions, ExaminedChange } from "../operate/edits/landing.ts";
import type { MappingChange, TextChange } from "../operate/edits/planned-change.ts";
import type { Selection } from "../operate/what-if/selection.ts";
import type { TextEvaluation } from "../operate/edits/text-evaluation.ts";
import type { AnswerLine, WhatIf } from "../operate/workbench.ts";
import type { Resources } from "./resources.ts";

/** Comparisons at the same time. */
const MAX_COMPARISONS = 2;
const RETRY_SECONDS = 2;
/** The process is kept so long without work: the next key that is typed must not wait for a start. */
const IDLE_MS = 120_000;
/** How long a job may take, and how long the process may take to end one; then the process is ended. */
const MAX_JOB_MS = 600_000;
const STOP_MS = 5_000;
const HEAP_MB = 384;
/** A process that holds more memory after its last job, in bytes, is ended: the next job gets a new one. */
const MAX_MEMORY = 200e6;

const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
/** In a clone `#plugin` means a source file, in a child as in its parent. */
const SOURCE_CONDITION = extension === ".ts" ? ["--conditions=rouse-source"] : [];
/** Half of its time is the collection of garbage, which would otherwise take all processors together. */
const ONE_THREAD = ["--single-threaded-gc"];
const CHILD = fileURLToPath(new URL(`./what-if-child${extension}`, import.meta.url));

const toError = (code: Failure["code"], message: string): ErrorLine => ({
  type: "error",
  code,
  message,
});
const STOPPING = toError("draining", "the gateway is stopping");
const TOO_LONG = toError("internal", `the comparison took more than ${MAX_JOB_MS / 1000} s`);
const ENDED = toError(
  "internal",
  "the process that compared ended before it was done; it may have needed too much memory",
);
const BUSY: Failure = {
  code: "rate_limited",
  message: `${MAX_COMPARISONS} comparisons are under way, which is as many as there may be; try again when one of them has ended`,
  retryAfterSeconds: RETRY_SECONDS,
};
const UNAVAILABLE: Failure = {
  code: "what_if_unavailable",
  message:
    "plugins were passed to this gateway as values, and the process that compares cannot load them: name them in `plugins` of the config",
};

/** Work on a change that hooks must not wait for. */
export type WhatIfJob =
  /** What the change would do with recorded events. */
  | { kind: "compare"; change: MappingChange; selection: Selection }
  /** What is shown before it is landed. */
  | { kind: "examine"; change: MappingChange; options: CheckOptions }
  /** What the text of one mapping makes of one recorded event. */
  | { kind: "evaluate"; change: TextChange; event?: string | undefined };

type ErrorLine = Extract<AnswerLine, { type: "error" }>;

/** A line of a job's answer. `error` is the last one. */
export type JobLine =
  | AnswerLine
  | ({ type: "examined" } & ExaminedChange)
  | ({ type: "evaluated" } & TextEvaluation);

/** Where a gateway has its config from, and which one it uses. */
export interface ConfigInUse {
  cwd: string;
  configFile?: string | undefined;
  /** The config itself, if it came as an object. */
  config?: object | undefined;
  stateDir: string;
  /** Whether the gateway has a terminal, and with it the channel of that. */
  hasTerminal: boolean;
  /** The hash of the snapshot in use. */
  hash: string;
}

/** What a gateway sends to the process: a job with the time in milliseconds since the epoch, or that a job is not wanted any more. */
export type WhatIfCall = { id: number } & (
  | { job: WhatIfJob; inUse: ConfigInUse; now: number }
  | { stop: true }
);

/** What the process sends. The end of a job has the memory that the process holds, in bytes. */
export type WhatIfReply = { id: number } & ({ line: JobLine } | { memory: number });

/** A job that is under way. */
interface Job {
  lines: ReadableStreamDefaultReader<JobLine>;
  /** Resolves when no further line is added. */
  ended: Promise<void>;
}

interface Running {
  lines: ReadableStreamDefaultController<JobLine>;
  ended: PromiseWithResolvers<void>;
  /** Whether lines can be added. */
  isOpen: boolean;
  /** Ends the job, and later the process, if it takes too long. */
  timer: NodeJS.Timeout;
}

/** A process that carries out jobs. What a mapping does there cannot hold up or end the gateway. */
class WhatIfProcess {
  readonly #child: ChildProcess;
  readonly #exited = Promise.withResolvers<void>();
  readonly #jobs = new Map<number, Running>();
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;
  /** Set once it takes no further job. */
  isGone = false;

  constructor(env: Record<string, string | undefined>) {
    const child = (this.#child = fork(CHILD, [], {
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
    child.once("exit", () => this.#onExit());
    child.on("error", () => (child.pid === undefined ? this.#onExit() : void this.end()));
  }

  /** Starts a job. It ends when its lines are cancelled, too. */
  start(job: WhatIfJob, inUse: ConfigInUse, now: number): Job {
    clearTimeout(this.#idle);
    const id = ++this.#lastId;
    const ended = Promise.withResolvers<void>();
    const lines = new ReadableStream<JobLine>({
      start: (controller) => {
        const timer = setTimeout(() => this.#fail(id, TOO_LONG), MAX_JOB_MS);
        this.#jobs.set(id, { lines: controller, ended, isOpen: true, timer });
      },
      cancel: () => this.#stop(id),
    });
    this.#send({ id, job, inUse, now });
    return {
      lines: lines.getReader(),
      ended: ended.promise,
    };
  }

  /** Ends the process and all that it has started, and its jobs with `reason`. */
  end(reason = ENDED): Promise<void> {
    this.isGone = true;
    for (const id of this.#jobs.keys()) this.#fail(id, reason);
    this.#kill();
    return this.#exited.promise;
  }

  #send(call: WhatIfCall): void {
    if (this.#child.connected) this.#child.send(call, (error) => void (error && this.end()));
  }

  #onReply(reply: WhatIfReply): void {
    const running = this.#jobs.get(reply.id);
    if (!running) return;
    if ("line" in reply) {
      if (!running.isOpen) return;
      running.lines.enqueue(reply.line);
      return;
    }
    this.#forget(reply.id);
    if (this.#jobs.size > 0) return;
    if (reply.memory > MAX_MEMORY) return void this.end();
    this.#idle = setTimeout(() => void this.end(), IDLE_MS);
    this.#idle.unref();
  }

  /** Ends a job with a last line. */
  #fail(id: number, reason: ErrorLine): void {
    const running = this.#jobs.get(id);
    if (!running?.isOpen) return;
    running.lines.enqueue(reason);
    running.lines.close();
    this.#stop(id);
  }

  /** Ends a job whose lines have ended. */
  #stop(id: number): void {
    const running = this.#jobs.get(id);
    if (!running) return;
    running.isOpen = false;
    running.ended.resolve();
    clearTimeout(running.timer);
    running.timer = setTimeout(() => void this.end(), STOP_MS);
    this.#send({ id, stop: true });
  }

  #forget(id: number): void {
    const running = this.#jobs.get(id);
    this.#jobs.delete(id);
    if (!running) return;
    clearTimeout(running.timer);
    running.ended.resolve();
    if (running.isOpen) running.lines.close();
  }

  #onExit(): void {
    this.isGone = true;
    // What its modules left running has no parent any more.
    this.#kill();
    for (const id of this.#jobs.keys()) {
      this.#fail(id, ENDED);
      this.#forget(id);
    }
    clearTimeout(this.#idle);
    this.#exited.resolve();
  }

  #kill(): void {
    if (this.#child.pid !== undefined) killGroup(this.#child.pid);
  }
}

/** @throws RouseError if the line is an error. Without a line, the gateway stops. */
function check(line: JobLine | undefined): JobLine {
  const { type: _type, ...failure } = line?.type === "error" ? line : STOPPING;
  if (!line || line.type === "error") throw new RouseError(failure);
  return line;
}

/** The lines of a comparison with their first one. */
function toAnswer(first: JobLine, { lines }: Job): AsyncIterable<AnswerLine> {
  let next: JobLine | undefined = first;
  const read = async (): Promise<IteratorResult<JobLine, undefined>> => {
    const value = next;
    next = undefined;
    if (value) return { done: false, value };
    const found = await lines.read();
    return found.done ? { done: true, value: undefined } : found;
  };
  return {
    [Symbol.asyncIterator]: () => ({
      next: read as () => Promise<IteratorResult<AnswerLine, undefined>>,
      async return() {
        await lines.cancel();
        return { done: true, value: undefined };
      },
    }),
  };
}

export interface WhatIfService extends WhatIf {
  /** Whether a process can have the config of this gateway. */
  readonly isAvailable: boolean;
  /** Says what a change would do before it is landed. Undefined if the files are not what the gateway uses. */
  examine(change: MappingChange, options: CheckOptions): Promise<ExaminedChange | undefined>;
}

/** Creates what compares mappings in one process beside the gateway. It ends with the gateway. */
export function createWhatIf(resources: Resources): WhatIfService {
  const { options, ended, opened, snapshot, clock, stateDir } = resources;
  const isAvailable = (options.plugins ?? []).length === 0;
  let beside: WhatIfProcess | undefined;
  /** Comparisons that are under way. */
  const comparisons = new Set<Job>();
  const close = async (): Promise<void> => beside?.end(STOPPING);
  ended.signal.addEventListener("abort", () => void close());
  opened.defer(close);

  function start(job: WhatIfJob): Job {
    if (!isAvailable) throw new RouseError(UNAVAILABLE);
    if (ended.signal.aborted) check(STOPPING);
    if (!beside || beside.isGone) beside = new WhatIfProcess(options.env);
    const { cwd, configFile, config, print } = options;
    const { hash } = snapshot();
    const inUse = { cwd, configFile, config, stateDir, hasTerminal: print !== undefined, hash };
    return beside.start(job, inUse, clock.now());
  }

  return {
    isAvailable,
    async compare(wanted, signal) {
      if (comparisons.size >= MAX_COMPARISONS) throw new RouseError(BUSY);
      const job = start({ kind: "compare", ...wanted });
      comparisons.add(job);
      void job.ended.then(() => comparisons.delete(job));
      const leave = (): void => void job.lines.cancel();
      signal?.addEventListener("abort", leave);
      if (signal?.aborted) leave();
      return toAnswer(check((await job.lines.read()).value), job);
    },
    async evaluate(change, event) {
      const line = check((await start({ kind: "evaluate", change, event }).lines.read()).value);
      const { type: _type, ...evaluation } = line as Extract<JobLine, { type: "evaluated" }>;
      return evaluation;
    },
    async examine(change, changeOptions) {
      const job = start({ kind: "examine", change, options: changeOptions });
      const { value } = await job.lines.read();
      if (value?.type === "error" && value.code === "conflict") return undefined;
      return check(value) as Extract<JobLine, { type: "examined" }>;
    },
  };
}
