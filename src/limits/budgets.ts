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
        : mappings.mappings.flatMap(({ id }) =>
            mappings.settings(id)?.budget?.scope === scope ? [toCounter(id)] : [],
          ),
  };
}

/**
 * Returns the first budget whose `limits.queue` has no room left; undefined if all may wait. `wanted` has one entry for
 * each budget of each run that would wait, `waiting` tells how many runs wait for a scope already.
 */
export function findFull(
  wanted: readonly Budget[],
  waiting: (scope: string) => number,
): Budget | undefined {
  const counts = new Map<string, number>();
  return wanted.find(({ scope, limits: { queue = Infinity } }) => {
    const count = (counts.get(scope) ?? waiting(scope)) + 1;
    counts.set(scope, count);
    return count > queue;
  });
}
