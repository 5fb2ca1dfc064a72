import type { Snapshot } from "../intake/types.ts";
import type { Store } from "../store/types.ts";
import {
  examineChange,
  type CheckOptions,
  type ExaminedChange,
  type LandingDeps,
} from "./landing.ts";
import type { CandidateResult, ComparisonDeps } from "./landing-checks.ts";
import { RouseError } from "../core/errors.ts";
import { planChange, type MappingChange, type TextChange } from "./planned-change.ts";
import { readEvents, type Selection } from "./selection.ts";
import { evaluateText, type EvaluationDeps, type TextEvaluation } from "./text-evaluation.ts";
import { toLines, type WhatIfLine } from "./what-if-lines.ts";
import { whatIf } from "./what-if.ts";

/** Work on a change that hooks must not wait for. */
export type WhatIfJob =
  /** What the change would do with recorded events. */
  | { kind: "compare"; change: MappingChange; selection: Selection }
  /** What is shown before it is landed. */
  | { kind: "examine"; change: MappingChange; options: CheckOptions }
  /** What the text of one mapping makes of one recorded event. */
  | { kind: "evaluate"; change: TextChange; event?: string | undefined };

/** A line of a job's answer. */
export type JobLine =
  | WhatIfLine
  | ({ type: "examined" } & ExaminedChange)
  | ({ type: "evaluated" } & TextEvaluation);

export interface JobDeps extends Pick<ComparisonDeps, "withCandidate" | "now"> {
  places: LandingDeps["places"];
  /** The snapshot in use. */
  snapshot: Snapshot;
  store: Pick<Store, "list">;
  /** Aborts when the answer is not wanted any more. */
  signal: AbortSignal;
}

/** Builds the snapshot of a change that is only compared. */
function withProposal<T>(
  file: string,
  text: string | null,
  deps: JobDeps,
  use: (after: Snapshot) => Promise<T>,
): Promise<T> {
  return deps.withCandidate(new Map([[file, text]]), (found: CandidateResult) => {
    if (found.ok) return use(found.snapshot);
    throw new RouseError({
      code: "config_invalid",
      message: "the config has problems with this change",
      issues: found.issues,
    });
  });
}

/** A store whose reads end when the answer is not wanted any more. */
const abortable = ({ store, signal }: JobDeps): Pick<Store, "list"> => ({
  list(name, query) {
    signal.throwIfAborted();
    return store.list(name, query);
  },
});

/** Ends before the next event when the answer is not wanted any more. */
async function* whileWanted<T>(events: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  for await (const event of events) {
    signal.throwIfAborted();
    yield event;
  }
}

async function compare(
  { change: wanted, selection }: Extract<WhatIfJob, { kind: "compare" }>,
  deps: JobDeps,
  send: Send,
): Promise<void> {
  const { snapshot: before, places, now } = deps;
  const { change } = planChange(wanted, before, places());
  const store = abortable(deps);
  await withProposal(change.file, change.after, deps, async (after) => {
    await send({
      type: "progress",
      events: 0,
      skipped: 0,
      changed: 0,
      wouldRun: 0,
      wouldNotRun: 0,
    });
    const options = {
      period: { from: selection.since, to: now() },
      store,
      repeats: selection.events !== undefined,
    };
    const events = whileWanted(readEvents(store, selection), deps.signal);
    for await (const line of toLines(whatIf(before, after, events, options))) await send(line);
  });
}

async function examine(
  { change, options }: Extract<WhatIfJob, { kind: "examine" }>,
  deps: JobDeps,
  send: Send,
): Promise<void> {
  const store = abortable(deps);
  const { snapshot } = deps;
  const examined = await examineChange(change, options, {
    ...deps,
    snapshot: () => snapshot,
    withStore: (use) => use(store),
  });
  await send({ type: "examined", ...examined });
}

async function evaluate(
  { change, event: id }: Extract<WhatIfJob, { kind: "evaluate" }>,
  deps: JobDeps,
  send: Send,
): Promise<void> {
  const selected =
    id === undefined
      ? undefined
      : await readEvents(abortable(deps), { last: 1, events: [id] }).next();
  const withCandidate: EvaluationDeps["withCandidate"] = (file, text, use) =>
    deps.withCandidate(new Map([[file, text]]), use);
  await send({
    type: "evaluated",
    ...(await evaluateText(change, selected?.value ?? undefined, { ...deps, withCandidate })),
  });
}

type Send = (line: JobLine) => Promise<void>;

/**
 * Carries out a job. `send` takes its lines, and resolves when the next one is wanted.
 * @throws RouseError if the change cannot be made, or the config has problems with it; the reason of `signal` when it aborts.
 */
export function runJob(job: WhatIfJob, deps: JobDeps, send: Send): Promise<void> {
  if (job.kind === "evaluate") return evaluate(job, deps, send);
  return job.kind === "compare" ? compare(job, deps, send) : examine(job, deps, send);
}
