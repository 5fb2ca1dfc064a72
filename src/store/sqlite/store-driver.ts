import { existsSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { makePrivate, syncFolder } from "../../core/replace-file.ts";
import { checkReadable, urlError } from "../sql/errors.ts";
import { sqliteError } from "./connection.ts";
import type { StoreDriver, StoreStatus } from "../types.ts";

/** The file that a URL names. @throws RouseError `config_invalid` if it names none. */
function parseFile(url: string): string {
  const file = url.slice("sqlite:".length);
  if (file === "" || file === ":memory:")
    throw urlError(
      'write the path of a file after "sqlite:"; work that is accepted has to be on disk',
    );
  return resolve(file);
}

/**
 * Makes the file before the database is opened. SQLite puts the name of the log on disk, but not that of the database and
 * of its folders.
 */
async function prepareFile(file: string): Promise<void> {
  const made = await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await makePrivate(file);
  const top = made === undefined ? dirname(file) : dirname(made);
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    await syncFolder(folder);
    if (folder === top) return;
  }
}

async function readStatus(file: string): Promise<StoreStatus> {
  const { SQLITE_MIGRATIONS } = await import("./schema.ts");
  const status: StoreStatus = {
    driver: "sqlite",
    where: file,
    schema: 0,
    known: SQLITE_MIGRATIONS.length,
    bytes: 0,
  };
  if (!existsSync(file)) return status;
  try {
    using db = new DatabaseSync(file, { readOnly: true });
    const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").get();
    const row =
      table &&
      (db.prepare("SELECT max(version) AS version FROM migrations").get() as {
        version: number | null;
      });
    const bytes = [file, `${file}-wal`].reduce(
      (sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
    return { ...status, schema: row?.version ?? 0, bytes };
  } catch (error) {
    throw sqliteError(error);
  }
}

/** The default: a SQLite file, for one gateway. */
export const SQLITE: StoreDriver = {
  shared: false,
  async open({ url, clock, log }) {
    const file = parseFile(url);
    try {
      await prepareFile(file);
      const { openSqlite } = await import("./store.ts");
      return openSqlite(file, clock, log);
    } catch (error) {
      if (error instanceof RouseError) throw error;
      const { code, errstr } = error as { code?: string; errstr?: string };
      const reason = errstr ?? code ?? "error";
      const message = `${file} cannot be used (${reason}); check that it is a store of this program and that its folder can be written`;
      throw urlError(message, { transient: true, cause: error });
    }
  },
  async openReader({ url, clock }) {
    const file = parseFile(url);
    checkReadable(await readStatus(file));
    const { openSqliteReader } = await import("./records.ts");
    return openSqliteReader(file, () => clock.now());
  },
  status: async ({ url }) => readStatus(parseFile(url)),
  async exportTables(options, use) {
    const file = parseFile(options.url);
    checkReadable(await readStatus(file));
    const { exportSqlite } = await import("./transfer.ts");
    return exportSqlite(file, options, use);
  },
  async importTables(options, use) {
    const file = parseFile(options.url);
    await prepareFile(file);
    const { importSqlite } = await import("./transfer.ts");
    return importSqlite(file, options, use);
  },
};
