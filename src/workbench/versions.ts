import { randomUUID } from "node:crypto";
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import { access, constants, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { removeLeftFiles, replaceFile } from "../core/replace-file.ts";
import type { FileChange } from "./drafts.ts";

/** How many changes can be taken back. */
const MAX_VERSIONS = 20;

/** What is kept of a change that is landed, for `rouse config undo`. */
interface KeptChange extends FileChange {
  /** What was done, for lists. */
  what: string;
  /** Who made it, such as `console 127.0.0.1`. */
  by?: string | undefined;
  /** The hash of the config that was in use before. */
  from?: string | undefined;
  /** The draft that went away. */
  draft?: { file: string; text: string };
}

export interface Version extends KeptChange {
  id: string;
  /** ISO 8601. */
  at: string;
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

const versionsDir = (stateDir: string): string => join(stateDir, "config-versions");

/** Lists the kept versions of the config's files, newest first. */
export async function listVersions(stateDir: string): Promise<Version[]> {
  const folder = versionsDir(stateDir);
  const names = await readdir(folder).catch(() => []);
  const ids = names
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .toReversed();
  const read = async (name: string): Promise<Version> => {
    const version = JSON.parse(await readFile(join(folder, name), "utf8")) as Omit<Version, "id">;
    return { ...version, id: name.replace(/\.json$/, "") };
  };
  return Promise.all(ids.map(read));
}

/** Forgets a version. */
export async function removeVersion(stateDir: string, id: string): Promise<void> {
  await rm(join(versionsDir(stateDir), `${id}.json`), { force: true });
}

/** Keeps a version (mode 0600), and forgets all but the last 20. Returns its id. */
export async function keepVersion(
  stateDir: string,
  change: KeptChange,
  now: number,
): Promise<string> {
  const folder = versionsDir(stateDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const at = new Date(now).toISOString();
  const id = `${at.replaceAll(/\D/g, "")}-${randomUUID().slice(0, 8)}`;
  await replaceFile(join(folder, `${id}.json`), JSON.stringify({ at, ...change }), { mode: 0o600 });
  for (const old of (await listVersions(stateDir)).slice(MAX_VERSIONS))
    await removeVersion(stateDir, old.id);
  return id;
}

/** Removes what killed processes have left beside the files of a config and in its state folder. */
export async function removeUnfinishedSaves({
  configFile,
  hooks,
  stateDir,
}: {
  configFile: string | undefined;
  hooks: { mappingsDir: string; testsDir: string };
  stateDir: string;
}): Promise<void> {
  await removeLeftFiles([...(configFile === undefined ? [] : [dirname(configFile)]), stateDir]);
  const own = [versionsDir(stateDir), join(stateDir, "secrets"), join(stateDir, "plugins")];
  await removeLeftFiles([hooks.mappingsDir, hooks.testsDir, ...own], { recursive: true });
}
