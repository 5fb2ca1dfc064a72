import type { Ms } from "./records.ts";

/** By what usage can be added up. */
export const USAGE_KEYS = ["mapping", "agent", "model", "day"] as const;
export type UsageKey = (typeof USAGE_KEYS)[number];

/** The runs that are added up: those that were created since then and have ended. */
export interface UsageQuery {
  by: UsageKey;
  since: Ms;
}

/** What several runs have used together. */
export interface UsageSum {
  /** The mapping, agent, model or day (`2026-03-21`, UTC). What has none is named in parentheses: `(api)`, `(no model)`. */
  key: string;
  runs: number;
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  /** The known costs in US dollars; null if none is known. */
  costUsd: number | null;
  /** Runs that used tokens whose price is unknown: `costUsd` lacks them. */
  unpricedRuns: number;
}

/** How a driver writes SQL. */
export interface UsageDialect {
  /** A text inside a JSON column. */
  text(column: "record" | "spec", ...path: string[]): string;
  /** A number inside a JSON column. */
  number(column: "record", ...path: string[]): string;
  /** The day of a time in milliseconds, in UTC. */
  day(column: string): string;
}

/** The columns of a `UsageSum` over rows of `runs`, which are to be grouped by the first one. */
export function renderUsageColumns(by: UsageKey, { text, number, day }: UsageDialect): string {
  const keys: Record<UsageKey, string> = {
    mapping: `coalesce(${text("record", "mapping")}, '(' || ${text("record", "kind")} || ')')`,
    agent: text("spec", "session", "agentId"),
    model: `coalesce(${text("record", "model")}, '(no model)')`,
    day: day("ended"),
  };
  const cost = number("record", "usage", "costUsd");
  const sum = (name: string): string =>
    `coalesce(sum(${number("record", "usage", name)}), 0) AS "${name}"`;
  return [
    `${keys[by]} AS key`,
    "count(*) AS runs",
    ...["inputTokens", "cachedInputTokens", "cacheWriteTokens", "outputTokens"].map(sum),
    `sum(${cost}) AS "costUsd"`,
    `sum(CASE WHEN ${cost} IS NULL AND coalesce(${text("record", "usage")}, '{}') <> '{}' THEN 1 ELSE 0 END) AS "unpricedRuns"`,
  ].join(", ");
}

/** Sums of dollars get digits that no price has. */
const addCosts = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.round((a + b) * 1e8) / 1e8;

/** The sum of no runs. */
export const NO_USAGE: Omit<UsageSum, "key"> = {
  runs: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  costUsd: null,
  unpricedRuns: 0,
};

/** Adds up sums that have the same key. */
export function mergeUsage(sums: Iterable<UsageSum>): UsageSum[] {
  const merged = new Map<string, UsageSum>();
  for (const one of sums) {
    const found = merged.get(one.key) ?? NO_USAGE;
    merged.set(one.key, {
      key: one.key,
      runs: found.runs + one.runs,
      inputTokens: found.inputTokens + one.inputTokens,
      cachedInputTokens: found.cachedInputTokens + one.cachedInputTokens,
      cacheWriteTokens: found.cacheWriteTokens + one.cacheWriteTokens,
      outputTokens: found.outputTokens + one.outputTokens,
      costUsd: addCosts(
        found.costUsd,
        one.costUsd === null ? null : Math.round(one.costUsd * 1e8) / 1e8,
      ),
      unpricedRuns: found.unpricedRuns + one.unpricedRuns,
    });
  }
  return [...merged.values()];
}
