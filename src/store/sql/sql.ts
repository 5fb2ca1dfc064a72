import type { Logger } from "../../core/log.ts";
import type { Ms } from "../records.ts";

/** Runs statements of PostgreSQL's dialect. Values are positional: `$1` is the first. */
export interface Sql {
  /** @throws RouseError `store_unavailable`, or `internal` if the database refuses the values. */
  query<T>(text: string, values?: readonly unknown[]): Promise<T[]>;
}

/** Tables beside those of the store, in the same schema. */
export interface SqlDatabase extends Sql {
  /** The schema that holds the tables. Names of advisory locks contain it. */
  readonly schema: string;
  /** Runs `work` between BEGIN and COMMIT. An error that it throws rolls back. */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** Applies the migrations that are missing, in order; `table` records which were applied. */
  migrate(migrations: readonly string[], table: string): Promise<void>;
  close(): Promise<void>;
}

/** The default export of the module that a store driver names in `sql`. */
export type OpenSql = (
  url: string,
  options: {
    env: Record<string, string | undefined>;
    log: Logger;
    /** The most connections. */
    connections: number;
    /** The database ends a statement that takes longer. */
    statementMs: Ms;
  },
) => Promise<SqlDatabase>;

/** A database and the module that opens it, in a form that a thread can be given. */
export interface SqlSource {
  url: string;
  /** The module's file URL; its default export is an `OpenSql`. */
  module: string;
  /** Variables of the environment that the module reads. */
  env: RegExp;
}

/** Opens the database of a source. */
export async function openSql(
  { url, module }: SqlSource,
  options: Parameters<OpenSql>[1],
): Promise<SqlDatabase> {
  const { default: open } = (await import(module)) as { default: OpenSql };
  return open(url, options);
}
