import { constants } from "node:fs";
import { chmod, copyFile, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { copyDatabase } from "../store/sqlite/copy-database.ts";

/** Where the documents' part of a backup lies. */
export interface KnowledgeCopy {
  database: string;
  /** The folder of the files as they were uploaded. */
  files: string;
  bytes: number;
}

/** `backup.db` → `backup.knowledge.db` and `backup.knowledge/`: which copies belong together is seen by their names. */
export function namesBeside(file: string): { database: string; files: string } {
  const base = file.replace(/\.db$/, "");
  return { database: `${base}.knowledge.db`, files: `${base}.knowledge` };
}

async function copyFiles(from: string, to: string): Promise<number> {
  let bytes = 0;
  await mkdir(to, { mode: 0o700 });
  for (const name of await readdir(from).catch(() => [])) {
    try {
      await copyFile(join(from, name), join(to, name), constants.COPYFILE_FICLONE);
      bytes += (await stat(join(to, name))).size;
    } catch (error) {
      // Deleted since the database was copied: without its file a document can still be found, and not be read again.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return bytes;
}

/**
 * Copies the documents of a state folder next to the backup `file` of its store, also while they are in use. Undefined
 * if there are none.
 * @throws the file system's error, and leaves no files behind; `EEXIST` if a copy with these names exists already.
 */
export async function backupKnowledge(
  dir: string,
  file: string,
): Promise<KnowledgeCopy | undefined> {
  const source = join(dir, "knowledge.db");
  if (!(await stat(source).catch(() => undefined))) return undefined;
  const { database, files } = namesBeside(file);
  await writeFile(database, "", { flag: "wx", mode: 0o600 });
  let made = false;
  try {
    await copyDatabase(source, database);
    await chmod(database, 0o600);
    made = !(await stat(files).catch(() => undefined));
    const copied = await copyFiles(join(dir, "knowledge"), files);
    return { database, files, bytes: copied + (await stat(database)).size };
  } catch (error) {
    await rm(database, { force: true });
    if (made) await rm(files, { recursive: true, force: true });
    throw error;
  }
}
