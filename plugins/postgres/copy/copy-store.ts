import { realpathSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import {
  type CopiedCount,
  type CopiedTable,
  type CopyOptions,
  type CopyTarget,
  type OnProgress,
  RouseError,
} from "#store-kit";
import { parseAddress } from "../address.ts";
import { beginCopy, readCopies, endCopy } from "./copies.ts";
import { openDb, type Db } from "../db.ts";
import { migrate } from "../migrate.ts";
import { toSqlDatabase } from "../sql.ts";
import { copyTable, countRows } from "./copy-table.ts";
import { addPastPartitions } from "./past-partitions.ts";
import { STORE_FINISH, STORE_TABLES } from "./store-tables.ts";

const LIMITS = { connections: 3, statementMs: 600_000, gathers: true };
/** A gateway says so often that it lives; one that was not heard of for so long does not. */
const ALIVE = "interval '10 seconds'";

const usage = (message: string): RouseError => new RouseError({ code: "usage", message });

/** Refuses a target in which there is anything but an earlier, unused copy of the same source. */
async function checkTarget(target: Db, source: string): Promise<void> {
  const { shown } = target.address;
  const alive = await target.query(`SELECT id FROM holders WHERE seen > now() - ${ALIVE} LIMIT 1`);
  if (alive.length > 0)
    throw usage(
      `--to: a gateway runs on ${shown}; stop it, or copy to another schema (?schema=name)`,
    );
  const copies = await readCopies(target);
  const own = copies.find((copy) => copy.source === source);
  if (copies.some((copy) => copy.source !== source))
    throw usage(
      `--to: ${shown} has the copy of another store; copy to another schema (?schema=name)`,
    );
  if (own?.used)
    throw usage(
      `--to: a gateway has worked with ${shown} since it was copied; to copy anew, drop the schema or name another one (?schema=name)`,
    );
  if (own) return;
  for (const { name } of STORE_TABLES)
    if ((await countRows(target, name)) > 0)
      throw usage(
        `--to: ${shown} holds data of its own (${name}); copy to an empty database or to another schema (?schema=name)`,
      );
}

/** Numbers go on after the last that was given, also where retention has taken what had it. */
async function renumber(
  target: Db,
  tables: readonly CopiedTable[],
  atLeast: string,
): Promise<void> {
  for (const { name, numbered } of tables)
    if (numbered !== undefined)
      await target.query(
        `SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, (SELECT max(${numbered}) FROM ${name}), ${atLeast}))`,
        [name, numbered],
      );
}

interface TableCopy {
  /** The SQLite file to copy from. */
  file: string;
  tables: readonly CopiedTable[];
  /** Statements that follow the last table. */
  finish: readonly string[];
  onProgress: OnProgress;
  /** SQL: the least number that a new row gets. */
  atLeast?: string;
}

async function copyTables(
  target: Db,
  { file, tables, finish, onProgress, atLeast = "1" }: TableCopy,
): Promise<CopiedCount[]> {
  const copied: CopiedCount[] = [];
  const from = new DatabaseSync(file, { readOnly: true });
  try {
    if (tables === STORE_TABLES) await addPastPartitions(from, target);
    for (const table of tables) copied.push(await copyTable(from, target, table, onProgress));
  } finally {
    from.close();
  }
  await target.transaction(async (sql) => {
    for (const text of finish) await sql.query(text);
  });
  await renumber(target, tables, atLeast);
  return copied;
}

/**
 * Copies a store in a file into PostgreSQL. The caller holds the lock of the source's state folder, and copies what else
 * belongs to it before it calls `finish`.
 */
export async function copyFromFile({
  file,
  url,
  env,
  log,
  settle,
  onProgress,
}: CopyOptions): Promise<CopyTarget> {
  const db = await openDb(parseAddress(url, env), log, LIMITS);
  try {
    await migrate(db);
    const source = realpathSync(file);
    await checkTarget(db, source);
    await settle();
    await beginCopy(db, source);
    return {
      tables: await copyTables(db, {
        file,
        tables: STORE_TABLES,
        finish: STORE_FINISH,
        onProgress,
        atLeast: "(SELECT max(seq) FROM marks)",
      }),
      shown: db.address.shown,
      sql: toSqlDatabase(db),
      copyTables: (from, tables, finish, told) =>
        copyTables(db, { file: from, tables, finish, onProgress: told }),
      finish: () => endCopy(db, source),
      close: () => db.close(),
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}
