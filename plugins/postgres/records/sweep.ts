import {
  type FencingToken,
  getSweepSteps,
  type Ms,
  type Retention,
  type Slice,
  type Sql,
  type SweepDialect,
  type SweepStep,
  type SweepTables,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { standing } from "../cluster/leases.ts";
import { addPartitions, dropPartitions, type Dropped } from "../schema/partitions.ts";
import { createSource } from "./reads.ts";

export const POSTGRES_DIALECT: SweepDialect = { hasBody: "body IS NOT NULL" };
/** No transaction takes so long: what is older has all that there will ever be of it. */
const SETTLED_MS = 600_000;

/** The tables without what is in a partition that goes as a whole. */
const toTables = (db: Db, now: Ms, { whole, rest, oldUpTo }: Dropped): SweepTables => ({
  ...POSTGRES_DIALECT,
  source: createSource(db),
  events: rest,
  deleteEvents: (part, isOld) => `
    WITH gone AS (DELETE FROM ${part} WHERE ${isOld} RETURNING seq, outcome),
    noted AS (INSERT INTO count_deltas (name, n) SELECT 'events.' || outcome, -count(*) FROM gone GROUP BY outcome)
    SELECT seq FROM gone`,
  upTo: Number.MAX_SAFE_INTEGER,
  oldUpTo,
  settled: { upTo: now - SETTLED_MS, now },
  isDeleted: (part) => [
    `NOT EXISTS (SELECT FROM unnest(?::text[], ?::text[]) AS whole (lower, upper)
      WHERE ${part}.run_id >= lower AND ${part}.run_id < upper)`,
    ...(["lower", "upper"] as const).map((bound) =>
      whole.filter(({ parent }) => parent === part).map((one) => one[bound]),
    ),
  ],
  partOf: () => "tableoid::regclass::text",
  dedupeKey: "id",
  lock: " FOR UPDATE",
});

/** Runs the statements of a step, one after the other. */
async function runStep(sql: Sql, step: SweepStep): Promise<Slice> {
  const { query } = createSource(sql);
  const statements = step();
  for (let rows: unknown[] = []; ;) {
    const { done, value } = statements.next(rows);
    if (done) return value;
    const [text, ...values] = value;
    rows = await query(text, values);
  }
}

/**
 * Makes the partitions of the next days, and lets go of what retention says, in short transactions, until `stopped`, or
 * until the lease of `fencingToken` is lost. Two gateways may be at it at once. Returns how many rows went or were changed.
 */
export async function sweep(
  db: Db,
  now: Ms,
  keep: Retention,
  { fencingToken, stopped }: { fencingToken: FencingToken | undefined; stopped(): boolean },
): Promise<number> {
  const isStanding = async (sql: Sql): Promise<boolean> =>
    fencingToken === undefined ||
    (await standing(sql, [fencingToken.lease])).get(fencingToken.lease) === fencingToken.token;
  const isMine = async (): Promise<boolean> => !stopped() && isStanding(db);
  if (!(await isMine())) return 0;
  await addPartitions(db);
  const dropped = await dropPartitions(db, now, keep, isMine);
  let total = dropped.rows;
  for (const step of getSweepSteps(now, keep, toTables(db, now, dropped))) {
    for (let more = true; more && !stopped();) {
      const slice = await db.transaction(async (sql) =>
        (await isStanding(sql)) ? runStep(sql, step) : undefined,
      );
      if (!slice) return total;
      slice.settle?.();
      total += slice.changed;
      more = slice.more;
    }
  }
  return total;
}
