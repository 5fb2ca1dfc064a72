import { realpathSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../core/clock.ts";
import { RouseError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { parseAddress } from "../postgres/address.ts";
import { beginCopy, copiesOf, endCopy } from "../postgres/copied.ts";
import { openDb, type Db } from "../postgres/db.ts";
import { migrate } from "../postgres/migrate.ts";
import { openSqlite } from "../sqlite/driver.ts";
import { copyTable, countRows, type CopiedCount, type OnProgress } from "./copy-table.ts";
import { STORE_FINISH, STORE_TABLES } from "./store-tables.ts";
import type { CopiedTable } from "./table.ts";

const LIMITS = { connections: 3, statementMs: 600_000, gathers: true };
/** A gateway says so often that it lives; one that was not heard of for so long does not. */
const ALIVE = "interval '10 seconds'";

const usage = (message: string): RouseError => new RouseError({ code: "usage", message });

/** Brings the source to where nothing is half-done: events that were accepted become runs, jobs that were held are let go. */
async function settleSource(file: string, clock: Pick<Clock, "now">, log: Logger): Promise<void> {
  const { store, queue } = openSqlite(file, clock, log);
  try {
    await queue.recover();
  } finally {
    await store.close();
  }
}

/** Refuses a target in which there is anything but an earlier, unused copy of the same source. */
async function checkTarget(target: Db, source: string): Promise<void> {
  const { shown } = target.address;
  const alive = await target.query(`SELECT id FROM holders WHERE seen > now() - ${ALIVE} LIMIT 1`);
  if (alive.length > 0) throw usage(`--to: a gateway runs on ${shown}; stop it, or copy to another schema (?schema=name)`);
  const copies = await copiesOf(target);
  const own = copies.find((copy) => copy.source === source);
  if (copies.some((copy) => copy.source !== source))
    throw usage(`--to: ${shown} has the copy of another store; copy to another schema (?schema=name)`);
  if (own?.used)
    throw usage(
      `--to: a gateway has worked with ${shown} since it was copied; to copy anew, drop the schema or name another one (?schema=name)`,
    );
  if (own) return;
  for (const { name } of STORE_TABLES)
    if ((await countRows(target, name)) > 0)
      throw usage(`--to: ${shown} holds data of its own (${name}); copy to an empty database or to another schema (?schema=name)`);
}

/** Numbers go on after the last that was given, also where retention has taken what had it. */
export async function renumber(target: Db, tables: readonly CopiedTable[], atLeast: string): Promise<void> {
  for (const { name, numbered } of tables)
    if (numbered !== undefined)
      await target.query(`SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, (SELECT max(${numbered}) FROM ${name}), ${atLeast}))`, [
        name,
        numbered,
      ]);
}

export interface CopyTarget {
  db: Db;
  /** Ends the copy: from now on gateways may work with it. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Copies a store in a file into PostgreSQL. The caller holds the lock of the source's state folder, and copies what else
 * belongs to it before it calls `finish`.
 * @throws RouseError `usage` where the target must not be written to, `config_invalid` and `store_unavailable` where it
 * cannot, `internal` where the copy differs from the source.
 */
export async function copyStore(options: {
  file: string;
  url: string;
  env?: Record<string, string | undefined>;
  clock: Pick<Clock, "now">;
  log: Logger;
  onProgress: OnProgress;
}): Promise<{ tables: CopiedCount[]; target: CopyTarget }> {
  const { file, url, env, clock, log, onProgress } = options;
  const db = await openDb(parseAddress(url, env), log, LIMITS);
  try {
    await migrate(db);
    const source = realpathSync(file);
    await checkTarget(db, source);
    await settleSource(file, clock, log);
    await beginCopy(db, source);
    const tables: CopiedCount[] = [];
    const from = new DatabaseSync(file, { readOnly: true });
    try {
      for (const table of STORE_TABLES) tables.push(await copyTable(from, db, table, onProgress));
    } finally {
      from.close();
    }
    await db.transaction(async (sql) => {
      for (const text of STORE_FINISH) await sql.query(text);
    });
    await renumber(db, STORE_TABLES, "(SELECT max(seq) FROM marks)");
    return { tables, target: { db, finish: () => endCopy(db, source), close: () => db.close() } };
  } catch (error) {
    await db.close();
    throw error;
  }
}
