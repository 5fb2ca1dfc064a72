/** Runs seeds, and says of each that breaks an invariant how to replay it. */
import { findProblems } from "./invariants.ts";
import { createPlan } from "./plan.ts";
import { simulate, type Outcome } from "./simulate.ts";

export interface Failure {
  seed: number;
  problems: string[];
  outcome: Outcome;
  /** The command that runs the seed again, with its trace. */
  replay: string;
}

export interface SeedOptions {
  from?: number;
  count: number;
  /** The one fault that is drawn; all of them if absent. */
  fault?: string | undefined;
  /** Called before a seed runs, and after it. */
  onBegin?(seed: number, replay: string): void;
  onEnd?(outcome: Outcome): void;
  onFailure?(failure: Failure): void;
  /** Ends after the first failure. */
  first?: boolean;
}

const SHOWN = 6;
export async function runSeeds({
  from = 1,
  count,
  fault,
  onBegin,
  onEnd,
  onFailure,
  first,
}: SeedOptions): Promise<Failure[]> {
  const failures: Failure[] = [];
  for (let seed = from; seed < from + count && !(first && failures.length > 0); seed++) {
    const only = fault === undefined ? "" : ` --fault "${fault}"`;
    const replay = `node --conditions=rouse-source --disable-warning=ExperimentalWarning test/faults/run.ts${only} --seed ${seed}`;
    onBegin?.(seed, replay);
    const outcome = await simulate(createPlan(seed, fault));
    onEnd?.(outcome);
    const problems = findProblems(outcome);
    if (problems.length === 0) continue;
    const failure = { seed, problems, outcome, replay };
    failures.push(failure);
    onFailure?.(failure);
  }
  return failures;
}

export function renderFailure({ seed, problems, outcome, replay }: Failure): string {
  const faults = outcome.plan.faults
    .map((fault) => ("how" in fault ? `${fault.kind} (${fault.how})` : fault.kind))
    .join(", ");
  const more = problems.length > SHOWN ? [`and ${problems.length - SHOWN} more`] : [];
  return [
    `seed ${seed}, faults: ${faults}`,
    ...problems.slice(0, SHOWN),
    ...more,
    `replay: ${replay}`,
  ].join("\n  ");
}
