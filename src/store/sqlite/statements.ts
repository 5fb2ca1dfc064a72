import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { ID_TAKEN } from "../errors.ts";
import { STORE_UNAVAILABLE } from "../types.ts";

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

/** One caller's part of a commit. */
interface Member {
  write(): unknown;
  /** More than one statement: it is undone alone when it fails. */
  many: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** The most callers of one commit: bounds how long each caller waits. */
const MAX_MEMBERS = 512;

export interface SqliteGroupCommit {
  /**
   * Runs `write` inside the next commit; resolves with its value once that is on disk. It may be run again, after all it
   * wrote was undone. `many: false` promises at most one statement, which undoes itself when it fails.
   */
  add<T>(write: () => T, options: { many: boolean }): Promise<T>;
  /** Callers that wait for the next commit. */
  readonly waiting: number;
  /** Commits all that wait, now. */
  flush(): void;
}

/** With a savepoint of its own, what fails is undone alone. */
function runGuarded(sql: Statements, member: Member): () => void {
  sql.run("SAVEPOINT member");
  try {
    const value = member.write();
    sql.run("RELEASE member");
    return () => member.resolve(value);
  } catch (error) {
    // Some errors, a full disk among them, undo the whole transaction.
    if (!sql.db.isTransaction) throw error;
    sql.run("ROLLBACK TO member");
    sql.run("RELEASE member");
    return () => member.reject(sqliteError(error));
  }
}

/** Returns null if the write failed, perhaps after some of its statements. */
function runOpen(sql: Statements, member: Member): (() => void) | null {
  try {
    const value = member.write();
    return () => member.resolve(value);
  } catch (error) {
    if (!sql.db.isTransaction) throw error;
    return null;
  }
}

function runOne(sql: Statements, member: Member): () => void {
  try {
    const value = member.write();
    return () => member.resolve(value);
  } catch (error) {
    if (!sql.db.isTransaction) throw error;
    return () => member.reject(sqliteError(error));
  }
}

/** Returns what settles the members once the commit is on disk; null if one of several statements failed, and all is undone. */
function runGroup(sql: Statements, group: readonly Member[], guarded: boolean): (() => void)[] | null {
  const settle: (() => void)[] = [];
  sql.run("BEGIN IMMEDIATE");
  for (const member of group) {
    const done = !member.many ? runOne(sql, member) : guarded ? runGuarded(sql, member) : runOpen(sql, member);
    if (!done) {
      sql.run("ROLLBACK");
      return null;
    }
    settle.push(done);
  }
  sql.run("COMMIT");
  return settle;
}

/**
 * Group commit: all that is written during one turn of the event loop, and while the next turns bring more, shares one
 * transaction and so one fsync. A caller whose statements fail harms no other; a commit that fails rejects all with
 * `store_unavailable`, and nothing of it stays. `onFailure` hears of the latter.
 */
export function createSqliteGroupCommit(sql: Statements, onFailure: (error: unknown) => void): SqliteGroupCommit {
  let members: Member[] = [];

  const rollBack = (): void => {
    try {
      if (sql.db.isTransaction) sql.run("ROLLBACK");
    } catch (error) {
      onFailure(error);
    }
  };

  const commitGroup = (group: readonly Member[]): void => {
    let settle: (() => void)[];
    try {
      // A savepoint for each costs more than its statements, and is hardly ever needed: only then all is written again.
      settle = runGroup(sql, group, false) ?? runGroup(sql, group, true) ?? [];
    } catch (error) {
      rollBack();
      onFailure(error);
      const failure =
        error instanceof RouseError && error.code === STORE_UNAVAILABLE.code ? error : new RouseError(STORE_UNAVAILABLE, { cause: error });
      for (const member of group) member.reject(failure);
      return;
    }
    for (const done of settle) done();
  };

  const gather = (before: number): void => {
    setImmediate(() => {
      if (members.length === 0) return;
      if (members.length > before && members.length < MAX_MEMBERS) {
        gather(members.length);
        return;
      }
      commitGroup(members.splice(0, MAX_MEMBERS));
      if (members.length > 0) gather(members.length);
    });
  };

  return {
    get waiting() {
      return members.length;
    },
    flush() {
      while (members.length > 0) commitGroup(members.splice(0, MAX_MEMBERS));
    },
    add: <T>(write: () => T, options: { many: boolean }) =>
      new Promise<T>((resolve, reject) => {
        members.push({ write, many: options.many, resolve, reject });
        if (members.length === 1) gather(0);
      }),
  };
}
