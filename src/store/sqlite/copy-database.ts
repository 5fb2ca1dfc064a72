import { chmod, rm, stat, writeFile } from "node:fs/promises";
import { backup, DatabaseSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { sqliteError } from "./connection.ts";

/** More pages than a database has: the copy is one step and so one snapshot, while others write. */
const ALL_PAGES = 2 ** 31 - 1;

/**
 * Copies a database into a file that is new or empty, also while it is in use. A connection of its own, since a step
 * that runs while another one of this process is inside a transaction fails.
 */
export async function copyDatabase(from: string, to: string): Promise<void> {
  const source = new DatabaseSync(from, { readOnly: true });
  try {
    await backup(source, to, { rate: ALL_PAGES });
  } finally {
    source.close();
  }
}

/** Copies the database of a store into a file that is new or empty; what a failed copy leaves is taken away. */
export async function copyTo(db: DatabaseSync, file: string): Promise<void> {
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch(
    async (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST")
        throw new RouseError(
          { code: "usage", message: `the backup's file cannot be made (${error.code ?? "error"})` },
          { cause: error },
        );
      if ((await stat(file)).size > 0)
        throw new RouseError({
          code: "usage",
          message: "the backup's file is there already; name a new one",
        });
      await chmod(file, 0o600);
    },
  );
  try {
    await copyDatabase(db.location() ?? "", file);
  } catch (error) {
    await rm(file, { force: true });
    throw sqliteError(error);
  }
}
