import {
  addColumns,
  ALL_RUNS,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  HOUR_WINDOW,
  type Ms,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { KEEPS_RESERVED } from "../cluster/holders.ts";

const GONE = (column: string): string =>
  `NOT EXISTS (SELECT 1 FROM holders WHERE gateway = rtrim(${column}, '+') AND (seen > now() - interval '1 minute' OR ${KEEPS_RESERVED}))`;

const FOLD = `
  WITH gone AS (DELETE FROM usage WHERE part <> '' AND width = 0 AND ${GONE("part")} RETURNING counter, running, waiting, parked, in_line)
  INSERT INTO usage (counter, width, at, running, waiting, parked, in_line)
    SELECT counter, 0, 0, sum(running), sum(waiting), sum(parked), sum(in_line) FROM gone GROUP BY counter ORDER BY counter
  ON CONFLICT (counter, width, at, part) DO UPDATE SET ${addColumns("usage", ["running", "waiting", "parked", "in_line"])}`;

/** Counts the runs that have not ended, and makes the part that is nobody's the difference to what the others say. One statement sees both at the same moment. */
const COUNT_RUNS = `
  WITH open AS (
    SELECT mapping, status, count(*) AS n, count(*) FILTER (WHERE status = 'parked' AND strpos(record, '"hold":{"reason":"limit"') > 0) AS held,
      count(*) FILTER (WHERE strpos(record, '"attempts":0') > 0
        AND (status = 'queued' OR (status = 'parked' AND strpos(record, '"hold":{"reason":"limit"') > 0))) AS lined
    FROM runs WHERE status IN ('parked', 'collecting', 'queued', 'running')
      AND (mapping IS NOT NULL OR strpos(record, '"kind":"hook"') > 0) GROUP BY 1, 2),
  named AS (SELECT '${ALL_RUNS}' AS counter, status, n, held, lined FROM open UNION ALL SELECT 'mapping:' || mapping, status, n, held, lined FROM open WHERE mapping IS NOT NULL),
  deltas AS (
    SELECT counter, CASE status WHEN 'running' THEN n ELSE 0 END AS running, CASE status WHEN 'running' THEN 0 ELSE n END AS waiting,
      held AS parked, lined AS in_line FROM named
    UNION ALL SELECT counter, -running, -waiting, -parked, -in_line FROM usage WHERE part <> '' AND width = 0)
  INSERT INTO usage (counter, width, at, running, waiting, parked, in_line)
    SELECT counter, 0, 0, sum(running), sum(waiting), sum(parked), sum(in_line) FROM deltas GROUP BY counter ORDER BY counter
  ON CONFLICT (counter, width, at, part) DO UPDATE SET
    running = excluded.running, waiting = excluded.waiting, parked = excluded.parked, in_line = excluded.in_line`;

/** Between counts of all runs that have not ended. */
const COUNT_AGAIN_MS = 600_000;
const countedAt = new WeakMap<Db, Ms>();

/** Deletes counters that count no more, sums up those of gateways that are gone, and now and then counts runs again. */
export async function tidyUsage(db: Db, now: Ms): Promise<void> {
  for (const window of [HOUR_WINDOW, DAY_WINDOW])
    await db.query("DELETE FROM usage WHERE width = $1 AND (at <= $2 OR at > $3)", [
      window.widthMs,
      countsAfter(window, now),
      countsUntil(window, now),
    ]);
  await db.query("DELETE FROM windows WHERE closes_at < $1", [countsAfter(DAY_WINDOW, now)]);
  await db.query(FOLD);
  await db.query(`DELETE FROM reserved WHERE ${GONE("part")}`);
  if (performance.now() - (countedAt.get(db) ?? -Infinity) < COUNT_AGAIN_MS) return;
  countedAt.set(db, performance.now());
  await db.query(COUNT_RUNS);
}
