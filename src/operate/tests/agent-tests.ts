import type { Snapshot } from "../../intake/types.ts";
import type { Usage } from "../../store/types.ts";
import type { ResolvedModel } from "../../agent/types.ts";
import { refuse } from "../records/operation.ts";
import { runAgent, type AgentRun } from "./agent-run.ts";
import { buildTask, resolveTestModel, type AgentTask } from "./agent-task.ts";
import { collectTools } from "./agent-tools.ts";
import { isFixture, type AgentCase, type TestCase } from "./fixture.ts";
import { runFixture, type FixtureResult } from "./fixture-run.ts";

/** Runs of agents at the same time. */
const CONCURRENCY = 4;

/** The most that runs of agents may use, with the judge. */
export interface TestBudget {
  tokens?: number;
  usd?: number;
}

/** One run that is to be made, and what it gave when it has been made. */
export interface PlannedRun {
  fixture: AgentCase;
  snapshot: Snapshot;
  task: AgentTask | string;
  repetition: number;
  made?: AgentRun | undefined;
}

/** The runs that tests will make, before a model is called. */
export type AgentPlan = Awaited<ReturnType<typeof planAgents>>;
export type AgentReport = Awaited<ReturnType<typeof runAgents>>;

const sum = (values: readonly (number | undefined)[]): number | null =>
  values.includes(undefined) ? null : values.reduce<number>((all, value) => all + (value ?? 0), 0);

/**
 * Plans the runs of agents by each of the snapshots, the first of which judges.
 * @throws RouseError `usage` or `config_invalid` if a model does not exist.
 */
export async function planAgents(
  fixtures: readonly AgentCase[],
  snapshots: readonly [Snapshot, ...Snapshot[]],
) {
  const [judgedBy] = snapshots;
  const runs: PlannedRun[] = [];
  const models: { model: ResolvedModel; by: Snapshot }[] = [];
  for (const fixture of fixtures) {
    const { judge, repeat = 1 } = fixture.reply;
    const name = judge && (judge.model ?? judgedBy.models.default.ref);
    if (name !== undefined) models.push({ model: resolveTestModel(name, judgedBy), by: judgedBy });
    for (const by of snapshots) {
      const task = await buildTask(fixture, by);
      if (typeof task !== "string")
        for (const model of [task.model, ...(task.model.fallbacks ?? [])])
          models.push({ model, by });
      for (let repetition = 0; repetition < repeat; repetition++)
        runs.push({ fixture, snapshot: by, task, repetition });
    }
  }
  const unpriced = models.filter(({ model, by }) => !by.models.getPrice(model));
  return {
    runs,
    /** The config whose model judges. */
    judgedBy,
    /** Tokens and US dollars that the runs will use if they use as much as the recorded ones; null if a fixture does not say. */
    tokens: sum(runs.map(({ fixture }) => fixture.run.tokens)),
    usd: sum(runs.map(({ fixture }) => fixture.run.costUsd)),
    /** Models without a price. */
    unpriced: [...new Set(unpriced.map(({ model }) => model.ref))],
    /** Sections of the config whose secrets are needed, such as `models.providers.openai.`. */
    needed: [...new Set(models.map(({ model }) => `models.providers.${model.provider}.`))],
  };
}

/**
 * Checks that a budget is enough by what the recorded runs used, and that it can be counted.
 * @throws RouseError `usage` if it is not.
 */
export function checkBudget({ tokens, usd, unpriced }: AgentPlan, budget: TestBudget): void {
  if (budget.usd !== undefined && unpriced.length > 0)
    refuse(
      `--budget: the price of ${unpriced.join(", ")} is unknown; set models.prices, or write tokens`,
    );
  const more = "raise it, or name fewer fixtures; nothing was called";
  if ((tokens ?? 0) > (budget.tokens ?? Infinity))
    refuse(
      `--budget: by the recordings this takes about ${tokens} tokens, more than ${budget.tokens}: ${more}`,
    );
  if ((usd ?? 0) > (budget.usd ?? Infinity))
    refuse(
      `--budget: by the recordings this costs about ${usd?.toFixed(2)} USD, more than ${budget.usd}: ${more}`,
    );
}

interface AgentOptions {
  budget: TestBudget;
  signal: AbortSignal;
  /** Called after each run. */
  onRun(done: number, passed: number): void;
}

/**
 * Makes the runs. The only outside services that it calls are model providers.
 * @returns `stopped`: why it ended before all runs, null if it did not; `notRun`: how many were not made for that.
 */
export async function runAgents(
  { runs: planned, judgedBy }: AgentPlan,
  { budget, signal, onRun }: AgentOptions,
) {
  const used = { tokens: 0, usd: 0 };
  const spent = new AbortController();
  const stop = AbortSignal.any([signal, spent.signal]);
  // A model call that is under way ends early when the budget is spent.
  const onUsage = ({ totalTokens = 0, costUsd = 0 }: Usage): void => {
    used.tokens += totalTokens;
    used.usd += costUsd;
    const { tokens = Infinity, usd = Infinity } = budget;
    if (used.tokens >= tokens || used.usd >= usd) spent.abort();
  };
  const known = collectTools([...new Set(planned.map(({ fixture }) => fixture))]);
  let next = 0;
  const work = async (): Promise<void> => {
    for (let run = planned[next++]; run && !stop.aborted; run = planned[next++]) {
      const settings = { ...run, judgedBy, known, signal: stop, onUsage };
      run.made = await runAgent(run.fixture, run.task, settings);
      const ended = planned.flatMap(({ made }) => made ?? []);
      onRun(ended.length, ended.filter(({ passed }) => passed).length);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  const notRun = planned.filter(({ made }) => !made).length;
  const reason = signal.aborted ? ("interrupted" as const) : ("budget" as const);
  const stopped = notRun === 0 ? null : reason;
  return { runs: planned, stopped, notRun };
}

/** The result of a fixture with one config. */
export interface TestResult {
  fixture: TestCase;
  ok: boolean;
  /** The result of the mappings; undefined without a request. */
  mapping: FixtureResult | undefined;
  /** Runs of its agent. */
  runs: AgentRun[];
}

/** True if nothing was found out about a fixture: it needs a model, and no run was made. */
export const isSkipped = ({ mapping, runs }: TestResult): boolean => !mapping && runs.length === 0;

/**
 * Runs fixtures by the mappings of a snapshot, one after the other. Starts nothing and stores nothing; never throws.
 * @param planned the runs of agents; those of the snapshot that were made are part of the results.
 */
export async function testFixtures(
  fixtures: readonly TestCase[],
  snapshot: Snapshot,
  planned: readonly PlannedRun[] = [],
): Promise<TestResult[]> {
  const own = planned.filter((run) => run.snapshot === snapshot);
  const byFixture = Map.groupBy(own, (run): TestCase => run.fixture);
  const results: TestResult[] = [];
  for (const fixture of fixtures) {
    const mapping = isFixture(fixture) ? await runFixture(fixture, snapshot) : undefined;
    const runs = byFixture.get(fixture)?.flatMap(({ made }) => made ?? []) ?? [];
    const { repeat = 1, passes = repeat } = fixture.reply ?? {};
    const passed = runs.filter((run) => run.passed).length;
    const isGood = runs.length === 0 || passed >= Math.min(passes, repeat);
    results.push({ fixture, mapping, runs, ok: (mapping?.ok ?? true) && isGood });
  }
  return results;
}
