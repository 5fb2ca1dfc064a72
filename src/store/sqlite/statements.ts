import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";

/** Prepares each statement once, by its text. */
export class Statements {
  readonly db: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.db = db;
  }

  prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = this.db.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  /** Runs a statement; returns how many rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.prepare(sql).run(...values).changes);
  }

  get<T>(sql: string, ...values: SQLInputValue[]): T | undefined {
    return this.prepare(sql).get(...values) as T | undefined;
  }

  all<T>(sql: string, ...values: SQLInputValue[]): T[] {
    return this.prepare(sql).all(...values) as T[];
  }
}
