import { randomUUID } from "node:crypto";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { createLogger } from "../../core/log.ts";
import { RouseError } from "../../core/errors.ts";
import { openSql, type Sql, type SqlDatabase, type SqlSource } from "../../store/sql/sql.ts";
import { prepareDatabase } from "../../store/sqlite/schema.ts";
import { Statements } from "../../store/sqlite/connection.ts";
import { FILE_MIGRATIONS, MIGRATIONS_TABLE, SHARED_MIGRATIONS } from "./schema.ts";

/**
 * The tables of documents: in the store's database, or in a file. Statements are of the dialect that PostgreSQL and SQLite share.
 * One transaction writes at a time, of whichever gateway: rows get their numbers in the order in which they can be seen.
 */
export class DocumentCatalog implements Sql {
  /** An expression of the time in milliseconds, by one clock for all gateways. */
  readonly now: string;
  /** The time for which a gateway keeps what it has taken without a sign that it still works on it, in milliseconds. */
  readonly leaseMs: number;
  readonly #db: SqlDatabase;
  readonly #isShared: boolean;
  #last: Promise<unknown> = Promise.resolve();

  constructor(db: SqlDatabase, isShared: boolean) {
    this.#db = db;
    this.#isShared = isShared;
    const seconds = isShared ? "extract(epoch FROM clock_timestamp())" : "unixepoch('subsec')";
    this.now = `CAST(${seconds} * 1000 AS bigint)`;
    // One process at a time uses a file.
    this.leaseMs = isShared ? 15_000 : Number.MAX_SAFE_INTEGER / 4;
  }

  query<T>(text: string, values?: readonly unknown[]): Promise<T[]> {
    return this.#db.query<T>(text, values);
  }

  /** Runs `work` in a transaction that is on disk for good when this resolves, after those that were asked for before. */
  write<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const written = this.#last.then(() =>
      this.#db.transaction(async (sql) => {
        await this.#lock(sql);
        return work(sql);
      }),
    );
    this.#last = written.catch(() => undefined);
    return written;
  }

  /** Does long work that numbers no rows before `write`, where others can write at the same time; else nothing. */
  async prepareWrite(work: (sql: Sql) => Promise<void>): Promise<void> {
    if (this.#isShared) await this.#db.transaction(work);
  }

  /** Waits until no other gateway writes, and keeps others from it to the end of the transaction. */
  async #lock(sql: Sql): Promise<void> {
    const text = "SELECT pg_advisory_xact_lock(hashtextextended($1, 7422))";
    if (this.#isShared) await sql.query(text, [`rouse ${this.#db.schema}`]);
  }

  /** Makes the tables, where they are missing. */
  async prepare(): Promise<void> {
    const migrations = this.#isShared ? SHARED_MIGRATIONS : FILE_MIGRATIONS;
    await this.#db.migrate(migrations, MIGRATIONS_TABLE);
    await this.write(async (sql) => {
      const known = await sql.query("SELECT id FROM knowledge_catalog");
      if (known.length === 0)
        await sql.query("INSERT INTO knowledge_catalog (id) VALUES ($1)", [randomUUID()]);
    });
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

/** Converts a value for SQLite; PostgreSQL takes it as it is. */
const toSqlite = (value: unknown): SQLInputValue =>
  (typeof value === "boolean" ? Number(value) : (value ?? null)) as SQLInputValue;

const PLACE = /\$(\d+)/g;

/** A file of SQLite, asked as PostgreSQL is. One transaction follows the other. */
class FileDatabase implements SqlDatabase {
  readonly schema = "main";
  readonly #db: DatabaseSync;
  readonly #statements: Statements;
  readonly #now: number;
  readonly #texts = new Map<string, string>();

  constructor(file: string, now: number) {
    this.#db = new DatabaseSync(file);
    this.#statements = new Statements(this.#db);
    this.#now = now;
    this.#db.exec("PRAGMA busy_timeout=5000; PRAGMA cache_size=-16000; PRAGMA mmap_size=268435456");
  }

  async query<T>(text: string, values: readonly unknown[] = []): Promise<T[]> {
    let known = this.#texts.get(text);
    if (known === undefined) this.#texts.set(text, (known = text.replace(PLACE, "?$1")));
    return this.#statements.all<T>(known, ...values.map(toSqlite));
  }

  async transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    this.#statements.run("BEGIN IMMEDIATE");
    try {
      const value = await work(this);
      this.#statements.run("COMMIT");
      return value;
    } catch (error) {
      if (this.#db.isTransaction) this.#statements.run("ROLLBACK");
      throw error;
    }
  }

  async migrate(migrations: readonly string[]): Promise<void> {
    try {
      prepareDatabase(this.#db, this.#now, migrations);
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      const { code, issues } = error;
      const message = error.message.replace("store.url", "knowledge.db");
      throw new RouseError({ code, message, ...(issues ? { issues } : {}) }, { cause: error });
    }
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

/** A document of a thousand pages is deleted in one statement. */
const LIMITS = { connections: 4, statementMs: 60_000 };

export interface CatalogPlace {
  /** The path of the file, if the documents are not in the store's database. */
  database: string;
  /** The store's database, if the documents are there. */
  sql?: SqlSource | undefined;
  now: number;
}

/**
 * Opens the documents' tables. Who `writes` makes them where they are missing.
 * @throws RouseError `config_invalid` where a newer version of the program wrote them.
 */
export async function openCatalog(
  { database, sql, now }: CatalogPlace,
  writes: boolean,
): Promise<DocumentCatalog> {
  const db = sql
    ? await openSql(sql, { env: process.env, log: createLogger("silent"), ...LIMITS })
    : new FileDatabase(database, now);
  const catalog = new DocumentCatalog(db, sql !== undefined);
  try {
    if (writes) await catalog.prepare();
    return catalog;
  } catch (error) {
    await catalog.close();
    throw error;
  }
}

/** `($1, $2, …)` for a list of values, the first of which is the value number `first`. */
export const places = (count: number, first = 1): string =>
  `(${Array.from({ length: count }, (_, index) => `$${first + index}`).join(", ")})`;
