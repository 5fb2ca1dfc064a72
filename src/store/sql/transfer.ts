/** Copies a store into an empty one: the same for all drivers. */
import { RouseError } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";

/** A row on its way from one store to another, by the names of the columns. */
export type CopiedRow = Readonly<Record<string, unknown>>;

/** The difference between a driver's table and its copy. Without a rule all columns are copied, under their names. */
export interface TableRule {
  /** The reason why the table is not copied. */
  leftOut?: string;
  /** Columns that are not copied: those of the driver alone, which `write` makes. */
  omit?: readonly string[];
  /** SQL of copied columns that are no columns of the table, or differ from them. */
  columns?: Readonly<Record<string, string>>;
  /** The text behind FROM. Default: the table. */
  from?: string;
  /** The order of the rows. Default: by `seq`, if there is such a column. */
  order?: string;
  /** It refers to others, and is copied behind them. */
  isLast?: boolean;
  /** Makes the row of the driver's table from a copied one. Default: the same row. */
  write?(row: CopiedRow): CopiedRow;
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
}

/** A table of a store that is copied. */
export interface SourceTable {
  name: string;
  columns: readonly string[];
  rows: number;
  read(): AsyncIterable<CopiedRow> | Iterable<CopiedRow>;
}

/** Takes the rows for a table of a store. */
export type PutRow = (row: CopiedRow) => Promise<void> | void;

/** The types of a database's columns, by table. */
export type Shapes = ReadonlyMap<string, ReadonlyMap<string, string>>;

const listCopied = (shapes: Shapes, rules: TableRules): string[] => {
  const place = (name: string): number => Number(rules[name]?.isLast ?? false);
  return [...shapes.keys()]
    .filter((table) => rules[table]?.leftOut === undefined)
    .toSorted((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
};

/** The statements that read the tables which are copied, in their order. */
export const toSelects = (
  shapes: Shapes,
  rules: TableRules,
): { table: string; columns: string[]; count: string; select: string }[] =>
  listCopied(shapes, rules).map((table) => {
    const { omit = [], columns: own = {}, from = table, order } = rules[table] ?? {};
    const names = [...(shapes.get(table)?.keys() ?? [])].filter((name) => !omit.includes(name));
    const columns = {
      ...Object.fromEntries(names.map((name) => [name, `${table}.${name}`])),
      ...own,
    };
    const list = Object.entries(columns).map(([name, sql]) => `${sql} AS "${name}"`);
    const by = order ?? columns["seq"];
    return {
      table,
      columns: Object.keys(columns),
      count: `SELECT count(*) AS n FROM ${from}`,
      select: `SELECT ${list.join(", ")} FROM ${from}${by === undefined ? "" : ` ORDER BY ${by}`}`,
    };
  });

/** The tables that copied rows are put into. `insert` adds a row to a table of the driver. */
export const toTargets = (
  shapes: Shapes,
  rules: TableRules,
  insert: (table: string, row: CopiedRow) => Promise<void> | void,
): Map<string, PutRow> =>
  new Map(
    listCopied(shapes, rules).map((table) => [
      table,
      (row) => insert(table, rules[table]?.write?.(row) ?? row),
    ]),
  );

export type OnProgress = (table: string, done: number, total: number) => void;

/**
 * Copies all rows of tables. Returns how many there were, by table.
 * @throws RouseError `usage` if a table has rows and the target does not have it.
 */
export async function copyTables(
  sources: readonly SourceTable[],
  targets: ReadonlyMap<string, PutRow>,
  onProgress: OnProgress,
): Promise<Record<string, number>> {
  const total = sources.reduce((sum, { rows }) => sum + rows, 0);
  let done = 0;
  for (const { name, rows, read } of sources) {
    if (rows === 0) continue;
    const put = targets.get(name);
    if (!put)
      throw new RouseError({ code: "usage", message: `the store to fill has no table ${name}` });
    for await (const row of read()) {
      await put(row);
      onProgress(name, ++done, total);
    }
  }
  return Object.fromEntries(sources.map(({ name, rows }) => [name, rows]));
}

/** The error for a store that is to be filled and holds something. */
export const notEmpty = (where: string, table: string, remedy: string): RouseError =>
  new RouseError({
    code: "usage",
    message: `${where} is not empty (${table}), and an import is not mixed with what is there: ${remedy}`,
  });
