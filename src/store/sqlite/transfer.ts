import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import {
  notEmpty,
  type ExportedRow,
  type Shapes,
  type SourceTable,
  type TableRules,
  type TargetTable,
  toSelects,
  toTargets,
  type TransferOptions,
} from "../sql/transfer.ts";
import { openSqlite } from "./store.ts";
import { keyNumber } from "./accepted-events.ts";
import { prepareDatabase } from "./schema.ts";
import { sqliteError, Statements } from "./connection.ts";

/** Accepted events up to this number are taken up: what an event brings is written with it, or is not written yet. */
const TAKEN_UP = "(SELECT seq FROM marks WHERE name = 'intake')";

/** The differences between the tables of a store in SQLite and the exported ones. */
export const SQLITE_RULES: TableRules = {
  migrations: { leftOut: "each store has its own" },
  counts: { leftOut: "counted again while rows are written" },
  parked: { leftOut: "written again by triggers of the jobs" },
  // The others are of this file and its disk.
  marks: { from: "marks WHERE name NOT IN ('intake', 'written', 'log')" },
  // The export is of the moment at which the newest event was taken up: what came in since is left out with its keys.
  events: { from: `events WHERE seq <= ${TAKEN_UP}` },
  dedupe: {
    omit: ["seq", "number"],
    from: `dedupe WHERE NOT EXISTS (SELECT 1 FROM events
      WHERE events.id = json_extract(dedupe.record, '$.eventId') AND events.seq > ${TAKEN_UP})`,
    write: (row) => ({ ...row, number: keyNumber(String(row["scope"]), String(row["key"])) }),
  },
  // A job that a worker holds starts again, before all others.
  jobs: { omit: ["held"], columns: { ready: "iif(held = 1, 0, ready)" }, isLast: true },
};

/** The types of the columns, by table. Tables that SQLite makes by itself are left out. */
function readShapes(db: DatabaseSync): Shapes {
  const tables = db
    .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    .all() as { name: string }[];
  const columns = db.prepare("SELECT name, type FROM pragma_table_info(?)");
  return new Map(
    tables
      .filter(({ name }) => !name.startsWith("sqlite_"))
      .map(({ name }) => [
        name,
        new Map(
          (columns.all(name) as { name: string; type: string }[]).map((c) => [c.name, c.type]),
        ),
      ]),
  );
}

/** The tables of a database that are exported. The caller has begun the transaction that they are read in. */
export const listSqliteTables = (db: DatabaseSync, rules: TableRules): SourceTable[] =>
  toSelects(readShapes(db), rules).map(({ table, count, select }) => ({
    name: table,
    rows: (db.prepare(count).get() as { n: number }).n,
    read: () => db.prepare(select).iterate(),
  }));

/** The tables of a database that exported rows are put into. The caller has begun the transaction. */
export function openSqliteTables(db: DatabaseSync, rules: TableRules): Map<string, TargetTable> {
  const sql = new Statements(db);
  const insert = (table: string, row: ExportedRow): void => {
    const names = Object.keys(row);
    sql.run(
      `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
      ...(Object.values(row) as SQLInputValue[]),
    );
  };
  return toTargets(readShapes(db), rules, insert);
}

/** The first of the tables that has a row. */
export function findFilled(db: DatabaseSync, tables: Iterable<string>): string | undefined {
  return [...tables].find((table) => db.prepare(`SELECT 1 FROM ${table} LIMIT 1`).get());
}

/** Reads a store in a file as it is at one moment. `isAlone`: no gateway uses it, so that what was accepted last is taken up first. */
export async function exportSqlite<T>(
  file: string,
  { clock, log, isAlone }: TransferOptions,
  use: (tables: readonly SourceTable[]) => Promise<T>,
): Promise<T> {
  if (isAlone === true) {
    const { store, queue } = openSqlite(file, clock, log);
    try {
      await queue.recover();
    } finally {
      await store.close();
    }
  }
  using db = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  try {
    db.exec("BEGIN");
    return await use(listSqliteTables(db, SQLITE_RULES));
  } catch (error) {
    throw sqliteError(error);
  }
}

/** Fills a store in a file in one transaction. */
export async function importSqlite<T>(
  file: string,
  { clock }: TransferOptions,
  use: (tables: ReadonlyMap<string, TargetTable>) => Promise<T>,
): Promise<T> {
  using db = new DatabaseSync(file);
  try {
    prepareDatabase(db, clock.now());
    const tables = openSqliteTables(db, SQLITE_RULES);
    const filled = findFilled(
      db,
      [...tables.keys()].filter((table) => table !== "marks"),
    );
    if (filled !== undefined)
      throw notEmpty(file, filled, "move the file away, or name another one in store.url");
    db.exec("BEGIN IMMEDIATE; DELETE FROM marks");
    const value = await use(tables);
    // Numbers go on after the last that was given, also if retention has taken what had it.
    db.exec(`
      INSERT INTO marks VALUES ('intake', max(
        coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT max(seq) FROM marks), 0)));
      INSERT INTO marks VALUES ('bodies', 0) ON CONFLICT (name) DO NOTHING;
      UPDATE counts SET n = (SELECT count(*) FROM events WHERE 'events.' || outcome = name)
        WHERE name LIKE 'events.%';
      COMMIT`);
    return value;
  } catch (error) {
    throw sqliteError(error);
  }
}
