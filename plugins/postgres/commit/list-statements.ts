import { ID_TAKEN, RouseError } from "#store-kit";
import type { Statement } from "../client/lane.ts";

type Columns = Readonly<Record<string, "text" | "int" | "bigint" | "bytea" | "boolean">>;
export type Row<C extends Columns> = { readonly [Name in keyof C]: unknown };

/** A statement that writes any number of rows: each column is sent as one list. */
export interface ListStatement<C extends Columns = Columns> {
  columns: C;
  /**
   * Renders the SQL. `given`: its rows as a table expression with the name `given`, in order by `nth`; `list`: the list of a
   * column.
   */
  render(given: string, list: (column: string) => string): string;
}

export const listStatement = <C extends Columns>(
  columns: C,
  render: ListStatement<C>["render"],
): ListStatement<C> => ({ columns, render });

/** A statement that adds rows. `end` is the end of its SQL, such as ON CONFLICT; rows are added in the order of `orderBy`. */
export function insertInto<C extends Columns>(
  table: string,
  columns: C,
  { end = "", orderBy = "nth" }: { end?: string; orderBy?: string } = {},
): ListStatement<C> {
  const names = Object.keys(columns).join(", ");
  return listStatement(
    columns,
    (given) =>
      `INSERT INTO ${table} (${names}) SELECT ${names} FROM ${given} ORDER BY ${orderBy} ${end}`,
  );
}

/** A statement that sets columns of the rows that have the same `keys`. */
export function update<C extends Columns, K extends Columns>(
  table: string,
  keys: K,
  columns: C,
): ListStatement<C & K> {
  const set = Object.keys(columns).map((name) => `${name} = given.${name}`);
  const same = Object.keys(keys).map((name) => `${table}.${name} = given.${name}`);
  return listStatement(
    { ...columns, ...keys },
    (given) => `UPDATE ${table} SET ${set.join(", ")} FROM ${given} WHERE ${same.join(" AND ")}`,
  );
}

/** A statement that deletes the rows that have the same `keys`. */
export function deleteFrom<K extends Columns>(table: string, keys: K): ListStatement<K> {
  const same = Object.keys(keys).map((name) => `${table}.${name} = given.${name}`);
  return listStatement(
    keys,
    (given) => `DELETE FROM ${table} USING ${given} WHERE ${same.join(" AND ")}`,
  );
}

/** Renders a statement whose first list is parameter number `first`. */
export function renderAt({ columns, render }: ListStatement, first: number): string {
  const names = Object.keys(columns);
  const list = (name: string): string => `$${first + names.indexOf(name)}::${columns[name]}[]`;
  const given = `unnest(${names.map(list).join(", ")}) WITH ORDINALITY AS given (${names.join(", ")}, nth)`;
  return render(given, list);
}

/** The rows that a transaction writes, by the statements that write them. A later row with the same key replaces an earlier one. */
export class Batch {
  readonly #rows = new Map<unknown, Map<string, Row<Columns>>>();

  get<C extends Columns>(statement: ListStatement<C>, key: string): Row<C> | undefined {
    return this.#rows.get(statement)?.get(key) as Row<C> | undefined;
  }

  put<C extends Columns>(statement: ListStatement<C>, key: string, row: Row<C>): void {
    const rows = this.#rows.get(statement);
    if (rows) rows.set(key, row);
    else this.#rows.set(statement, new Map([[key, row]]));
  }

  /** @throws RouseError `internal` if there is a row with this key. */
  add<C extends Columns>(statement: ListStatement<C>, key: string, row: Row<C>): void {
    if (this.get(statement, key)) throw new RouseError(ID_TAKEN);
    this.put(statement, key, row);
  }

  /** Adds numbers to those of the row with this key. */
  sum<C extends Columns, Name extends keyof C & string>(
    statement: ListStatement<C>,
    key: string,
    row: Omit<Row<C>, Name>,
    numbers: Readonly<Record<Name, number>>,
  ): void {
    const known = this.get(statement, key) as Record<Name, number> | undefined;
    const sums = Object.entries<number>(numbers).map(([name, n]) => [
      name,
      n + (known?.[name as Name] ?? 0),
    ]);
    this.put(statement, key, { ...row, ...Object.fromEntries(sums) } as Row<C>);
  }

  drop(statement: ListStatement, isDropped: (row: Row<Columns>, key: string) => boolean): void {
    const rows = this.#rows.get(statement);
    for (const [key, row] of rows ?? []) if (isDropped(row, key)) rows?.delete(key);
  }

  has(statement: unknown): boolean {
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
