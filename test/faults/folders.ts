/** Folders of simulations, in memory where the machine has such a file system. They carry the id of their process, so that what a killed one has left is found. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
const PREFIX = "rouse-faults-";

export const makeFolder = (): string => mkdtempSync(join(ROOT, `${PREFIX}${process.pid}-`));

export const removeFolder = (folder: string): void =>
  rmSync(folder, { recursive: true, force: true });

const listFolders = (pid?: number): string[] =>
  readdirSync(ROOT).filter((name) => name.startsWith(`${PREFIX}${pid ? `${pid}-` : ""}`));

/** Removes what a process has in its folders. */
export function removeFolders(pid: number): void {
  for (const name of listFolders(pid)) removeFolder(join(ROOT, name));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Removes folders whose process is gone. */
export function removeLeftFolders(): void {
  const pids = new Set(
    listFolders().map((name) => Number(name.slice(PREFIX.length).split("-", 1)[0])),
  );
  for (const pid of pids) if (pid > 0 && !isRunning(pid)) removeFolders(pid);
}

/** Another thread may remove a folder while it is read. */
function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** The bytes of all files in the folders of a process. */
export function measureFolders(pid: number): number {
  let bytes = 0;
  for (const name of listFolders(pid))
    for (const file of listFiles(join(ROOT, name)))
      bytes += statSync(join(ROOT, name, file), { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
}
