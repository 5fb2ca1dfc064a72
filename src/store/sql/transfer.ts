/** Exports a store, and fills one from an export: the same for all drivers. */
import { createHash } from "node:crypto";
import { RouseError } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";

/** A row as it is exported. Bytes are base64; a whole number that JavaScript cannot hold is text. */
export type ExportedRow = Readonly<Record<string, string | number | null>>;

/** A row for a table of the driver. Bytes may be bytes. */
export type Written = readonly [table: string, values: Record<string, unknown>];

/** The difference between a driver's table and its export. Without a rule all columns are exported, under their names. */
export interface TableRule {
  /** The reason why the table is not exported. */
  leftOut?: string;
  /** Columns that are not exported: those of the driver alone, which `write` makes. */
  omit?: readonly string[];
  /** SQL of exported columns that are no columns of the table, or differ from them. */
  columns?: Readonly<Record<string, string>>;
  /** The text behind FROM. Default: the table. */
  from?: string;
  /** The order of the rows. Default: by `seq`, if there is such a column. */
  order?: string;
  /** It refers to others, and is exported behind them. */
  isLast?: boolean;
  /** Makes rows of the driver's tables from an exported one. Default: the same row. */
  write?(row: ExportedRow): readonly Written[];
}

export type TableRules = Readonly<Record<string, TableRule>>;

export interface TransferOptions {
  /** `store.url` of the config. */
  url: string;
  env?: Record<string, string | undefined> | undefined;
  clock: Clock;
  log: Logger;
  /** Rules of tables that other parts of the program have in the store's database. */
  rules?: TableRules;
  /** No gateway uses the store. */
  isAlone?: boolean;
}

/** A table of a store that is exported. */
export interface SourceTable {
  name: string;
  columns: readonly string[];
  rows: number;
  read(): AsyncIterable<ExportedRow> | Iterable<ExportedRow>;
}

/** A table of a store that is filled. */
export interface TargetTable {
  columns: readonly string[];
  put(row: ExportedRow): Promise<void> | void;
}

/** The types of a database's columns, by table. */
export type Shapes = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** The export of a table. */
interface Export {
  table: string;
  rule: TableRule | undefined;
  /** SQL by exported column. */
  columns: Record<string, string>;
}

function toExports(shapes: Shapes, rules: TableRules): Export[] {
  const place = (name: string): number => Number(rules[name]?.isLast ?? false);
  return [...shapes.keys()]
    .filter((table) => rules[table]?.leftOut === undefined)
    .toSorted((a, b) => place(a) - place(b) || (a < b ? -1 : 1))
    .map((table) => {
      const { omit = [], columns = {} } = rules[table] ?? {};
      const own = [...(shapes.get(table)?.keys() ?? [])].filter((name) => !omit.includes(name));
      const plain = Object.fromEntries(own.map((name) => [name, `${table}.${name}`]));
      return { table, rule: rules[table], columns: { ...plain, ...columns } };
    });
}

/** The statements that read the tables which are exported, in their order. */
export function toSelects(
  shapes: Shapes,
  rules: TableRules,
  renderColumn: (sql: string, type: string | undefined) => string = (sql) => sql,
): { table: string; columns: string[]; count: string; select: string }[] {
  return toExports(shapes, rules).map(({ table, rule, columns }) => {
    const { from = table, order = columns["seq"] } = rule ?? {};
    const list = Object.entries(columns).map(
      ([name, sql]) => `${renderColumn(sql, shapes.get(table)?.get(name))} AS "${name}"`,
    );
    const select = `SELECT ${list.join(", ")} FROM ${from}`;
    return {
      table,
      columns: Object.keys(columns),
      count: `SELECT count(*) AS n FROM ${from}`,
      select: order === undefined ? select : `${select} ORDER BY ${order}`,
    };
  });
}

/** The tables that exported rows are put into, with what inserts a row into a table of the driver. */
export function toTargets(
  shapes: Shapes,
  rules: TableRules,
  insert: (...row: Written) => Promise<void> | void,
): Map<string, TargetTable> {
  return new Map(
    toExports(shapes, rules).map(({ table, rule, columns }) => {
      const put = async (row: ExportedRow): Promise<void> => {
        for (const written of rule?.write?.(row) ?? [[table, row] as const])
          await insert(...written);
      };
      return [table, { columns: Object.keys(columns), put }];
    }),
  );
}

/** Converts an exported value to the stored one in a column of a type of SQL. */
export function toStored(value: unknown, type: string): unknown {
  if (typeof value !== "string" || !/^(?:blob|bytea)$/i.test(type)) return value ?? null;
  return Buffer.from(value, "base64");
}

/** The exported form of a value that a driver has read. */
export function toExported(value: unknown): ExportedRow[string] {
  if (value instanceof Uint8Array)
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  return (value ?? null) as ExportedRow[string];
}

