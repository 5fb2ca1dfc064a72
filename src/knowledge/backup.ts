import { chmod, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { copyDatabase } from "../store/sqlite/copy-database.ts";

/** The files of the documents' part of a backup. */
export interface KnowledgeCopy {
  database: string;
  bytes: number;
}

/**
 * Copies the documents of a state folder next to the backup `file` of its store, also while they are in use. Undefined
 * if there are none.
 * @throws the file system's error, and leaves no file behind; `EEXIST` if a copy with this name exists already.
 */
export async function backupKnowledge(
  dir: string,
  file: string,
): Promise<KnowledgeCopy | undefined> {
  const source = join(dir, "knowledge.db");
  if (!(await stat(source).catch(() => undefined))) return undefined;
  // Which copies belong together is seen by their names: `backup.db`, `backup.knowledge.db`.
  const database = `${file.replace(/\.db$/, "")}.knowledge.db`;
  await writeFile(database, "", { flag: "wx", mode: 0o600 });
  try {
    await copyDatabase(source, database);
    await chmod(database, 0o600);
    return { database, bytes: (await stat(database)).size };
  } catch (error) {
    await rm(database, { force: true });
    throw error;
  }
}
