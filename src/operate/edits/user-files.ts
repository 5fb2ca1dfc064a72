import { existsSync, lstatSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { RouseError } from "../../core/errors.ts";
import type { FileTexts } from "../../core/files.ts";
import { removeLeftFiles, replaceFile } from "../../core/replace-file.ts";

/** A change of one file: what it has, and what it is to have. Null: the file is not there. */
export interface FileChange {
  file: string;
  before: string | null;
  after: string | null;
}

/** The texts that files have with a change. */
export const toTexts = ({ file, after }: FileChange): FileTexts => new Map([[file, after]]);

/** A mapping file's path as the loader names it: without links, if its folder is there. */
export function mappingFile(mappingsDir: string, name: string): string {
  return join(existsSync(mappingsDir) ? realpathSync(mappingsDir) : mappingsDir, name);
}

/** Reads a file as it is now; null if it is not there. */
export function readNow(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** @throws RouseError `conflict`: the file is not as it was when its change was shown. */
export function refuseStale(file: string): never {
  const message = `${basename(file)} is not as it was shown any more; nothing was written. Look at it, and start again`;
  throw new RouseError({ code: "conflict", message });
}

/** Returns what a file that is a link names, and what to do; undefined if it is none. */
export function findLink(file: string): string | undefined {
  if (!lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  return `${file} is a link to ${resolve(dirname(file), readlinkSync(file))}: change the file where it comes from`;
}

/** Returns why a file must not, or cannot, be replaced by this process; undefined if it can. */
export async function findWriteProblem(file: string): Promise<string | undefined> {
  const link = findLink(file);
  if (link !== undefined) return link;
  const stats = lstatSync(file, { throwIfNoEntry: false });
  const folder = dirname(file);
  try {
    if (stats) await access(file, constants.W_OK);
    const there = lstatSync(folder, { throwIfNoEntry: false }) ? folder : dirname(folder);
    await access(there, constants.W_OK);
  } catch (error) {
    return `${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? "error"})`;
  }
  const uid = process.getuid?.() ?? 0;
  return stats && uid !== 0 && stats.uid !== uid
    ? `${file} belongs to another user, and would then belong to this one`
    : undefined;
}

/** Keeps what a file has as `<file>.before`, in place of what was kept of it. */
export async function keepBefore(file: string, text: string): Promise<void> {
  await replaceFile(`${file}.before`, text, { mode: lstatSync(file).mode & 0o7777 });
}

/** Removes what killed processes have left beside the files of a config and in its state folder. */
export async function removeUnfinishedSaves({
  configFile,
  hooks,
  stateDir,
  now,
}: {
  configFile: string | undefined;
  hooks: { mappingsDir: string; testsDir: string };
  stateDir: string;
  now: number;
}): Promise<void> {
  const files = configFile === undefined ? [] : [dirname(configFile)];
  await removeLeftFiles([...files, stateDir], { now });
  const own = [join(stateDir, "secrets"), join(stateDir, "plugins")];
  await removeLeftFiles([hooks.mappingsDir, hooks.testsDir, ...own], { now, recursive: true });
}
