import type { Ms } from "./records.ts";
import type { ListSource } from "./search.ts";
import type { JsonText } from "./sum-failures.ts";

/** Runs that one statement reads. */
const OLDEST = 1000;

/**
 * Reads since when the run waits that has waited longest for a worker or for its session. What a limit or a batch held back before
 * does not count. Of a longer queue, the runs that were made first are looked at.
 */
export async function readQueuedSince(source: ListSource, text: JsonText): Promise<Ms | undefined> {
  const table = source.byIndex?.("runs", "runs_status") ?? "runs";
  const [row] = await source.query<{ since: Ms | null }>(
    `SELECT min(since) AS since FROM (
      SELECT coalesce(CAST(${text("record", "waitSince")} AS bigint), created) AS since FROM ${table} WHERE status = 'queued' ORDER BY seq LIMIT ${OLDEST}
    ) AS oldest`,
    [],
  );
  return row?.since ?? undefined;
}
