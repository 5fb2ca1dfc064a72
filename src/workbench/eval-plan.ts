import { RouseError } from "../core/errors.ts";
import type { EvalBudget } from "./eval.ts";
import type { EvalSet, EvalSide } from "./eval-side.ts";
import { buildTask, resolveEvalModel } from "./eval-task.ts";
import { collectTools } from "./eval-tools.ts";
import type { EvalCase } from "./fixture.ts";

/** What an evaluation will do, before it calls a model. */
export interface EvalPlan {
  cases: readonly EvalCase[];
  sides: readonly EvalSide[];
  set: EvalSet;
  repeat: number;
  runs: number;
  /** What the runs will use if they use as much as the recorded ones; null if a case does not say. */
  tokens: number | null;
  usd: number | null;
  /** Whether models judge, whose use is not in the figures. */
  isJudged: boolean;
  /** Models without a price. */
  unpriced: string[];
  /** Names of model providers that are called. */
  providers: string[];
  sandboxes: string[];
}

interface PlanOptions {
  cases: readonly EvalCase[];
  sides: readonly EvalSide[];
  repeat: number;
  judgeModel: string | undefined;
  sandbox: string | undefined;
}

function estimate(
  cases: readonly EvalCase[],
  times: number,
  figure: "tokens" | "costUsd",
): number | null {
  const known = cases.flatMap(({ run }) => run[figure] ?? []);
  return known.length < cases.length ? null : times * known.reduce((sum, value) => sum + value, 0);
}

/**
 * Plans an evaluation. Checks that all models and sandboxes exist.
 * @throws RouseError `usage` or `config_invalid` if one does not.
 */
export async function planEvaluation({
  cases,
  sides,
  repeat,
  judgeModel,
  sandbox,
}: PlanOptions): Promise<EvalPlan> {
  const [{ snapshot }] = sides as [EvalSide];
  const resolve = (model: string | undefined) =>
    resolveEvalModel(model ?? judgeModel ?? snapshot.models.default.ref, "--judge-model", snapshot);
  const judges = cases.flatMap(({ reply: { judge } }) => (judge ? [resolve(judge.model)] : []));
  const used = judges.map((model) => ({ model, models: snapshot.models }));
  const sandboxes = new Set<string>();
  for (const side of sides) {
    const { models } = side.snapshot;
    // Also if no case asks a model.
    if (side.change.model !== undefined)
      resolveEvalModel(side.change.model, "--model", side.snapshot);
    for (const evalCase of cases) {
      const name = evalCase.run.sandbox ?? sandbox;
      side.getSandbox(name);
      if (name !== undefined) sandboxes.add(name);
      const task = await buildTask(evalCase, side.snapshot, side.change);
      if (typeof task === "string") continue;
      used.push(
        ...[task.model, ...(task.model.fallbacks ?? [])].map((model) => ({ model, models })),
      );
    }
  }
  const times = sides.length * repeat;
  return {
    cases,
    sides,
    set: { tools: collectTools(cases), sandbox, judge: { runtime: snapshot.runtime, resolve } },
    repeat,
    runs: cases.length * times,
    tokens: estimate(cases, times, "tokens"),
    usd: estimate(cases, times, "costUsd"),
    isJudged: judges.length > 0,
    unpriced: [
      ...new Set(used.flatMap(({ model, models }) => (models.getPrice(model) ? [] : [model.ref]))),
    ],
    providers: [...new Set(used.map(({ model }) => model.provider))],
    sandboxes: [...sandboxes],
  };
}

/**
 * Checks that a budget is enough by what the recorded runs used, and that it can be counted.
 * @throws RouseError `usage` if it is not.
 */
export function checkPlan({ tokens, usd, unpriced }: EvalPlan, budget: EvalBudget): void {
  const refuse = (message: string): never => {
    throw new RouseError({ code: "usage", message });
  };
  if (budget.usd !== undefined && unpriced.length > 0)
    refuse(
      `--budget in USD: the price of ${unpriced.join(", ")} is unknown; set models.prices, or write tokens`,
    );
  const more = "raise it, or name fewer cases; nothing was called";
  if (budget.tokens !== undefined && tokens !== null && tokens > budget.tokens)
    refuse(
      `--budget: by the recordings this takes about ${tokens} tokens, more than ${budget.tokens}: ${more}`,
    );
  if (budget.usd !== undefined && usd !== null && usd > budget.usd)
    refuse(
      `--budget: by the recordings this costs about ${usd.toFixed(2)} USD, more than ${budget.usd}: ${more}`,
    );
}
