import { setTimeout } from "node:timers/promises";
import { type Ms, type Retention, type Sql } from "#store-kit";
import type { Db } from "../client/db.ts";
import { isClash, isLocked, isMissingTable } from "../client/errors.ts";

export type Divided = "events" | "steps" | "tool_calls";

/** A part of a table: the rows whose ids were made in a time. */
export interface Partition {
  parent: Divided;
  name: string;
  /** The least id; `MINVALUE` if there is none. */
  lower: string;
  /** All ids are less. */
  upper: string;
  /** When the youngest of them was made, or later. */
  until: Ms;
}

interface PartitionRow extends Omit<Partition, "lower" | "upper" | "until"> {
  lower: string | null;
  upper: string | null;
}

export const DAY_MS = 86_400_000;
/** Records that are kept for less than this go one by one, when their time has come; others with their whole partition. */
const LEAST_KEPT_MS = 7 * DAY_MS;
/** Partitions that are there ahead of time: today's, and those of the days after it. */
export const DAYS_AHEAD = 2;
/** Runs that begin before midnight end after it: few rows have to be moved when most of them are over. */
const SETTLED_MS = 3_600_000;
/** A partition is read to the end before it is dropped, since what is in it is counted. */
const DROP_MS = 600_000;
const TRIES = 3;
const PAUSE_MS = 1000;

/** Which retention the rows of a table follow. */
const KEPT_AS: Record<Divided, "events" | "runs"> = {
  events: "events",
  steps: "runs",
  tool_calls: "runs",
};

/** The time that the ids of a bound begin with. */
export const timeOf = (bound: string): Ms =>
  Number.parseInt(bound.slice(bound.indexOf("_") + 1), 32);

/** All partitions but the default ones, oldest first. */
export async function readPartitions(sql: Sql): Promise<Partition[]> {
  const rows = await sql.query<PartitionRow>(
    "SELECT parent, name, lower, upper FROM partitions() WHERE upper IS NOT NULL",
  );
  return rows.flatMap(({ parent, name, lower, upper }) =>
    lower === null || upper === null ? [] : [{ parent, name, lower, upper, until: timeOf(upper) }],
  );
}

/** The time by the database's clock, which partitions follow. */
export async function readClock(sql: Sql): Promise<Ms> {
  const [clock] = await sql.query<{ now: Ms }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
  );
  return clock?.now ?? 0;
}

/**
 * Makes the partitions of today and of the days after it where there are none. Without them rows go to the default
 * partition: nothing is refused. A table that is in use for long is left for the next time.
 */
export async function addPartitions(db: Db): Promise<void> {
  const now = await readClock(db);
  const known = await readPartitions(db);
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  for (const parent of Object.keys(KEPT_AS) as Divided[]) {
    for (let day = today; day <= today + DAYS_AHEAD * DAY_MS; day += DAY_MS) {
      if (
        known.some(
          (one) =>
            one.parent === parent &&
            one.until > day &&
            (one.lower === "MINVALUE" || timeOf(one.lower) <= day),
        )
      )
        continue;
      await whenFree(() => db.query("SELECT add_partition($1, $2)", [parent, day]));
    }
  }
}

/** Does what needs a lock, a few times; undefined if the lock was never free. */
async function whenFree<T>(work: () => Promise<T>): Promise<T | undefined> {
  for (let tried = 1; ; tried++) {
    try {
      return await work();
    } catch (error) {
      if (!isLocked(error) && !isClash(error)) throw error;
      if (tried === TRIES) return undefined;
      await setTimeout(PAUSE_MS);
    }
  }
}

/** The result of a sweep: what it has dropped, and what it has to delete row by row. */
export interface Dropped {
  /** The number of dropped rows. */
  rows: number;
  /** The partitions that go as a whole some day. */
  whole: Partition[];
  /** The other parts of the events: their rows are deleted one by one. */
  rest: string[];
  /** The number of an event that is old, and so are all that were written before it; 0 if none is known. */
  oldUpTo: number;
}

/** Partitions that hold no row which retention still keeps, as far as their ids tell. */
const isOver = ({ parent, until }: Partition, now: Ms, keep: Retention): boolean =>
  until + SETTLED_MS + keep[KEPT_AS[parent]] <= now;

/** Drops a partition over a connection of its own, since that may take longer than other statements. Undefined: it has to stay. */
async function dropPartition(
  db: Db,
  { parent, name }: Partition,
  now: Ms,
  upTo: Ms,
): Promise<number | undefined> {
  const client = await db.client();
  try {
    await client.query(`SET statement_timeout TO ${DROP_MS}`);
    const config = {
      text: "SELECT drop_partition($1, $2, $3, $4) AS n",
      values: [parent, name, upTo, now],
      query_timeout: DROP_MS,
    };
    const { rows } = await client.query<{ n: number | null }>(config);
    return rows[0]?.n ?? undefined;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The greatest number in these partitions. One that another gateway has dropped meanwhile is left out. */
async function lastNumber(sql: Sql, partitions: readonly Partition[]): Promise<number> {
  let last = 0;
  for (const { name } of partitions) {
    const read = sql.query<{ seq: number }>(`SELECT seq FROM ${name} ORDER BY seq DESC LIMIT 1`);
    const rows = await read.catch((error: unknown) => {
      if (isMissingTable(error)) return [];
      throw error;
    });
    last = Math.max(last, rows[0]?.seq ?? 0);
  }
  return last;
}

/**
 * Drops the partitions that are past retention; the rows that have to stay are moved to the default partition. A partition
 * with too many of these stays, and its rows are deleted one by one. `isMine` is asked before each.
 */
export async function dropPartitions(
  db: Db,
  now: Ms,
  keep: Retention,
  isMine: () => Promise<boolean>,
): Promise<Dropped> {
  const partitions = await readPartitions(db);
  const over = partitions.filter((one) => isOver(one, now, keep));
  const oldUpTo = await lastNumber(
    db,
    over.filter(({ parent }) => parent === "events"),
  );
  const [gone, full] = [new Set<Partition>(), new Set<Partition>()];
  // Of a table that is in use, no other partition is tried: hooks wait behind each attempt.
  const inUse = new Set<Divided>();
  let rows = 0;
  for (const one of over) {
    if (inUse.has(one.parent)) continue;
    if (!(await isMine())) break;
    await whenFree(async () => {
      const dropped = await dropPartition(db, one, now, now - keep[KEPT_AS[one.parent]] - 1);
      (dropped === undefined ? full : gone).add(one);
      rows += dropped ?? 0;
    });
    if (!gone.has(one) && !full.has(one)) inUse.add(one.parent);
  }
  const left = partitions.filter((one) => !gone.has(one));
  // The table as it was before it was divided holds rows of many days.
  const isWhole = (one: Partition): boolean =>
    one.lower !== "MINVALUE" && keep[KEPT_AS[one.parent]] >= LEAST_KEPT_MS && !full.has(one);
  const rest = left.filter((one) => one.parent === "events" && !isWhole(one));
  return {
    rows,
    whole: left.filter(isWhole),
    rest: ["events_default", ...rest.map(({ name }) => name)],
    oldUpTo,
  };
}
