import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { systemClock } from "../core/clock.ts";
import { copyKnowledge, findDocuments } from "../knowledge/copy.ts";
import type { CopiedCount } from "../store/copied-table.ts";
import { copyStore } from "../store/copy.ts";
import { acquireLock } from "../store/lock.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { createCommandLogger } from "./log.ts";
import type { CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { createProgress } from "./progress.ts";
import { findStore } from "./settings.ts";
import { findDriver } from "./store-driver.ts";

export interface StoreCopyOptions extends CommonOptions {
  from?: string;
  to: string;
}

const SCHEME = "sqlite:";

/** The source's file, and the state folder that it belongs to: its own, or the config's where it lies elsewhere. */
async function getSource(
  options: StoreCopyOptions,
  io: CliIo,
): Promise<{ file: string; stateDir: string }> {
  const { stateDir } = await findStore(options, io);
  const from = options.from ?? `${SCHEME}${join(stateDir, "rouse.db")}`;
  if (!from.startsWith(SCHEME)) throw usage('--from: write "sqlite:<path of the store\'s file>"');
  const file = resolve(io.cwd, from.slice(SCHEME.length));
  if (!existsSync(file)) throw usage(`--from: there is no file ${file}`);
  return {
    file,
    stateDir: existsSync(join(dirname(file), "gateway.lock")) ? dirname(file) : stateDir,
  };
}

/** Copies a store from a file into PostgreSQL, with its documents. A second run goes on where the first ended. */
export async function copy(options: StoreCopyOptions, io: CliIo): Promise<void> {
  const driver = await findDriver(options.to, options, io).catch(() => undefined);
  if (!driver?.copy) throw usage('--to: write "postgres://user:password@host:5432/database"');
  const { file, stateDir } = await getSource(options, io);
  const began = io.now();
  const log = createCommandLogger(options, io);
  const progress = createProgress(io, "copying");
  const onProgress = (table: string, done: number, total: number): void =>
    progress.update(done, `${table} ${done}/${total}`);
  await using opened = new AsyncDisposableStack();
  const lock = await acquireLock(stateDir);
  opened.defer(() => lock.release());
  opened.defer(() => progress.end());
  const target = await copyStore(driver, {
    file,
    url: options.to,
    env: io.env,
    clock: systemClock,
    log,
    onProgress,
  });
  opened.defer(() => target.close());
  const database = findDocuments(file, stateDir);
  const documents = await copyKnowledge({ database, target, now: io.now(), onProgress });
  await target.finish();
  progress.end();
  const shown = { to: target.shown, documents: documents.length > 0 ? database : null };
  report([...target.tables, ...documents], shown, (io.now() - began) / 1000, options, io);
}

interface Places {
  to: string;
  /** The path that documents were copied from; null if there were none. */
  documents: string | null;
}

function report(
  tables: readonly CopiedCount[],
  { to, documents }: Places,
  seconds: number,
  options: StoreCopyOptions,
  io: CliIo,
): void {
  if (options.json) return printJson(io, { to, documents, seconds, tables });
  printTable(
    io,
    ["TABLE", "ROWS", "SHA-256"],
    tables.map(({ table, rows, hash }) => [table, String(rows), hash.slice(0, 16)]),
  );
  io.out(`\ncopied to ${to} in ${seconds.toFixed(1)} s; counts and hashes of all tables agree\n`);
  io.out(
    documents === null
      ? "no documents were found beside the store\n"
      : `documents are those of ${documents}\n`,
  );
  io.out(
    "set store.url to it and start the gateway; keep the old file until you have seen it work\n",
  );
}
