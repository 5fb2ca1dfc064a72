import { fork, type ChildProcess } from "node:child_process";
import { EventEmitter, on } from "node:events";
import { fileURLToPath } from "node:url";
import { RouseError, type Failure } from "../core/errors.ts";
import { compiledCodeEnv, killGroup, lowerGroup } from "../core/process-group.ts";
import type { CheckOptions, ExaminedChange } from "../operate/edits/landing.ts";
import type { MappingChange } from "../operate/edits/planned-change.ts";
import type { JobLine, WhatIfJob } from "../operate/what-if/jobs.ts";
import type { AnswerLine, WhatIf } from "../operate/workbench.ts";
import type { Resources } from "./resources.ts";

/** Comparisons at the same time. */
const MAX_COMPARISONS = 2;
const RETRY_SECONDS = 2;
/** The process is kept so long without work: the next key that is typed must not wait for a start. */
const IDLE_MS = 120_000;
/** The most time for a job, and for the process to end one; then the process is ended. */
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

type ErrorLine = Extract<AnswerLine, { type: "error" }>;
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

/** The place of a gateway's config, and which config it uses. */
export interface ConfigInUse {
  cwd: string;
  configFile?: string | undefined;
  /** The config itself, if it came as an object. */
  config?: object | undefined;
  stateDir: string;
  /** True if the gateway has a terminal, and with it the channel of that. */
  hasTerminal: boolean;
  /** The hash of the snapshot in use. */
  hash: string;
}

/** The context of a job: a config, and the time in milliseconds since the epoch. */
interface JobContext {
  inUse: ConfigInUse;
  now: number;
}

/** A message to the process: a job, or that a job is not wanted any more. */
export type WhatIfCall = { id: number } & (({ job: WhatIfJob } & JobContext) | { stop: true });

/** A message of the process. The end of a job has the memory that the process holds, in bytes. */
export type WhatIfReply = { id: number } & ({ line: JobLine } | { memory: number });

interface Running {
  kind: WhatIfJob["kind"];
  /** Set once its lines are no longer read: ends the process if the job takes too long to end. */
  stopping?: NodeJS.Timeout;
}

/** A process that carries out jobs. What a mapping does there cannot hold up or end the gateway. */
class WhatIfProcess {
  readonly #child: ChildProcess;
  readonly #draining: AbortSignal;
  readonly #exited = Promise.withResolvers<void>();
  /** Emits the lines of each job by its id, nothing at its end, and `exit` when the process has ended. */
  readonly #replies = new EventEmitter().setMaxListeners(0);
  readonly #jobs = new Map<number, Running>();
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;
  /** Set once it takes no further job. */
  isGone = false;