const FORMAT = "rouse-store";
const VERSION = 1;

interface Head {
  format: string;
  version: number;
  exportedAt: string;
  /** The number of rows that follow, by table, in their order. */
  tables: Record<string, number>;
}

/** The last line: without it the file was cut. */
interface End {
  end: true;
  rows: number;
  /** SHA-256 of all lines before. */
  sha256: string;
}

interface Line {
  table: string;
  row: ExportedRow;
}

export type OnProgress = (table: string, done: number, total: number) => void;

export interface Transferred {
  rows: number;
  tables: Record<string, number>;
}

const sum = (tables: Record<string, number>): number =>
  Object.values(tables).reduce((total, rows) => total + rows, 0);

/** Renders tables as lines of JSON: a head, a line for each row, and an end. */
export async function* renderExport(
  tables: readonly SourceTable[],
  { now, onProgress }: { now: number; onProgress: OnProgress },
): AsyncGenerator<string> {
  const hash = createHash("sha256");
  const toLine = (value: Head | Line): string => {
    const line = `${JSON.stringify(value)}\n`;
    hash.update(line);
    return line;
  };
  const counts = Object.fromEntries(tables.map(({ name, rows }) => [name, rows]));
  const total = sum(counts);
  const exportedAt = new Date(now).toISOString();
  yield toLine({ format: FORMAT, version: VERSION, exportedAt, tables: counts });
  let done = 0;
  for (const { name, read } of tables)
    for await (const row of read()) {
      yield toLine({ table: name, row });
      onProgress(name, ++done, total);
    }
  const end: End = { end: true, rows: done, sha256: hash.digest("hex") };
  yield `${JSON.stringify(end)}\n`;
}

const damaged = (message: string): RouseError => new RouseError({ code: "usage", message });

function parseLine(text: string, number: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw damaged(`line ${number} of the file is no JSON: the file is damaged, or was cut there`);
  }
}

function checkHead(value: unknown): Head {
  const { format, version, tables } = (value ?? {}) as Partial<Head>;
  if (format !== FORMAT || typeof tables !== "object")
    throw damaged("the file is no export of a store: rouse store export makes one");
  if (version !== VERSION)
    throw damaged(
      `the file has version ${String(version)} of the format, and this program reads ${VERSION}: import it with the version of Rouse that wrote it`,
    );
  return value as Head;
}

/** Refuses a row that the store could only keep in part. */
function checkColumns({ table, row }: Line, { columns }: TargetTable): void {
  const unknown = Object.keys(row).find((column) => !columns.includes(column));
  if (unknown !== undefined)
    throw damaged(
      `the file has the column ${unknown} of ${table}, which this version of Rouse does not know: import it with the version that wrote it`,
    );
}

/** The lines of an export, read once. */
export class ExportReader {
  readonly #lines: AsyncIterator<string>;
  readonly #hash = createHash("sha256");
  #number = 0;

  constructor(lines: AsyncIterable<string>) {
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async #next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true)
      throw damaged(
        this.#number === 0
          ? "the file is empty"
          : `the file ends after line ${this.#number}, before its end: it was cut. Nothing was imported`,
      );
    const parsed = parseLine(value, ++this.#number);
    if (!(parsed as Partial<End>).end) this.#hash.update(`${value}\n`);
    return parsed;
  }

  /** Reads the number of rows, by table. @throws RouseError `usage` if the lines are no export. */
  async head(): Promise<Record<string, number>> {
    return checkHead(await this.#next()).tables;
  }

  /**
   * Puts all rows into their tables.
   * @throws RouseError `usage` if a line is damaged or missing, or not known to the tables.
   */
  async fill(
    counts: Record<string, number>,
    tables: ReadonlyMap<string, TargetTable>,
    onProgress: OnProgress,
  ): Promise<Transferred> {
    const total = sum(counts);
    const found: Record<string, number> = {};
    for (let rows = 0; ; rows++) {
      const line = (await this.#next()) as Line | End;
      if ("end" in line) {
        if (line.rows !== rows || line.sha256 !== this.#hash.digest("hex"))
          throw damaged(
            "the file is not as it was written: its lines do not match its end. Nothing was imported",
          );
        return { rows, tables: found };
      }
      const table = tables.get(line.table);
      if (!table)
        throw damaged(
          `the file has the table ${line.table}, which this version of Rouse does not know: import it with the version that wrote it`,
        );
      checkColumns(line, table);
      await table.put(line.row);
      found[line.table] = (found[line.table] ?? 0) + 1;
      onProgress(line.table, rows + 1, total);
    }
  }
}

/** The error for a store that is to be filled and holds something. */
export const notEmpty = (where: string, table: string, remedy: string): RouseError =>
  new RouseError({
    code: "usage",
    message: `${where} is not empty (${table}), and an import is not mixed with what is there: ${remedy}`,
  });
