import type { DatabaseSync } from "node:sqlite";
import type { Sql } from "#store-kit";
import { DAY_MS, DAYS_AHEAD, readClock, timeOf } from "../partitions.ts";

const idAt = (prefix: string, at: number): string =>
  `${prefix}_${at.toString(32).padStart(9, "0")}`;

/**
 * Makes the partitions of the days whose rows a SQLite store has, so that what is copied goes by dropping partitions, as
 * what gateways write does. Rows of days that are ahead stay in the default partition.
 */
export async function addPastPartitions(source: DatabaseSync, target: Sql): Promise<void> {
  const divided = await target.query<{ name: string; key: string; prefix: string }>(
    "SELECT name, key, prefix FROM divided()",
  );
  const last = (await readClock(target)) + DAYS_AHEAD * DAY_MS;
  for (const { name, key, prefix } of divided) {
    // From the first id of each day to the next one: the index gives them without reading the table.
    const next = source.prepare(
      `SELECT min(${key}) AS id FROM ${name} WHERE ${key} >= ? AND ${key} < ?`,
    );
    for (let from = 0; ;) {
      const { id } = next.get(idAt(prefix, from), idAt(prefix, last)) as { id: string | null };
      const at = timeOf(id?.slice(0, prefix.length + 10) ?? "");
      if (!Number.isSafeInteger(at)) break;
      await target.query("SELECT add_partition($1, $2)", [name, at]);
      from = (Math.floor(Math.max(at, from) / DAY_MS) + 1) * DAY_MS;
    }
  }
}
