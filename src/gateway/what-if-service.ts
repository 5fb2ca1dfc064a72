import { RouseError, safeError, type Failure } from "../core/errors.ts";
import type { CheckOptions, ExaminedChange } from "../workbench/landing.ts";
import type { AnswerLine, WhatIf, WhatIfRequest } from "../workbench/types.ts";
import type { TextEvaluation } from "../workbench/text-evaluation.ts";
import type { JobLine, WhatIfJob } from "../workbench/what-if-job.ts";
import type { MappingChange, TextChange } from "../workbench/planned-change.ts";
import type { Resources } from "./resources.ts";
import { WhatIfProcess, type JobLines } from "./what-if-process.ts";

/** Comparisons at the same time. */
const MAX_COMPARISONS = 2;
/** One more than comparisons: a change that is about to be landed does not wait for them. */
const MAX_PROCESSES = MAX_COMPARISONS + 1;
const RETRY_SECONDS = 2;

const SUPERSEDED: Failure = {
  code: "superseded",
  message: "a newer comparison of the same client has taken the place of this one",
};
const STOPPING: Failure = { code: "draining", message: "the gateway is stopping" };
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

export interface WhatIfService extends WhatIf {
  /** Whether processes can have the config of this gateway. */
  readonly isAvailable: boolean;
  /** Says what a change would do before it is landed. Waits for a process. Undefined if the files are not what the gateway uses. */
  examine(change: MappingChange, options: CheckOptions): Promise<ExaminedChange | undefined>;
}

function toErrorLine(error: unknown): AnswerLine {
  if (!(error instanceof RouseError))
    return {
      type: "error",
      code: "internal",
      message: `the comparison failed (${safeError(error).name})`,
    };
  const { code, message, issues } = error;
  return { type: "error", code, message, ...(issues && { issues }) };
}

/** The lines of a comparison with their first one. What fails behind that is a line. */
async function* toAnswer(first: JobLine, lines: JobLines): AsyncGenerator<AnswerLine> {
  yield first as AnswerLine;
  try {
    for await (const line of lines) yield line as AnswerLine;
  } catch (error) {
    yield toErrorLine(error);
  }
}

/** The jobs of a gateway, and the processes that carry them out. */
class Jobs {
  readonly #resources: Resources;
  readonly #processes = new Set<WhatIfProcess>();
  /** Comparisons that are under way, with the name that their client gave. */
  readonly #comparisons = new Map<JobLines, { client: string | undefined; by: WhatIfProcess }>();

  #starting = 0;

  constructor(resources: Resources) {
    this.#resources = resources;
  }

  /** Starts a job in a process that has none: one that is there, or a new one. */
  async #start(job: WhatIfJob): Promise<{ lines: JobLines; by: WhatIfProcess }> {
    const { options, snapshot, clock, stateDir, ended } = this.#resources;
    const { cwd, configFile, config, print } = options;
    for (;;) {
      if (ended.signal.aborted) throw new RouseError(STOPPING);
      for (const one of this.#processes) if (one.isGone) this.#processes.delete(one);
      let by = [...this.#processes].find(({ isBusy }) => !isBusy);
      if (!by && this.#processes.size < MAX_PROCESSES)
        this.#processes.add((by = new WhatIfProcess(options.env)));
      const inUse = {
        cwd,
        configFile,
        config,
        stateDir,
        hasTerminal: print !== undefined,
        hash: snapshot().hash,
      };
      if (by) return { lines: by.start({ job, inUse, now: clock.now() }), by };
      await Promise.race([...this.#processes].map((one) => one.whenFree()));
    }
  }

  /** Ends the comparison of a client that asks again. Its process is free then. */
  async #supersede(client: string | undefined): Promise<void> {
    if (client === undefined) return;
    for (const [lines, { client: other, by }] of this.#comparisons) {
      if (other !== client) continue;
      lines.fail(SUPERSEDED);
      this.#comparisons.delete(lines);
      await by.whenFree();
    }
  }

  async compare(
    { client, ...job }: WhatIfRequest,
    signal?: AbortSignal,
  ): Promise<AsyncIterable<AnswerLine>> {
    await this.#supersede(client);
    if (this.#comparisons.size + this.#starting >= MAX_COMPARISONS) throw new RouseError(BUSY);
    this.#starting++;
    const { lines, by } = await this.#start({ kind: "compare", ...job }).finally(
      () => this.#starting--,
    );
    this.#comparisons.set(lines, { client, by });
    void lines.ended.then(() => this.#comparisons.delete(lines));
    signal?.addEventListener("abort", () => void lines.return());
    if (signal?.aborted) void lines.return();
    const { value: first } = await lines.next();
    if (!first) throw new RouseError(SUPERSEDED);
    const answer = toAnswer(first, lines);
    const end = async (): Promise<IteratorResult<AnswerLine, undefined>> => {
      await lines.return();
      return { done: true, value: undefined };
    };
    // Ending a generator waits for the line that it waits for: the job is ended instead.
    return { [Symbol.asyncIterator]: () => ({ next: () => answer.next(), return: end }) };
  }

  async examine(change: MappingChange, options: CheckOptions): Promise<ExaminedChange | undefined> {
    const { lines } = await this.#start({ kind: "examine", change, options });
    try {
      for await (const line of lines) if (line.type === "examined") return line;
    } catch (error) {
      if (error instanceof RouseError && error.code === "conflict") return undefined;
      throw error;
    }
    throw new RouseError(STOPPING);
  }

  async evaluate(change: TextChange, event: string | undefined): Promise<TextEvaluation> {
    const { lines } = await this.#start({ kind: "evaluate", change, event });
    for await (const line of lines) {
      if (line.type !== "evaluated") continue;
      const { type: _type, ...evaluation } = line;
      return evaluation;
    }
    throw new RouseError(STOPPING);
  }

  async close(): Promise<void> {
    for (const lines of this.#comparisons.keys()) lines.fail(STOPPING);
    await Promise.all([...this.#processes].map((one) => one.end()));
  }
}

/** Creates what compares mappings in processes of their own. They end with the gateway. */
export function createWhatIf(resources: Resources): WhatIfService {
  const { options, ended, opened } = resources;
  const jobs = new Jobs(resources);
  const isAvailable = (options.plugins ?? []).length === 0;
  ended.signal.addEventListener("abort", () => void jobs.close());
  opened.defer(() => jobs.close());
  return {
    isAvailable,
    async compare(request, signal) {
      if (!isAvailable) throw new RouseError(UNAVAILABLE);
      return jobs.compare(request, signal);
    },
    async evaluate(change, event) {
      if (!isAvailable) throw new RouseError(UNAVAILABLE);
      return jobs.evaluate(change, event);
    },
    examine: (change, options) => jobs.examine(change, options),
  };
}
