import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** Options for replacing a file. */
interface ReplaceOptions {
  /** The file's mode, whatever it was. Default: that of the file which is there, else what the process gives to new files. */
  mode?: number;
  /** Called right before the new file takes the place of the old one; an error leaves the old one. */
  confirm?(): void;
}

interface FileOwner {
  mode: number;
  uid?: number;
  gid?: number;
}

/** Of this program alone: folders such as that of the config may have temporary files of others. */
const TEMPORARY = /\.rouse-[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\.tmp$/;

/** Names a temporary file beside a file, so that `removeLeftFiles` knows it. */
export const temporaryName = (file: string): string => `${file}.rouse-${randomUUID()}.tmp`;

/** A save takes milliseconds: a temporary file that is older was left by a process that was killed. */
const LEFT_MS = 60_000;

/** Makes a file that is not there, and takes it from all but its owner: a database's companions take over its mode. */
export async function makePrivate(file: string): Promise<void> {
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await chmod(file, 0o600);
}

/** Makes what was renamed or removed in a folder durable, where the system can. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows opens no folders.
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeSynced(
  file: string,
  text: string,
  owner: FileOwner | undefined,
): Promise<void> {
  const handle = await open(file, "wx", owner ? 0o600 : 0o666);
  try {
    await handle.writeFile(text);
    if (owner?.uid !== undefined && owner.gid !== undefined)
      await handle.chown(owner.uid, owner.gid);
    if (owner) await handle.chmod(owner.mode & 0o7777);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function findOwner(file: string, mode: number | undefined): Promise<FileOwner | undefined> {
  const there = await stat(file).catch(() => undefined);
  if (there) return { mode: mode ?? there.mode, uid: there.uid, gid: there.gid };
  return mode === undefined ? undefined : { mode };
}

/**
 * Removes the temporary files that killed processes have left in folders, and none of a save that is under way. A folder that
 * cannot be changed is left alone.
 */
export async function removeLeftFiles(
  folders: readonly string[],
  { now, recursive = false }: { now: number; recursive?: boolean },
): Promise<void> {
  for (const folder of new Set(folders)) {
    const entries = await readdir(folder, { recursive, withFileTypes: true }).catch(() => []);
    for (const { parentPath, name } of entries.filter((entry) => TEMPORARY.test(entry.name))) {
      const file = join(parentPath, name);
      const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Infinity }));
      if (now - mtimeMs > LEFT_MS) await rm(file, { force: true }).catch(() => undefined);
    }
  }
}

/**
 * Puts a text in place of a file, or takes the file away (null), in one step: a reader, or a start after a crash, finds the
 * old file or the new one. Mode and owner stay. A symbolic link is replaced itself; what it names is never written.
 * @throws what the file system or `confirm` throws. The old file is then in its place, unless only making the folder durable
 * failed.
 */
export async function replaceFile(
  file: string,
  text: string | null,
  options: ReplaceOptions = {},
): Promise<void> {
  const folder = dirname(file);
  if (text === null) {
    options.confirm?.();
    await rm(file, { force: true });
    return syncFolder(folder);
  }
  await mkdir(folder, { recursive: true });
  const temporary = temporaryName(file);
  try {
    await writeSynced(temporary, text, await findOwner(file, options.mode));
    options.confirm?.();
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(folder);
}
