import { RouseError } from "../../core/errors.ts";
import { STORE_UNAVAILABLE } from "../types.ts";
import { sqliteError, type Statements } from "./statements.ts";

/** One caller's part of a commit. */
interface Member {
  write(): unknown;
  /** More than one statement: it is undone alone when it fails. */
  many: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** The most callers of one commit: bounds how long the others wait. */
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

/** Null where it failed, with some of its statements written perhaps. */
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

/** What settles the members once the commit is on disk; null where one of several statements failed, and all is undone. */
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
