import type { EventOutcome } from "./event-record.ts";
import type { Ms } from "./records.ts";
import type { ListSource } from "./search.ts";

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

/** Rows are in order of time but for what waited before it was written. */
const DISORDER_MS = 3_600_000;

/** Adds up counts of the same step and outcome. */
export function mergeActivity(sums: Iterable<ActivitySum>): ActivitySum[] {
  const merged = new Map<string, ActivitySum>();
  for (const { at, outcome, count } of sums) {
    const key = `${at} ${outcome}`;
    merged.set(key, { at, outcome, count: (merged.get(key)?.count ?? 0) + count });
  }
  return [...merged.values()];
}

/** Counts events by time and outcome, window by window from the newest. */
export async function sumActivity(source: ListSource, query: ActivityQuery): Promise<ActivitySum[]> {
  const step = Math.floor(query.step);
  const text = `SELECT at / ${step} * ${step} AS at, outcome, count(*) AS count FROM events
    WHERE seq < ? AND seq >= ? AND at >= ? GROUP BY 1, 2`;
  const [newest] = await source.query<{ seq: number }>("SELECT seq FROM events ORDER BY seq DESC LIMIT 1", []);
  let sums: ActivitySum[] = [];
  let looked = 0;
  for (let below = (newest?.seq ?? 0) + 1; below > 1 && looked < query.limit; looked += source.window) {
    const from = below - source.window;
    sums = mergeActivity([...sums, ...(await source.query<ActivitySum>(text, [below, from, query.since]))]);
    const before = "SELECT seq, at FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1";
    const [next] = await source.query<{ seq: number; at: Ms }>(before, [from]);
    if (!next || next.at < query.since - DISORDER_MS) break;
    below = next.seq + 1;
    await source.pause?.();
  }
  return sums;
}
