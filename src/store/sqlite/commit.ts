import type { DatabaseSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { STORE_UNAVAILABLE } from "../types.ts";

/** One caller's part of a commit. */
interface Member<T> {
  write(): T;
  /** More than one statement: it is undone alone when it fails. */
  many: boolean;
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** The most callers of one commit: bounds how long the others wait. */
const MAX_MEMBERS = 512;

export interface GroupCommit {
  /** Runs `write` inside the next commit; resolves with its value once that is on disk. */
  add<T>(write: () => T, options?: { many?: boolean }): Promise<T>;
  /** Callers that wait for the next commit. */
  readonly waiting: number;
  /** Commits what waits, now. */
  flush(): void;
  onCommitted(listener: () => void): void;
}

/**
 * Group commit: all that is written during one turn of the event loop, and while the next turns bring more, shares one
 * transaction and so one fsync. A caller whose statements fail harms no other; a commit that fails rejects all with
 * `store_unavailable`, and nothing of it stays.
 */
export function createGroupCommit(db: DatabaseSync): GroupCommit {
  let members: Member<unknown>[] = [];
  const listeners: (() => void)[] = [];
  const begin = db.prepare("BEGIN IMMEDIATE");
  const end = db.prepare("COMMIT");

  const runMember = (member: Member<unknown>): (() => void) => {
    if (!member.many) {
      const value = member.write();
      return () => member.resolve(value);
    }
    db.exec("SAVEPOINT member");
    try {
      const value = member.write();
      db.exec("RELEASE member");
      return () => member.resolve(value);
    } catch (error) {
      if (!db.isTransaction) throw error;
      db.exec("ROLLBACK TO member; RELEASE member");
      return () => member.reject(unavailable(error));
    }
  };

  const flush = (): void => {
    if (members.length === 0) return;
    const group = members;
    members = [];
    const settle: (() => void)[] = [];
    try {
      begin.run();
      for (const member of group) {
        try {
          settle.push(runMember(member));
        } catch (error) {
          // A single statement undoes itself; some errors (a full disk) undo the transaction too.
          if (!db.isTransaction) throw error;
          settle.push(() => member.reject(unavailable(error)));
        }
      }
      end.run();
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      for (const member of group) member.reject(unavailable(error));
      return;
    }
    for (const done of settle) done();
    for (const listener of listeners) listener();
  };

  const gather = (before: number): void => {
    setImmediate(() => {
      if (members.length > before && members.length < MAX_MEMBERS) gather(members.length);
      else flush();
    });
  };

  return {
    get waiting() {
      return members.length;
    },
    flush,
    onCommitted: (listener) => listeners.push(listener),
    add: <T>(write: () => T, options?: { many?: boolean }) =>
      new Promise<T>((resolve, reject) => {
        members.push({ write, many: options?.many ?? false, resolve: resolve as (value: unknown) => void, reject });
        if (members.length === 1) gather(0);
      }),
  };
}

function unavailable(cause: unknown): RouseError {
  return cause instanceof RouseError ? cause : new RouseError(STORE_UNAVAILABLE, { cause });
}
