import type { Usage } from "../store/types.ts";
import type { EvalSet, EvalSide, SideName } from "./eval-side.ts";
import { runCase, type EvalRun } from "./eval-run.ts";
import type { EvalCase } from "./fixture.ts";

/** A figure over several runs. */
export interface Spread {
  mean: number;
  min: number;
  max: number;
}

/** The runs of a case on one side. Figures are null if no run has them. */
export interface CaseResult {
  passed: number;
  runs: EvalRun[];
  tokens: Spread | null;
  costUsd: Spread | null;
  ms: Spread | null;
}

export interface CaseReport {
  evalCase: EvalCase;
  sides: Partial<Record<SideName, CaseResult>>;
}

/** The runs of a side together. */
export interface SideSum {
  runs: number;
  passed: number;
  /** Passed cases in each repetition. */
  perRepetition: Spread | null;
  tokens: number | null;
  costUsd: number | null;
  /** Of a run. */
  ms: Spread | null;
}

export interface EvalReport {
  cases: CaseReport[];
  sums: Partial<Record<SideName, SideSum>>;
  /** Of the judge, for all sides. */
  judge: { runs: number; tokens: number | null; costUsd: number | null };
  /** Why the evaluation ended before all runs; null if it did not. */
  stopped: "budget" | "interrupted" | null;
  /** Runs that were not made for that. */
  notRun: number;
}

/** The most that an evaluation may use, with the judge. */
export interface EvalBudget {
  tokens?: number;
  usd?: number;
}

export interface EvalOptions {
  cases: readonly EvalCase[];
  sides: readonly EvalSide[];
  set: EvalSet;
  /** How often each case is run. */
  repeat: number;
  /** Runs at the same time. */
  concurrency: number;
  budget: EvalBudget;
  signal: AbortSignal;
  /** Called after each run. */
  onRun(done: number, passed: number): void;
}

interface Work {
  evalCase: EvalCase;
  side: EvalSide;
  repetition: number;
}

type Done = Work & { run: EvalRun };

/** Counts what is used, and aborts when the budget is spent. A model call that is under way ends early. */
class Spending {
  readonly #budget: EvalBudget;
  readonly #stop = new AbortController();
  #tokens = 0;
  #usd = 0;

  constructor(budget: EvalBudget) {
    this.#budget = budget;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  add({ totalTokens = 0, costUsd = 0 }: Usage): void {
    this.#tokens += totalTokens;
    this.#usd += costUsd;
    const { tokens = Infinity, usd = Infinity } = this.#budget;
    if (this.#tokens >= tokens || this.#usd >= usd) this.#stop.abort();
  }
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

function toSpread(values: readonly (number | null)[]): Spread | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0
    ? null
    : { mean: mean(known), min: Math.min(...known), max: Math.max(...known) };
}

/** The sum of figures; null if one is unknown. */
function sumKnown(values: readonly (number | null)[]): number | null {
  return values.length === 0 || values.includes(null)
    ? null
    : values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

function toCaseResult(runs: EvalRun[]): CaseResult {
  return {
    passed: runs.filter(({ passed }) => passed).length,
    runs,
    tokens: toSpread(runs.map(({ tokens }) => tokens)),
    costUsd: toSpread(runs.map(({ costUsd }) => costUsd)),
    ms: toSpread(runs.map(({ ms }) => ms)),
  };
}

function toSum(done: readonly Done[], repeat: number): SideSum {
  const runs = done.map(({ run }) => run);
  const counts = Array.from({ length: repeat }, (_, index) => {
    const of = done.filter(({ repetition }) => repetition === index);
    return of.length === 0 ? null : of.filter(({ run }) => run.passed).length;
  });
  return {
    runs: runs.length,
    passed: runs.filter(({ passed }) => passed).length,
    perRepetition: toSpread(counts),
    tokens: sumKnown(runs.map(({ tokens }) => tokens)),
    costUsd: sumKnown(runs.map(({ costUsd }) => costUsd)),
    ms: toSpread(runs.map(({ ms }) => ms)),
  };
}

function toReport(
  done: readonly Done[],
  { cases, sides, repeat }: EvalOptions,
): Omit<EvalReport, "stopped" | "notRun"> {
  const judged = done.flatMap(({ run }) => run.judge ?? []);
  const on = (side: EvalSide): Done[] =>
    done.filter((one) => one.side === side).toSorted((a, b) => a.repetition - b.repetition);
  const bySide = <T>(make: (side: EvalSide) => T): Partial<Record<SideName, T>> =>
    Object.fromEntries(sides.map((side) => [side.name, make(side)]));
  return {
    cases: cases.map((evalCase) => ({
      evalCase,
      sides: bySide((side) =>
        toCaseResult(on(side).flatMap((one) => (one.evalCase === evalCase ? one.run : []))),
      ),
    })),
    sums: bySide((side) => toSum(on(side), repeat)),
    judge: {
      runs: judged.length,
      tokens: sumKnown(judged.map(({ tokens }) => tokens)),
      costUsd: sumKnown(judged.map(({ costUsd }) => costUsd)),
    },
  };
}

/**
 * Runs each case on each side. The only outside service that it calls is the model provider, and a sandbox if a case has one.
 * @throws RouseError if a model does not exist.
 */
export async function runEvaluation(options: EvalOptions): Promise<EvalReport> {
  const { cases, sides, set, repeat, concurrency, budget, signal, onRun } = options;
  const spending = new Spending(budget);
  const stop = AbortSignal.any([signal, spending.signal]);
  // The sides of a case stand together: what a budget cuts off can still be compared.
  const work = Array.from({ length: repeat }, (_, repetition) =>
    cases.flatMap((evalCase) => sides.map((side): Work => ({ evalCase, side, repetition }))),
  ).flat();
  const done: Done[] = [];
  let next = 0;
  const takeWork = async (): Promise<void> => {
    for (let one = work[next++]; one && !stop.aborted; one = work[next++]) {
      const { evalCase, side, repetition } = one;
      const run = await runCase(evalCase, side, {
        set,
        repetition,
        signal: stop,
        onUsage: (usage) => spending.add(usage),
      });
      if (!run) return;
      done.push({ ...one, run });
      onRun(done.length, done.filter(({ run: { passed } }) => passed).length);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, work.length) }, takeWork));
  const notRun = work.length - done.length;
  const stopped = notRun === 0 ? null : signal.aborted ? "interrupted" : "budget";
  return { ...toReport(done, options), stopped, notRun };
}
