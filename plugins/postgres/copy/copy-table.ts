import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import {
  type CopiedCount,
  type CopiedTable,
  type OnProgress,
  RouseError,
  type Sql,
} from "#store-kit";
import type { Db } from "../db.ts";
import { RowsHash } from "./rows-hash.ts";

/** A transaction's rows, or bytes, whichever is reached first. */
const MAX_ROWS = 1000;
const MAX_BYTES = 4_000_000;
const READ_ROWS = 500;

const listOf = (columns: CopiedTable["columns"]): string =>
  columns.map(({ name }) => name).join(", ");

function renderInsert({ name, columns }: CopiedTable): string {
  const given = columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(", ");
  const written = columns.map((column) => column.write ?? column.name).join(", ");
  return `INSERT INTO ${name} (${listOf(columns)}) SELECT ${written} FROM unnest(${given}) AS given (${listOf(columns)})`;
}

const bytesOf = (value: unknown): number =>
  typeof value === "string" ? value.length : value instanceof Uint8Array ? value.byteLength : 8;

/** A value as PostgreSQL takes it. SQLite keeps parts of milliseconds where it is given some: waiting times have them. */
function fit(value: unknown): unknown {
  if (value instanceof Uint8Array)
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return typeof value === "number" ? Math.round(value) : (value ?? null);
}

export async function countRows(sql: Sql, table: string): Promise<number> {
  const [row] = await sql.query<{ n: number }>(`SELECT count(*) AS n FROM ${table}`);
  return row?.n ?? 0;
}

/**
 * How many rows an earlier copy has left. One that was killed may have a statement on its way: PostgreSQL carries it out
 * without it, and its rows would come twice.
 */
const countLeft = (target: Db, table: string): Promise<number> =>
  target.transaction(async (sql) => {
    await sql.query(`LOCK TABLE ${table} IN SHARE MODE`);
    return countRows(sql, table);
  });

/** Sends the rows after the first `known`, and says what all of them are. */
async function sendRows(
  source: DatabaseSync,
  target: Db,
  table: CopiedTable,
  known: number,
  onRow: (done: number) => void,
): Promise<RowsHash> {
  const hash = new RowsHash();
  const insert = renderInsert(table);
  let waiting: unknown[][] = [];
  let bytes = 0;
  const send = async (): Promise<void> => {
    if (waiting.length === 0) return;
    const rows = waiting;
    waiting = [];
    bytes = 0;
    await target.query(
      insert,
      table.columns.map((_, column) => rows.map((row) => row[column])),
    );
    onRow(hash.rows);
  };
  for (const row of source.prepare(table.select).iterate() as Iterable<
    Record<string, SQLInputValue>
  >) {
    const values = table.values(row).map(fit);
    hash.add(values);
    if (hash.rows <= known) continue;
    waiting.push(values);
    bytes += values.reduce<number>((sum, value) => sum + bytesOf(value), 0);
    if (waiting.length >= MAX_ROWS || bytes >= MAX_BYTES) await send();
  }
  await send();
  return hash;
}

/** Reads all rows of the target back. */
async function readBack(target: Db, { name, columns }: CopiedTable): Promise<RowsHash> {
  const hash = new RowsHash();
  const list = columns
    .map((column) => `${column.read ?? column.name} AS ${column.name}`)
    .join(", ");
  await target.transaction(async (sql) => {
    await sql.query(`DECLARE copied_${name} NO SCROLL CURSOR FOR SELECT ${list} FROM ${name}`);
    for (;;) {
      const rows = await sql.query<Record<string, unknown>>(
        `FETCH ${READ_ROWS} FROM copied_${name}`,
      );
      if (rows.length === 0) return;
      for (const row of rows) hash.add(columns.map((column) => row[column.name]));
    }
  });
  return hash;
}

/**
 * Copies one table, from where an earlier copy ended. Where what is there is not how the source begins (it has changed
 * since), the table is copied anew.
 * @throws RouseError `internal` where the copy differs from the source all the same.
 */
export async function copyTable(
  source: DatabaseSync,
  target: Db,
  table: CopiedTable,
  onProgress: OnProgress,
): Promise<CopiedCount> {
  const total = (source.prepare(table.count).get() as { n: number }).n;
  for (let known = await countLeft(target, table.name); ; known = 0) {
    onProgress(table.name, known, total);
    const [sent, kept] = [
      await sendRows(source, target, table, known, (done) => onProgress(table.name, done, total)),
      await readBack(target, table),
    ];
    if (sent.rows === kept.rows && sent.hex === kept.hex)
      return { table: table.name, rows: sent.rows, hash: sent.hex };
    if (known === 0)
      throw new RouseError({
        code: "internal",
        message: `${table.name}: the copy has ${kept.rows} rows and differs from the source's ${sent.rows}`,
      });
    await target.query(`TRUNCATE ${table.name} CASCADE`);
  }
}
