/** A connection to a database: its statements, and the groups in which it commits. */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import type { Ms } from "../records.ts";
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

/** Returns whether another process holds a lock that a statement needs. */
function isBusy(error: unknown): boolean {
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

/** One caller's part of a commit. */
interface Member {
  write(): unknown;
  /** More than one statement: it is undone alone when it fails. */
  many: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** The most that one commit holds, in statements: bounds how long the event loop is busy with it. */
const MAX_WEIGHT = 512;
/** The weight of a member of several statements. */
const MANY_WEIGHT = 4;
/** Another process writes for no longer than this; a command of the CLI takes some milliseconds. */
const BUSY_TIMEOUT: Ms = 5000;
const FIRST_BUSY_DELAY: Ms = 1;
const MAX_BUSY_DELAY: Ms = 25;

export interface SqliteGroupCommit {
  /**
   * Runs `write` inside the next commit; resolves with its value once that is on disk. It may be run again, after all it
   * wrote was undone. `many: false` promises at most one statement, which undoes itself when it fails.
   */
  add<T>(write: () => T, options: { many: boolean }): Promise<T>;
  /**
   * Runs `write` in a commit of its own, after those that wait for the disk; resolves once that is visible. For what
   * can be made again from what is durable: a power loss may undo it, together with all that was written after it.
   */
  derive<T>(write: () => T): Promise<T>;
  /** Resolves once all that a read can see is durable, except what `derive` wrote. */
  durable(): Promise<void>;
  /** Runs `work` while nothing is committed; the event loop goes on. */
  hold<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when all that waited has been settled. */
  drain(): Promise<void>;
  /** Callers that wait for the next commit, or for the disk. */
  readonly waiting: number;
}

/**
 * Runs the write of a member and returns what settles it. With a savepoint of its own (`guarded`), what fails is undone alone.
 * Without, null is returned if a write of several statements failed, perhaps after some of them.
 */
function runMember(sql: Statements, member: Member, guarded: boolean): (() => void) | null {
  const hasSavepoint = member.many && guarded;
  if (hasSavepoint) sql.run("SAVEPOINT member");
  try {
    const value = member.write();
    if (hasSavepoint) sql.run("RELEASE member");
    return () => member.resolve(value);
  } catch (error) {
    // Some errors, a full disk among them, undo the whole transaction.
    if (!sql.db.isTransaction) throw error;
    if (member.many && !guarded) return null;
    if (hasSavepoint) {
      sql.run("ROLLBACK TO member");
      sql.run("RELEASE member");
    }
    return () => member.reject(sqliteError(error));
  }
}

/** Returns what settles the members once the commit is on disk; null if one of several statements failed, and all is undone. */
function runGroup(
  sql: Statements,
  group: readonly Member[],
  guarded: boolean,
): (() => void)[] | null {
  const settle: (() => void)[] = [];
  sql.run("BEGIN IMMEDIATE");
  for (const member of group) {
    const done = runMember(sql, member, guarded);
    if (!done) {
      sql.run("ROLLBACK");
      return null;
    }
    settle.push(done);
  }
  sql.run("COMMIT");
  return settle;
}

const sleep = (ms: Ms): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const toUnavailable = (error: unknown): RouseError =>
  error instanceof RouseError && error.code === STORE_UNAVAILABLE.code
    ? error
    : new RouseError(STORE_UNAVAILABLE, { cause: error });

interface Parts {
  sql: Statements;
  /** Resolves when all that was committed before the call is on disk. */
  sync(): Promise<void>;
  /** Hears of each commit: of one that `add` waits for when it is on disk. */
  onCommit(): void;
  /** Hears of commits that failed; nothing of them stays. */
  onFailure(error: unknown): void;
  /** Called when `sync` failed: what is on disk is unknown, and nothing is accepted any more. */
  onBroken(error: unknown): void;
}

/**
 * Group commit: all that is written during one turn of the event loop, while the next turns bring more and while the
 * group before is on its way to the disk, shares one transaction and one sync. A caller whose statements fail harms no
 * other; a commit that fails rejects all with `store_unavailable`, and nothing of it stays.
 */
class GroupCommit implements SqliteGroupCommit {
  readonly #parts: Parts;
  #members: Member[] = [];
  readonly #derived: Member[] = [];
  #loop: Promise<void> | undefined;
  #syncing: Promise<void> | undefined;
  /** Members of the commit that is on its way to the disk. */
  #unsynced = 0;
  #held: Promise<unknown> | undefined;
  #broken: RouseError | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get waiting(): number {
    return this.#members.length + this.#unsynced;
  }

  add<T>(write: () => T, { many }: { many: boolean }): Promise<T> {
    return this.#push(this.#members, write, many);
  }

  derive<T>(write: () => T): Promise<T> {
    return this.#push(this.#derived, write, true);
  }

  async durable(): Promise<void> {
    await this.#syncing;
    if (this.#broken) throw this.#broken;
  }

  async hold<T>(work: () => Promise<T>): Promise<T> {
    await this.#held;
    const running = work();
    const held = running.then(
      () => undefined,
      () => undefined,
    );
    this.#held = held;
    await held;
    this.#held = undefined;
    this.#start();
    return running;
  }

  async drain(): Promise<void> {
    while (this.#loop || this.#syncing || this.#held)
      await Promise.all([this.#loop, this.#syncing, this.#held]);
  }

  #push<T>(queue: Member[], write: () => T, many: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#broken) return reject(this.#broken);
      queue.push({ write, many, resolve, reject });
      this.#start();
    });
  }

  #start(): void {
    if (!this.#hasWork()) return;
    this.#loop ??= this.#run().finally(() => {
      this.#loop = undefined;
      this.#start();
    });
  }

  #hasWork(): boolean {
    return (
      !this.#held && (this.#derived.length > 0 || (this.#members.length > 0 && !this.#syncing))
    );
  }

  async #run(): Promise<void> {
    // Callers that were answered just now come back within some turns: their writes go with those that waited for the disk.
    for (let before = 0; this.#hasWork(); before = this.#members.length) {
      await nextTurn();
      if (this.#held) return;
      const ready =
        this.#members.length > 0 &&
        !this.#syncing &&
        (this.#members.length <= before || this.#members.length >= MAX_WEIGHT);
      if (ready) await this.#commitMembers();
      else if (this.#derived.length > 0 && (this.#members.length === 0 || this.#syncing))
        await this.#commitDerived();
    }
  }

  #takeGroup(): Member[] {
    let weight = 0;
    const end = this.#members.findIndex(
      ({ many }) => (weight += many ? MANY_WEIGHT : 1) > MAX_WEIGHT,
    );
    return this.#members.splice(0, end === -1 ? this.#members.length : end);
  }

  async #commitMembers(): Promise<void> {
    const group = this.#takeGroup();
    const settle = await this.#commit(group);
    if (!settle) return;
    this.#unsynced = group.length;
    this.#syncing = this.#parts
      .sync()
      .then(
        () => {
          for (const done of settle) done();
          this.#parts.onCommit();
        },
        (error: unknown) => this.#break(group, error),
      )
      .finally(() => {
        this.#syncing = undefined;
        this.#unsynced = 0;
        this.#start();
      });
  }

  async #commitDerived(): Promise<void> {
    const settle = await this.#commit(this.#derived.splice(0, 1));
    if (!settle) return;
    for (const done of settle) done();
    this.#parts.onCommit();
  }

  /** Returns what settles the members; undefined if the commit failed, and they are rejected. */
  async #commit(group: readonly Member[]): Promise<(() => void)[] | undefined> {
    const { sql, onFailure } = this.#parts;
    let delay = FIRST_BUSY_DELAY;
    for (let waited = 0; ; delay = Math.min(2 * delay, MAX_BUSY_DELAY)) {
      try {
        // A savepoint for each costs more than its statements, and is hardly ever needed: only then all is written again.
        return runGroup(sql, group, false) ?? runGroup(sql, group, true) ?? [];
      } catch (error) {
        this.#rollBack();
        if (!isBusy(error) || waited >= BUSY_TIMEOUT) {
          onFailure(error);
          for (const member of group) member.reject(toUnavailable(error));
          return undefined;
        }
      }
      // SQLite's own timeout would block the event loop.
      await sleep(delay);
      waited += delay;
    }
  }

  #rollBack(): void {
    const { sql, onFailure } = this.#parts;
    try {
      if (sql.db.isTransaction) sql.run("ROLLBACK");
    } catch (error) {
      onFailure(error);
    }
  }

  #break(group: readonly Member[], error: unknown): void {
    this.#broken = toUnavailable(error);
    for (const member of [...group, ...this.#members.splice(0), ...this.#derived.splice(0)])
      member.reject(this.#broken);
    this.#parts.onBroken(error);
  }
}

/** Creates the one writer of a database. */
export const createSqliteGroupCommit = (parts: Parts): SqliteGroupCommit => new GroupCommit(parts);
