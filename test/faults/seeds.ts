/** Runs seeds, and says of each that breaks an invariant how to replay it. */
import { findProblems } from "./invariants.ts";
import { createPlan, type StoreKind } from "./plan.ts";
import { simulate, type Outcome } from "./simulate.ts";

export interface Failure {
  seed: number;
  problems: string[];
  outcome: Outcome;
  /** The command that runs the seed again, with its trace. */
  replay: string;
}

export interface SeedOptions {
  store?: StoreKind;
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
/**
 * On PostgreSQL time is real, and most of it is waiting; more seeds would keep one thread so busy that gateways answer late. There may
 * be fewer, for lack of connections (`createPlaces`).
 */
const AT_ONCE = { sqlite: 1, postgres: 4 };

export async function runSeeds({
  store = "sqlite",
  from = 1,
  count,
  fault,
  onBegin,
  onEnd,
  onFailure,
  first,
}: SeedOptions): Promise<Failure[]> {
  const failures: Failure[] = [];
  let next = from;
  const postgres = store === "postgres" ? await import("./postgres.ts") : undefined;
  const places = await postgres?.createPlaces();
  const work = async (): Promise<void> => {
    while (next < from + count && !(first && failures.length > 0)) {
      const seed = next++;
      const only = `${store === "sqlite" ? "" : ` --store ${store}`}${fault === undefined ? "" : ` --fault "${fault}"`}`;
      const replay = `node --conditions=rouse-source --disable-warning=ExperimentalWarning test/faults/run.ts${only} --seed ${seed}`;
      const plan = createPlan(seed, store, fault);
      await places?.take(plan.gateways);
      onBegin?.(seed, replay);
      const outcome = await simulate(plan, postgres?.createDatabase());
      places?.giveBack(plan.gateways);
      onEnd?.(outcome);
      const problems = findProblems(outcome);
      if (problems.length === 0) continue;
      const failure = { seed, problems, outcome, replay };
      failures.push(failure);
      onFailure?.(failure);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE[store] }, work));
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
