import type { ModelPrice } from "../contract/kinds.ts";
import type { Issue } from "../core/errors.ts";
import type { Usage } from "../store/types.ts";
import type { Agent, Models } from "./types.ts";

/** The token counts of a call, as the `ai` package reports them. */
export interface CountedTokens {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  totalTokens?: number | undefined;
  inputTokenDetails?:
    | { cacheReadTokens?: number | undefined; cacheWriteTokens?: number | undefined }
    | undefined;
  outputTokenDetails?: { reasoningTokens?: number | undefined } | undefined;
}

const MILLION = 1_000_000;
/** Costs are rounded to a millionth of a cent, so that sums of many runs stay accurate. */
const round = (usd: number): number => Math.round(usd * 1e8) / 1e8;

/** The cost of a call; undefined if the price or the number of tokens is unknown. */
function getCost(usage: Usage, price: ModelPrice | undefined): number | undefined {
  const { inputTokens, outputTokens, cachedInputTokens = 0, cacheWriteTokens = 0 } = usage;
  if (!price || inputTokens === undefined || outputTokens === undefined) return undefined;
  const { input, output, cachedInput = input, cacheWrite = input } = price;
  // Some servers do not count what they had in their cache.
  const plain = Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens);
  return round(
    (plain * input +
      cachedInputTokens * cachedInput +
      cacheWriteTokens * cacheWrite +
      outputTokens * output) /
      MILLION,
  );
}

/** Returns the tokens of a model call, with its cost. Counts that the provider did not report are absent. */
export function toUsage(counted: CountedTokens, price: ModelPrice | undefined): Usage {
  const usage = dropUndefined({
    inputTokens: counted.inputTokens,
    outputTokens: counted.outputTokens,
    totalTokens: counted.totalTokens,
    cachedInputTokens: counted.inputTokenDetails?.cacheReadTokens || undefined,
    cacheWriteTokens: counted.inputTokenDetails?.cacheWriteTokens || undefined,
    reasoningTokens: counted.outputTokenDetails?.reasoningTokens || undefined,
  });
  return dropUndefined({ ...usage, costUsd: getCost(usage, price) });
}

const TOKENS = [
  "inputTokens",
  "outputTokens",
  "totalTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "reasoningTokens",
] as const;

/** Adds up the usage of several calls. The cost is unknown if the cost of one call is unknown. */
export function addUsage(calls: readonly Usage[]): Usage {
  const sums = TOKENS.map((name) => {
    const known = calls.flatMap((call) => call[name] ?? []);
    return [name, known.length === 0 ? undefined : known.reduce((sum, count) => sum + count, 0)];
  });
  const isPriced = calls.length > 0 && calls.every(({ costUsd }) => costUsd !== undefined);
  const costUsd = isPriced
    ? round(calls.reduce((sum, call) => sum + (call.costUsd ?? 0), 0))
    : undefined;
  return dropUndefined({ ...Object.fromEntries(sums), costUsd });
}

const dropUndefined = (usage: { [K in keyof Usage]: Usage[K] | undefined }): Usage =>
  Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== undefined));

/** Finds models of agents whose price is unknown: for a budget of money, their runs would count as free. */
export function findUnpricedModels(agents: readonly Agent[], models: Models): Issue[] {
  const used = agents.flatMap(({ resolved }) =>
    resolved.ok ? [resolved.model, ...(resolved.model.fallbacks ?? [])] : [],
  );
  const unpriced = new Set(used.filter((model) => !models.getPrice(model)).map(({ ref }) => ref));
  const message =
    "limits.budget counts what runs cost, and the price of this model is unknown: set it here";
  return [...unpriced].map((ref) => ({ path: `models.prices.${ref}`, message }));
}
