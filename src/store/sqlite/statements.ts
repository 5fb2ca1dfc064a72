import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { ID_TAKEN } from "../sql/errors.ts";
import { STORE_UNAVAILABLE } from "../types.ts";

const SQLITE_BUSY = 5;
const SQLITE_CONSTRAINT = 19;

/** The driver's errors as ours, with the cause kept; what the driver did not throw comes back as it is. */
export function sqliteError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof RouseError) return error;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code !== "ERR_SQLITE_ERROR" && code !== "ERR_INVALID_STATE") return error;
  if (typeof errcode === "number" && (errcode & 0xff) === SQLITE_CONSTRAINT) {
    return new RouseError(ID_TAKEN, { cause: error });
  }
  return new RouseError(STORE_UNAVAILABLE, { cause: error });
}

/** Whether another process holds a lock that a statement needs. */
export function isBusy(error: unknown): boolean {
  const { errcode } = ((error as Error | undefined)?.cause ?? {}) as { errcode?: unknown };
  return typeof errcode === "number" && (errcode & 0xff) === SQLITE_BUSY;
}

/** Prepares each statement once, by its text. Failures of the driver are RouseErrors. */
export class Statements {
  readonly db: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.db = db;
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = this.db.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  /** Runs a statement; returns how many rows changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    try {
      return Number(this.#prepare(sql).run(...values).changes);
    } catch (error) {
      throw sqliteError(error);
    }
  }

  get<T>(sql: string, ...values: SQLInputValue[]): T | undefined {
    try {
      return this.#prepare(sql).get(...values) as T | undefined;
    } catch (error) {
      throw sqliteError(error);
    }
  }

  all<T>(sql: string, ...values: SQLInputValue[]): T[] {
    try {
      return this.#prepare(sql).all(...values) as T[];
    } catch (error) {
      throw sqliteError(error);
    }
  }
}
