/** Exports a store, and fills one from an export: the same for all drivers. */
import { createHash } from "node:crypto";
import { RouseError } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";

/** A row as it is exported, by the names of the columns. Bytes may be bytes, or their base64. */
export type ExportedRow = Readonly<Record<string, unknown>>;

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
  /** Makes the row of the driver's table from an exported one. Default: the same row. */
  write?(row: ExportedRow): ExportedRow;
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

/** The tables that are exported, in their order, with the SQL of each exported column. */
function toExports(
  shapes: Shapes,
  rules: TableRules,
): { table: string; rule: TableRule; columns: Record<string, string> }[] {
  const place = (name: string): number => Number(rules[name]?.isLast ?? false);
  return [...shapes.keys()]
    .filter((table) => rules[table]?.leftOut === undefined)
    .toSorted((a, b) => place(a) - place(b) || (a < b ? -1 : 1))
    .map((table) => {
      const rule = rules[table] ?? {};
      const own = [...(shapes.get(table)?.keys() ?? [])].filter(
        (name) => rule.omit?.includes(name) !== true,
      );
      const plain = Object.fromEntries(own.map((name) => [name, `${table}.${name}`]));
      return { table, rule, columns: { ...plain, ...rule.columns } };
    });
}

/** The statements that read the tables which are exported. */
export const toSelects = (
  shapes: Shapes,
  rules: TableRules,
): { table: string; count: string; select: string }[] =>
  toExports(shapes, rules).map(({ table, rule, columns }) => {
    const { from = table, order = columns["seq"] } = rule;
    const list = Object.entries(columns).map(([name, sql]) => `${sql} AS "${name}"`);
    const select = `SELECT ${list.join(", ")} FROM ${from}`;
    return {
      table,
      count: `SELECT count(*) AS n FROM ${from}`,
      select: order === undefined ? select : `${select} ORDER BY ${order}`,
    };
  });

/** The value for a column of a type of SQL. */
const toStored = (value: unknown, type = ""): unknown =>
  typeof value === "string" && /^(?:blob|bytea)$/i.test(type)
    ? Buffer.from(value, "base64")
    : value;

/** The tables that exported rows are put into. `insert` adds a row to a table of the driver. */
export const toTargets = (
  shapes: Shapes,
  rules: TableRules,
  insert: (table: string, row: ExportedRow) => Promise<void> | void,
): Map<string, TargetTable> =>
  new Map(
    toExports(shapes, rules).map(({ table, rule, columns }) => {
      const types = shapes.get(table);
      const put = (row: ExportedRow): Promise<void> | void => {
        const cells = Object.entries(rule.write?.(row) ?? row);
        return insert(
          table,
          Object.fromEntries(
            cells.map(([name, value]) => [name, toStored(value, types?.get(name))]),
          ),
        );
      };
      return [table, { columns: Object.keys(columns), put }];
    }),
  );

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

type OnProgress = (done: number, table: string, total: number) => void;

export interface Transferred {
  rows: number;
  tables: Record<string, number>;
}

const sum = (tables: Record<string, number>): number =>
  Object.values(tables).reduce((total, rows) => total + rows, 0);

const toText = (value: unknown): unknown =>
  value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;

/** Renders tables as lines of JSON: a head, a line for each row, and an end. */
export async function* renderExport(
  tables: readonly SourceTable[],
  now: number,
  onProgress: OnProgress,
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
      const cells = Object.entries(row).map(([column, value]) => [column, toText(value)] as const);
      yield toLine({ table: name, row: Object.fromEntries(cells) });
      onProgress(++done, name, total);
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
      onProgress(rows + 1, line.table, total);
    }
  }
}

/** The error for a store that is to be filled and holds something. */
export const notEmpty = (where: string, table: string, remedy: string): RouseError =>
  new RouseError({
    code: "usage",
    message: `${where} is not empty (${table}), and an import is not mixed with what is there: ${remedy}`,
  });
