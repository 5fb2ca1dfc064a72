/** A column of a table that is copied to. */
export interface Column {
  name: string;
  /** PostgreSQL's type of the values that are sent, as a list's element. */
  type: string;
  /** What is written, of the value that was sent, if that is not the value itself. */
  write?: string;
  /** What is read back to be compared with what was sent, if that is not the column itself. */
  read?: string;
}

/** One table of the target, and what of the source goes into it. */
export interface CopiedTable {
  name: string;
  columns: readonly Column[];
  /** Over the source's SQLite file; the same order each time it is asked. */
  select: string;
  /** How many rows that brings. */
  count: string;
  /** A row's values, in the order of the columns: numbers, texts, bytes or null. */
  values(row: Record<string, unknown>): unknown[];
  /** The table gives its rows numbers, in the column `seq` or another one. */
  numbered?: string;
}

/** A table that was copied: how many rows, and a hash of all of them that both sides agree on. */
export interface CopiedCount {
  table: string;
  rows: number;
  hash: string;
}

export type OnProgress = (table: string, done: number, total: number) => void;

const TYPES = { t: "text", n: "bigint", b: "bytea" } as const;

/** Columns from a short list such as `t:id n:at b:body`: text, number, bytes. */
export const toColumns = (list: string): Column[] =>
  list.split(" ").map((entry) => {
    const [type = "t", name = ""] = entry.split(":");
    return { name, type: TYPES[type as keyof typeof TYPES] };
  });

/** A table whose rows are the same on both sides, under the same names. */
export function sameTable(
  name: string,
  list: string,
  options: { order: string; from?: string; where?: string; numbered?: string },
): CopiedTable {
  const columns = toColumns(list);
  const names = columns.map((column) => column.name);
  const from = `FROM ${options.from ?? name} ${options.where === undefined ? "" : `WHERE ${options.where}`}`;
  return {
    name,
    columns,
    select: `SELECT ${names.join(", ")} ${from} ORDER BY ${options.order}`,
    count: `SELECT count(*) AS n ${from}`,
    values: (row) => names.map((column) => row[column]),
    ...(options.numbered === undefined ? {} : { numbered: options.numbered }),
  };
}
