import { createReadStream, existsSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { RouseError } from "../../core/errors.ts";
import { DOCUMENT_RULES, exportDocuments, importDocuments } from "../../knowledge/transfer.ts";
import { MIGRATIONS_TABLE, SHARED_MIGRATIONS } from "../../knowledge/catalog/schema.ts";
import { acquireLock, type Lock } from "../../store/lock.ts";
import { findStoreDriver, getSqlSource } from "../../store/open.ts";
import { openSql, type SqlSource } from "../../store/sql/sql.ts";
import {
  ExportReader,
  renderExport,
  type SourceTable,
  type TargetTable,
  type TransferOptions,
  type Transferred,
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
  stateDir: string;
  options: TransferOptions;
  /** The database that documents share with the store; undefined if they are in the state folder. */
  shared: SqlSource | undefined;
}

async function findPlace(options: CommonOptions, io: CliIo): Promise<Place> {
  const { url, stateDir } = await findStore(options, io);
  const driver = await findStoreDriver(url);
  const log = createCommandLogger(options, io);
  const shared = getSqlSource(driver, url);
  return {
    driver,
    stateDir,
    shared,
    options: {
      url,
      env: io.env,
      clock: SYSTEM.clock,
      log,
      ...(shared && { rules: DOCUMENT_RULES }),
    },
  };
}

/** The lock of the state folder; undefined if a gateway has it. */
async function acquireIfFree({ driver, stateDir }: Place): Promise<Lock | undefined> {
  try {
    return await acquireLock(stateDir, undefined, driver);
  } catch (error) {
    if (error instanceof RouseError && error.code === "store_locked") return undefined;
    throw error;
  }
}

const BLOCK = 256 * 1024;

/** Writes an export to a new file, or to standard output. Returns its size. */
async function writeLines(
  lines: AsyncIterable<string>,
  file: string | undefined,
  io: CliIo,
): Promise<number> {
  let size = 0;
  let waiting = "";
  const handle = file === undefined ? undefined : await openNew(file);
  const write = async (): Promise<void> => {
    size += Buffer.byteLength(waiting);
    if (handle) await handle.write(waiting);
    else (io.exact ?? io).out(waiting);
    waiting = "";
  };
  try {
    for await (const line of lines) {
      waiting += line;
      if (waiting.length >= BLOCK) await write();
    }
    await write();
    await handle?.sync();
  } catch (error) {
    if (file !== undefined) await rm(file, { force: true });
    throw error;
  } finally {
    await handle?.close();
  }
  return size;
}

const openNew = (file: string) =>
  open(file, "wx", 0o600).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "EEXIST" ? usage(`${file} is there already; name a new file`) : error;
  });

/** Writes all that the store and the documents hold as lines of JSON: to standard output, or into a file, of which it tells. */
export async function exportStore(name: string | undefined, options: CommonOptions, io: CliIo) {
  const place = await findPlace(options, io);
  const { driver, stateDir, shared } = place;
  const file = name === undefined ? undefined : resolve(io.cwd, name);
  const began = io.now();
  const progress = createProgress(io, "exporting");
  const lock = await acquireIfFree(place);
  let tables: readonly SourceTable[] = [];
  let size: number;
  try {
    const write = (all: readonly SourceTable[]): Promise<number> => {
      tables = all;
      return writeLines(
        renderExport(all, began, (...parts) => progress.update(...parts)),
        file,
        io,
      );
    };
    size = await driver.exportTables(
      { ...place.options, isAlone: lock !== undefined && !driver.shared },
      (store) =>
        shared
          ? write(store)
          : exportDocuments(stateDir, (documents) => write([...store, ...documents])),
    );
  } finally {
    lock?.release();
    progress.end();
  }
  if (file === undefined) return undefined;
  const rows = Object.fromEntries(tables.map((table) => [table.name, table.rows]));
  return { file, bytes: size, seconds: (io.now() - began) / 1000, tables: rows };
}

/** Makes the tables of documents in the database of a store. */
async function makeDocumentTables(source: SqlSource, { env = {}, log }: TransferOptions) {
  const sql = await openSql(source, { env, log, connections: 1, statementMs: 600_000 });
  try {
    await sql.migrate(SHARED_MIGRATIONS, MIGRATIONS_TABLE);
  } finally {
    await sql.close();
  }
}

/** Reads a file line by line: no more than one line is in memory, and what was read of the next. */
async function* readLines(file: string): AsyncGenerator<string> {
  let begun: string[] = [];
  for await (const chunk of createReadStream(file, { encoding: "utf8", highWaterMark: BLOCK })) {
    const [first = "", ...others] = (chunk as string).split("\n");
    begun.push(first);
    for (const next of others) {
      yield begun.join("");
      begun = [next];
    }
  }
  const last = begun.join("");
  if (last !== "") yield last;
}

/** Fills an empty store with what was exported. */
export async function importStore(name: string, options: CommonOptions, io: CliIo) {
  const file = resolve(io.cwd, name);
  if (!existsSync(file)) throw noSuch(`there is no file ${file}`);
  const place = await findPlace(options, io);
  const { driver, stateDir, shared } = place;
  const began = io.now();
  const progress = createProgress(io, "importing");
  const lock = await acquireLock(stateDir, undefined, driver);
  let done: Transferred;
  try {
    const reader = new ExportReader(readLines(file));
    const counts = await reader.head();
    const hasDocuments = Object.keys(counts).some(
      (table) => table.startsWith("knowledge_") && counts[table] !== 0,
    );
    const fill = (tables: ReadonlyMap<string, TargetTable>): Promise<Transferred> =>
      reader.fill(counts, tables, (...parts) => progress.update(...parts));
    if (shared && hasDocuments) await makeDocumentTables(shared, place.options);
    done = await driver.importTables(place.options, (store) =>
      shared || !hasDocuments
        ? fill(store)
        : importDocuments(stateDir, began, (documents) => fill(new Map([...store, ...documents]))),
    );
  } finally {
    lock.release();
    progress.end();
  }
  return { ...done, seconds: (io.now() - began) / 1000 };
}
