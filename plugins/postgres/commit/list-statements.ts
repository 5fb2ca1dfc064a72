import { ID_TAKEN, RouseError } from "#store-kit";
import type { Statement } from "../client/lane.ts";

export type Row = Readonly<Record<string, unknown>>;

/** A statement that writes any number of rows: each column is sent as one list. */
export interface ListStatement {
  /** The types of its columns, by name. */
  columns: Readonly<Record<string, string>>;
  /**
   * Renders the SQL. `given`: its rows as a table expression with the name `given`, in order by `nth`; `list`: the list of a
   * column.
   */
  render(given: string, list: (column: string) => string): string;
}

/** Reads columns as SQL names them: `id text, at bigint`. */
const parseColumns = (columns: string): Record<string, string> =>
  Object.fromEntries(columns.split(", ").map((column) => column.split(" ")));

/** A statement over rows with these columns, such as `id text, at bigint`. */
export const listStatement = (columns: string, render: ListStatement["render"]): ListStatement => ({
  columns: parseColumns(columns),
  render,
});

/** A statement that adds rows. `end` is the end of its SQL, such as ON CONFLICT; rows are added in the order of `orderBy`. */
export function insertInto(
  table: string,
  columns: string,
  { end = "", orderBy = "nth" }: { end?: string; orderBy?: string } = {},
): ListStatement {
  const names = Object.keys(parseColumns(columns)).join(", ");
  return listStatement(
    columns,
    (given) =>
      `INSERT INTO ${table} (${names}) SELECT ${names} FROM ${given} ORDER BY ${orderBy} ${end}`,
  );
}

const toConditions = (table: string, keys: string): string =>
  Object.keys(parseColumns(keys))
    .map((name) => `${table}.${name} = given.${name}`)
    .join(" AND ");

/** A statement that sets columns of the rows that have the same `keys`. */
export function update(table: string, keys: string, columns: string): ListStatement {
  const set = Object.keys(parseColumns(columns)).map((name) => `${name} = given.${name}`);
  const same = toConditions(table, keys);
  return listStatement(
    `${columns}, ${keys}`,
    (given) => `UPDATE ${table} SET ${set.join(", ")} FROM ${given} WHERE ${same}`,
  );
}

/** A statement that deletes the rows that have the same `keys`. */
export const deleteFrom = (table: string, keys: string): ListStatement =>
  listStatement(
    keys,
    (given) => `DELETE FROM ${table} USING ${given} WHERE ${toConditions(table, keys)}`,
  );

/** The same statement as a part of another one, with a name. */
export const toPart = (name: string, { columns, render }: ListStatement): ListStatement => ({
  columns,
  render: (given, list) => `${name} AS (${render(given, list)})`,
});

/** Renders a statement whose first list is parameter number `first`. */
export function renderAt({ columns, render }: ListStatement, first: number): string {
  const names = Object.keys(columns);
  const list = (name: string): string => `$${first + names.indexOf(name)}::${columns[name]}[]`;
  const given = `unnest(${names.map(list).join(", ")}) WITH ORDINALITY AS given (${names.join(", ")}, nth)`;
  return render(given, list);
}

/** The rows that a transaction writes, by the statements that write them. A later row with the same key replaces an earlier one. */
export class Batch {
  readonly #rows = new Map<ListStatement, Map<string, Row>>();

  get(statement: ListStatement, key: string): Row | undefined {
    return this.#rows.get(statement)?.get(key);
  }

  put(statement: ListStatement, key: string, row: Row): void {
    const rows = this.#rows.get(statement);
    if (rows) rows.set(key, row);
    else this.#rows.set(statement, new Map([[key, row]]));
  }

  /** @throws RouseError `internal` if there is a row with this key. */
  add(statement: ListStatement, key: string, row: Row): void {
    if (this.get(statement, key)) throw new RouseError(ID_TAKEN);
    this.put(statement, key, row);
  }

  /** Adds numbers to those of the row with this key. */
  sum(
    statement: ListStatement,
    key: string,
    row: Row,
    numbers: Readonly<Record<string, number>>,
  ): void {
    const known = this.get(statement, key) as Record<string, number> | undefined;
    const sums = Object.entries(numbers).map(([name, n]) => [name, n + (known?.[name] ?? 0)]);
    this.put(statement, key, { ...row, ...Object.fromEntries(sums) });
  }

  drop(statement: ListStatement, isDropped: (row: Row, key: string) => boolean): void {
    const rows = this.#rows.get(statement);
    for (const [key, row] of rows ?? []) if (isDropped(row, key)) rows?.delete(key);
  }

  has(statement: ListStatement): boolean {
    return (this.#rows.get(statement)?.size ?? 0) > 0;
  }

  /** The values of a statement: one list for each of its columns. */
  toLists(statement: ListStatement): unknown[][] {
    const rows = [...(this.#rows.get(statement)?.values() ?? [])];
    return Object.keys(statement.columns).map((name) => rows.map((row) => row[name]));
  }
}

const texts = new Map<ListStatement, string>();

/** Those of the statements that have rows in a batch, in their order. */
export function toStatements(batch: Batch, statements: readonly ListStatement[]): Statement[] {
  return statements.flatMap((statement) => {
    if (!batch.has(statement)) return [];
    const text = texts.get(statement) ?? renderAt(statement, 1);
    texts.set(statement, text);
    return [{ text, values: batch.toLists(statement) }];
  });
}
