import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { DOCUMENT_RULES, exportDocuments, importDocuments } from "../../knowledge/transfer.ts";
import { MIGRATIONS_TABLE, SHARED_MIGRATIONS } from "../../knowledge/catalog/schema.ts";
import { acquireLock, readGateway } from "../../store/lock.ts";
import { findStoreDriver, getSqlSource } from "../../store/open.ts";
import { openSql, type SqlSource } from "../../store/sql/sql.ts";
import {
  copyTables,
  type PutRow,
  type SourceTable,
  type TransferOptions,
} from "../../store/sql/transfer.ts";
import type { StoreDriver } from "../../store/types.ts";
import { noSuch, usage } from "../failure.ts";
import { SYSTEM, type CliIo } from "../io.ts";
import { createCommandLogger } from "../log.ts";
import type { CommonOptions } from "../options.ts";
import { createProgress } from "../progress.ts";
import { findStore } from "../settings.ts";

interface Place {
  driver: StoreDriver;
  /** The folder of the documents, if they are not in the store's database. */
  folder: string;
  options: TransferOptions;
  /** The database that documents share with the store. */
  shared: SqlSource | undefined;
}

async function createPlace(
  url: string,
  folder: string,
  options: CommonOptions,
  io: CliIo,
): Promise<Place> {
  const driver = await findStoreDriver(url);
  const shared = getSqlSource(driver, url);
  const log = createCommandLogger(options, io);
  const parts = { url, env: io.env, clock: SYSTEM.clock, log };
  return { driver, folder, shared, options: shared ? { ...parts, rules: DOCUMENT_RULES } : parts };
}

/** The store that is copied: a URL, or the path of a SQLite file, whose documents are beside it or in the state folder. */
async function findSource(
  name: string,
  stateDir: string,
  options: CommonOptions,
  io: CliIo,
): Promise<Place> {
  const [, path = name] = /^sqlite:(.*)$/.exec(name) ?? [];
  if (/^[a-z]+:/.test(path)) return createPlace(path, stateDir, options, io);
  const file = resolve(io.cwd, path);
  if (!existsSync(file)) throw noSuch(`there is no file ${file}`);
  const running = readGateway(dirname(file));
  if (running) throw usage(`process ${running.pid} uses ${file}: stop it first`);
  const folder = existsSync(join(dirname(file), "knowledge.db")) ? dirname(file) : stateDir;
  return createPlace(`sqlite:${file}`, folder, options, io);
}

const readTables = <T>(
  { driver, folder, shared, options }: Place,
  use: (tables: readonly SourceTable[]) => Promise<T>,
): Promise<T> =>
  driver.exportTables(options, (store) =>
    shared ? use(store) : exportDocuments(folder, (documents) => use([...store, ...documents])),
  );

/** Makes the tables of documents in the database of a store. */
async function makeDocumentTables(source: SqlSource, { env = {}, log }: TransferOptions) {
  const sql = await openSql(source, { env, log, connections: 1, statementMs: 600_000 });
  try {
    await sql.migrate(SHARED_MIGRATIONS, MIGRATIONS_TABLE);
  } finally {
    await sql.close();
  }
}

async function fillTables<T>(
  { driver, folder, shared, options }: Place,
  hasDocuments: boolean,
  use: (tables: ReadonlyMap<string, PutRow>) => Promise<T>,
): Promise<T> {
  if (shared && hasDocuments) await makeDocumentTables(shared, options);
  return driver.importTables(options, (store) =>
    shared || !hasDocuments
      ? use(store)
      : importDocuments(folder, options.clock.now(), (documents) =>
          use(new Map([...store, ...documents])),
        ),
  );
}

/** Fills an empty store with all that another one and its documents hold. */
export async function importStore(name: string, options: CommonOptions, io: CliIo) {
  const { url, stateDir } = await findStore(options, io);
  const target = await createPlace(url, stateDir, options, io);
  const source = await findSource(name, stateDir, options, io);
  const began = io.now();
  const progress = createProgress(io, "importing");
  const shared = source.driver.shared && target.driver.shared;
  const lock = await acquireLock(stateDir, undefined, { shared });
  try {
    const tables = await readTables(source, (all) =>
      fillTables(
        target,
        all.some((table) => table.name.startsWith("knowledge_") && table.rows > 0),
        (into) =>
          copyTables(all, into, (table, done, total) => progress.update(done, table, total)),
      ),
    );
    const rows = Object.values(tables).reduce((sum, count) => sum + count, 0);
    return { rows, tables, seconds: (io.now() - began) / 1000 };
  } finally {
    lock.release();
    progress.end();
  }
}