  /** @param draining aborts when the gateway stops. */
  constructor(env: Record<string, string | undefined>, draining: AbortSignal) {
    this.#draining = draining;
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
    if (child.pid !== undefined) lowerGroup(child.pid);
    child.on("message", (reply: WhatIfReply) => this.#onReply(reply));
    child.once("exit", () => this.#onExit());
    child.on("error", () => (child.pid === undefined ? this.#onExit() : void this.end()));
  }

  /** The comparisons whose lines are read. */
  countComparisons(): number {
    const all = [...this.#jobs.values()];
    return all.filter(({ kind, stopping }) => kind === "compare" && !stopping).length;
  }

  /** Carries out a job, and yields its lines. It ends when `signal` aborts or the reader returns, too. */
  async *carryOut(job: WhatIfJob, context: JobContext, signal: AbortSignal | undefined): Lines {
    clearTimeout(this.#idle);
    const id = ++this.#lastId;
    const limits = [this.#draining, AbortSignal.timeout(MAX_JOB_MS)];
    const stop = AbortSignal.any(signal ? [signal, ...limits] : limits);
    stop.addEventListener("abort", () => this.#stop(id));
    try {
      const lines = on(this.#replies, `${id}`, { signal: stop, close: ["exit"] });
      this.#jobs.set(id, { kind: job.kind });
      this.#send({ id, job, ...context });
      for await (const [line] of lines as AsyncIterable<[] | [JobLine]>) {
        if (!line) return;
        yield line;
      }
      yield ENDED;
    } catch (error) {
      if (!stop.aborted) throw error;
      if (!signal?.aborted) yield this.#draining.aborted ? STOPPING : TOO_LONG;
    } finally {
      this.#stop(id);
    }
  }

  /** Ends the process and all that it has started. */
  end(): Promise<void> {
    this.isGone = true;
    this.#kill();
    return this.#exited.promise;
  }

  #send(call: WhatIfCall): void {
    if (this.#child.connected) this.#child.send(call, (error) => void (error && this.end()));
  }

  /** Lets the process end a job whose lines are no longer read. */
  #stop(id: number): void {
    const running = this.#jobs.get(id);
    if (!running || running.stopping) return;
    running.stopping = setTimeout(() => void this.end(), STOP_MS);
    this.#send({ id, stop: true });
  }

  #onReply(reply: WhatIfReply): void {
    const { id } = reply;
    if ("line" in reply) return void this.#replies.emit(`${id}`, reply.line);
    clearTimeout(this.#jobs.get(id)?.stopping);
    this.#jobs.delete(id);
    this.#replies.emit(`${id}`);
    if (this.#jobs.size > 0) return;
    if (reply.memory > MAX_MEMORY) return void this.end();
    this.#idle = setTimeout(() => void this.end(), IDLE_MS);
    this.#idle.unref();
  }

  #onExit(): void {
    this.isGone = true;
    // Processes that its modules left running have no parent any more.
    this.#kill();
    for (const { stopping } of this.#jobs.values()) clearTimeout(stopping);
    this.#jobs.clear();
    clearTimeout(this.#idle);
    this.#replies.emit("exit");
    this.#exited.resolve();
  }

  #kill(): void {
    if (this.#child.pid !== undefined) killGroup(this.#child.pid);
  }
}

type Lines = AsyncGenerator<JobLine, void>;

/**
 * Reads the first line of a job.
 * @throws RouseError if it is an error, or if there is none since the caller has left.
 */
async function readFirst(lines: Lines): Promise<JobLine> {
  const line = ((await lines.next()).value as JobLine | undefined) ?? STOPPING;
  if (line.type === "error") throw new RouseError(line);
  return line;
}

/** The lines of a comparison with their first one. */
async function* withFirst(first: JobLine, rest: Lines): AsyncGenerator<AnswerLine> {
  yield first as AnswerLine;
  for await (const line of rest) yield line as AnswerLine;
}

export interface WhatIfService extends WhatIf {
  /** True if a process can have the config of this gateway. */
  readonly isAvailable: boolean;
  /** Says what a change would do before it is landed. Undefined if the files are not what the gateway uses. */
  examine(change: MappingChange, options: CheckOptions): Promise<ExaminedChange | undefined>;
}

/** Creates what compares mappings in one process beside the gateway. It ends with the gateway. */
export function createWhatIf(resources: Resources): WhatIfService {
  const { options, ended, opened, snapshot, clock, stateDir } = resources;
  const isAvailable = (options.plugins ?? []).length === 0;
  let beside: WhatIfProcess | undefined;
  const close = async (): Promise<void> => beside?.end();
  ended.signal.addEventListener("abort", () => void close());
  opened.defer(close);

  function start(job: WhatIfJob, signal?: AbortSignal): Lines {
    if (!isAvailable) throw new RouseError(UNAVAILABLE);
    if (ended.signal.aborted) throw new RouseError(STOPPING);
    if (!beside || beside.isGone) beside = new WhatIfProcess(options.env, ended.signal);
    const { cwd, configFile, config, print } = options;
    const { hash } = snapshot();
    const inUse = { cwd, configFile, config, stateDir, hasTerminal: print !== undefined, hash };
    return beside.carryOut(job, { inUse, now: clock.now() }, signal);
  }

  /** Carries out a job whose answer is one line. */
  async function ask(job: WhatIfJob): Promise<JobLine> {
    const lines = start(job);
    return readFirst(lines).finally(() => void lines.return());
  }

  return {
    isAvailable,
    async compare(wanted, signal) {
      if (beside && beside.countComparisons() >= MAX_COMPARISONS) throw new RouseError(BUSY);
      const lines = start({ kind: "compare", ...wanted }, signal);
      return withFirst(await readFirst(lines), lines);
    },
    async evaluate(change, event) {
      const line = await ask({ kind: "evaluate", change, event });
      const { type: _type, ...evaluation } = line as Extract<JobLine, { type: "evaluated" }>;
      return evaluation;
    },
    async examine(change, changeOptions) {
      try {
        const line = await ask({ kind: "examine", change, options: changeOptions });
        return line as Extract<JobLine, { type: "examined" }>;
      } catch (error) {
        if (error instanceof RouseError && error.code === "conflict") return undefined;
        throw error;
      }
    },
  };
}
