import type { LimitsConfig } from "../config/schema/limits.ts";
import { ALL_RUNS, toCounter } from "../store/types.ts";
import type { Budget, Budgets } from "./types.ts";

/** Makes the budgets of a snapshot from `hooks.limits` and those of its mappings. */
export function createBudgets(
  hooks: LimitsConfig | undefined,
  mappings: {
    settings(mapping: string): { budget?: Budget } | undefined;
    readonly budgets: readonly Budget[];
    readonly mappings: readonly { id: string }[];
  },
): Budgets {
  const shared: Budget[] = hooks ? [{ scope: ALL_RUNS, limits: hooks }] : [];
  return {
    of(mapping) {
      const own = mapping === undefined ? undefined : mappings.settings(mapping)?.budget;
      return own ? [...shared, own] : shared;
    },
    all: [...shared, ...mappings.budgets],
    counters: (scope) =>
      scope === ALL_RUNS
        ? [ALL_RUNS]
        : mappings.mappings.flatMap(({ id }) => (mappings.settings(id)?.budget?.scope === scope ? [toCounter(id)] : [])),
  };
}
