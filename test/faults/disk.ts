/** Faults of SQLite, put in at its statements: whatever opens the database, and however it commits. */
import { DatabaseSync, StatementSync } from "node:sqlite";
import { LogFile } from "../../src/store/sqlite/disk.ts";
import { current, type Incarnation } from "./time.ts";

/** The faults of a simulated disk. */
export interface Disk {
  /** No byte can be written. */
  isFull: boolean;
  /** SQLite undoes a transaction that fails on a full disk, and does not leave that to its caller. */
  undoes: boolean;
  /** Called before and after each commit; what happens in it is as if a power cut had happened there. */
  onCommit?(moment: "before" | "after"): void;
}

const disks = new WeakMap<Incarnation, Disk>();
const opened = new WeakMap<Incarnation, Set<DatabaseSync>>();
const logs = new WeakMap<Incarnation, Set<LogFile>>();

export const setDisk = (of: Incarnation, disk: Disk): void => void disks.set(of, disk);

/** Closes the files of a dead process, as the system does. */
export function closeFiles(of: Incarnation): void {
  for (const db of opened.get(of) ?? []) if (db.isOpen) db.close();
  opened.delete(of);
  for (const log of logs.get(of) ?? []) log.close();
  logs.delete(of);
}

const WRITES = /^\s*(?:INSERT|UPDATE|DELETE|REPLACE|COMMIT)\b/i;
const COMMITS = /^\s*COMMIT\b/i;

function sqliteFailure(errcode: number, errstr: string): Error {
  return Object.assign(new Error(errstr), { code: "ERR_SQLITE_ERROR", errcode, errstr });
}

const isGone = (): Error =>
  Object.assign(new Error("database is not open"), { code: "ERR_INVALID_STATE" });

interface Owner {
  of: Incarnation;
  db: DatabaseSync;
  sql: string;
}

/** Runs a statement of a gateway under simulation as its disk lets it. */
function guard<T>({ of, db, sql }: Owner, statement: () => T): T {
  // The process is gone, though this code still runs: the error reaches no one.
  if (!of.alive) throw isGone();
  const disk = disks.get(of);
  if (!disk || !db.isTransaction) return statement();
  const commits = COMMITS.test(sql);
  if (disk.isFull && WRITES.test(sql)) {
    if (disk.undoes && db.isTransaction) db.exec("ROLLBACK");
    throw sqliteFailure(13, "database or disk is full");
  }
  if (commits) disk.onCommit?.("before");
  if (!of.alive) throw isGone();
  const result = statement();
  if (commits) disk.onCommit?.("after");
  return result;
}

/**
 * Lets a sync take no time, and the log grow: the system's threads, and that of checkpoints, know no virtual time. A gateway that is
 * killed loses nothing that was not synced: its system goes on. What a power loss takes is tested in `test/store/disk`.
 */
function installLog(): void {
  const { sync, size, close } = LogFile.prototype;
  LogFile.prototype.sync = function (this: LogFile) {
    const of = current();
    if (!of) return sync.call(this);
    logs.set(of, (logs.get(of) ?? new Set()).add(this));
    return of.alive ? Promise.resolve() : Promise.reject(isGone());
  };
  LogFile.prototype.size = function (this: LogFile) {
    return current() ? Promise.resolve(0) : size.call(this);
  };
  LogFile.prototype.close = function (this: LogFile) {
    const of = current();
    if (of) logs.get(of)?.delete(this);
    close.call(this);
  };
}

let isInstalled = false;

/** Puts faults into the statements of this process, for gateways under simulation alone. */
export function installDisk(): void {
  if (isInstalled) return;
  isInstalled = true;
  installLog();
  const owners = new WeakMap<object, Owner>();
  const { prepare, exec } = DatabaseSync.prototype;
  /** Notes whose database it is: the class itself cannot be replaced. */
  const own = (db: DatabaseSync): Incarnation | undefined => {
    const of = current();
    if (!of) return undefined;
    if (!of.alive) throw isGone();
    opened.set(of, (opened.get(of) ?? new Set()).add(db));
    return of;
  };
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, ...given) {
    const of = own(this);
    const statement = prepare.apply(this, given);
    if (of) owners.set(statement, { of, db: this, sql: given[0] });
    return statement;
  };
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql) {
    own(this);
    exec.call(this, sql);
  };
  const statements = StatementSync.prototype as unknown as Record<
    string,
    (...given: unknown[]) => unknown
  >;
  for (const name of ["run", "get", "all", "iterate"]) {
    const original = statements[name] as (...given: unknown[]) => unknown;
    statements[name] = function (this: object, ...given: unknown[]): unknown {
      const owner = owners.get(this);
      return owner ? guard(owner, () => original.apply(this, given)) : original.apply(this, given);
    };
  }
}
