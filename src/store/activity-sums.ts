import type { EventOutcome } from "./event-record.ts";
import type { Ms } from "./records.ts";

/** The events that are counted: those since then. After the newest `limit` the count may stop. */
export interface ActivityQuery {
  since: Ms;
  /** How long a time is that is counted together, in milliseconds. */
  step: Ms;
  limit: number;
}

/** How many events of an outcome came in within one step. */
export interface ActivitySum {
  /** When the step begins: a multiple of it. */
  at: Ms;
  outcome: EventOutcome;
  count: number;
}

/** Adds up counts of the same step and outcome. */
export function mergeActivity(sums: Iterable<ActivitySum>): ActivitySum[] {
  const merged = new Map<string, ActivitySum>();
  for (const { at, outcome, count } of sums) {
    const key = `${at} ${outcome}`;
    merged.set(key, { at, outcome, count: (merged.get(key)?.count ?? 0) + count });
  }
  return [...merged.values()];
}
