import type { BatchJoin, Ms, SharedBatches, Sql } from "#store-kit";
import type { Db } from "../client/db.ts";
import { digest } from "../client/digest.ts";

/** The batches that gateways collect together. */
export function createBatchWindows({
  db,
  dbTime,
}: {
  db: Db;
  dbTime: (at: Ms) => Ms;
}): SharedBatches {
  const ours = (at: Ms): Ms => at - dbTime(0);
  return {
    async join({ name, runId, at, windowMs, maxMs, maxEvents, chars, maxChars }: BatchJoin) {
      const time = dbTime(at);
      const full = maxEvents <= 1 || chars > maxChars;
      const isOpen = "w.closes_at > $3::bigint";
      const [row] = await db.accepts.query<{ run: string; closesAt: Ms }>(
        `INSERT INTO windows AS w (name, run, first_at, closes_at, n, chars) VALUES ($1, $2, $3::bigint, $4::bigint, 1, $5::bigint)
          ON CONFLICT (name) DO UPDATE SET
            run = CASE WHEN ${isOpen} THEN w.run ELSE excluded.run END,
            first_at = CASE WHEN ${isOpen} THEN w.first_at ELSE $3::bigint END,
            n = CASE WHEN ${isOpen} THEN w.n + 1 ELSE 1 END,
            chars = CASE WHEN ${isOpen} THEN w.chars + $5::bigint ELSE $5::bigint END,
            closes_at = CASE WHEN NOT (${isOpen}) THEN excluded.closes_at
              WHEN w.n + 1 >= $6::int OR w.chars + $5::bigint > $7::bigint THEN $3::bigint
              ELSE least($3::bigint + $8::bigint, w.first_at + $9::bigint) END
          RETURNING run, closes_at AS "closesAt"`,
        [
          digest(name),
          runId,
          time,
          full ? time : time + Math.min(windowMs, maxMs),
          chars,
          maxEvents,
          maxChars,
          windowMs,
          maxMs,
        ],
      );
      const { run = runId, closesAt = time } = row ?? {};
      return { runId: run, closesAt: ours(closesAt), opened: run === runId };
    },
    async close(runId, at) {
      // Waits for events that are being committed into it.
      await db.query("DELETE FROM windows WHERE run = $1 AND closes_at <= $2", [runId, dbTime(at)]);
      const [row] = await db.query<{ closesAt: Ms }>(
        'SELECT closes_at AS "closesAt" FROM windows WHERE run = $1',
        [runId],
      );
      return row && ours(row.closesAt);
    },
  };
}

/** Those of the windows that are open, by their runs; locked, so that none closes before this transaction ends. */
export async function openWindows(sql: Sql, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set();
  const rows = await sql.query<{ run: string }>(
    "SELECT run FROM windows WHERE run = ANY($1::text[]) ORDER BY name FOR SHARE",
    [[...new Set(runIds)]],
  );
  return new Set(rows.map((row) => row.run));
}
