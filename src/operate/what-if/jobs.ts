import type { Snapshot } from "../../intake/types.ts";
import type { Reads } from "../../store/types.ts";
import { examineChange, type CheckOptions, type ExaminedChange } from "../edits/landing.ts";
import { requireSnapshot, type ComparisonDeps } from "../edits/landing-checks.ts";
import { planChange, type MappingChange, type TextChange } from "../edits/planned-change.ts";
import { evaluateText, type TextEvaluation } from "../edits/text-evaluation.ts";
import { toTexts } from "../edits/user-files.ts";
import type { AnswerLine } from "../workbench.ts";
import { readEvents, type Selection } from "./selection.ts";
import { whatIf } from "./what-if.ts";

/** Work on a change that hooks must not wait for. */
export type WhatIfJob =
  /** Compares what the change would do with recorded events. */
  | { kind: "compare"; change: MappingChange; selection: Selection }
  /** Checks the change before it is landed. */
  | { kind: "examine"; change: MappingChange; options: CheckOptions }
  /** Evaluates the text of one mapping against one recorded event. */
  | { kind: "evaluate"; change: TextChange; event?: string | undefined };

/** A line of a job's answer. `error` is the last one. */
export type JobLine =
  | AnswerLine
  | ({ type: "examined" } & ExaminedChange)
  | ({ type: "evaluated" } & TextEvaluation);

interface JobDeps extends Pick<ComparisonDeps, "withCandidate"> {
  snapshot: Snapshot;
  store: Reads;
  /** Milliseconds since the epoch. */
  now: number;
}

/** Carries out a job, and sends the lines of its answer. Starts nothing and stores nothing. */
export async function carryOut(
  job: WhatIfJob,
  deps: JobDeps,
  send: (line: JobLine) => void,
): Promise<void> {
  const { snapshot, store, now, withCandidate } = deps;
  if (job.kind === "examine") {
    const examined = await examineChange(job.change, job.options, {
      withCandidate,
      snapshot: () => snapshot,
      withStore: (use) => use(store),
      now: () => now,
    });
    return send({ type: "examined", ...examined });
  }
  if (job.kind === "evaluate") {
    const events = job.event === undefined ? [] : [job.event];
    const { value: event } = await readEvents(store, { last: 1, events }).next();
    const evaluation = await evaluateText(job.change, event ?? undefined, deps);
    return send({ type: "evaluated", ...evaluation });
  }
  const { change } = planChange(job.change, snapshot);
  return withCandidate(toTexts(change), async (found) => {
    const after = requireSnapshot(found, "the config has problems with this change");
    const options = { store, selection: job.selection, now };
    for await (const line of whatIf(snapshot, after, options)) send(line);
  });
}
