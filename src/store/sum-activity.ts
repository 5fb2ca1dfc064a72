import { mergeActivity, type ActivityQuery, type ActivitySum } from "./activity-sums.ts";
import type { Ms } from "./records.ts";
import type { ListSource } from "./search.ts";

/** Rows are in order of time but for what waited before it was written. */
const DISORDER_MS = 3_600_000;

/** Counts events by time and outcome, window by window from the newest. */
export async function sumActivity(
  source: ListSource,
  query: ActivityQuery,
): Promise<ActivitySum[]> {
  const step = Math.floor(query.step);
  const text = `SELECT at / ${step} * ${step} AS at, outcome, count(*) AS count FROM events
    WHERE seq < ? AND seq >= ? AND at >= ? GROUP BY 1, 2`;
  const [newest] = await source.query<{ seq: number }>(
    "SELECT seq FROM events ORDER BY seq DESC LIMIT 1",
    [],
  );
  let sums: ActivitySum[] = [];
  let looked = 0;
  for (
    let below = (newest?.seq ?? 0) + 1;
    below > 1 && looked < query.limit;
    looked += source.window
  ) {
    const from = below - source.window;
    sums = mergeActivity([
      ...sums,
      ...(await source.query<ActivitySum>(text, [below, from, query.since])),
    ]);
    const before = "SELECT seq, at FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1";
    const [next] = await source.query<{ seq: number; at: Ms }>(before, [from]);
    if (!next || next.at < query.since - DISORDER_MS) break;
    below = next.seq + 1;
    await source.pause?.();
  }
  return sums;
}
