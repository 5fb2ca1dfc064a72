import { existsSync, readFileSync, rmSync } from "node:fs";
import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../core/errors.ts";

/** What a running gateway says of itself. `url` is there once it listens. */
export interface GatewayInfo {
  pid: number;
  url?: string;
  adminUrl?: string;
  startedAt: number;
  version: string;
}

export interface Lock {
  /** Writes what others may know, readable for the owner alone. */
  describe(info: GatewayInfo): Promise<void>;
  /** Lets go of the state folder; a second call does nothing. */
  release(): void;
}

const SQLITE_BUSY = 5;
/** `readGateway` holds the lock for a moment when it looks: a start looks again before it gives up. */
const ATTEMPTS = 5;
const WAIT_MS = 50;

const lockFile = (stateDir: string): string => join(stateDir, "gateway.lock");
const infoFile = (stateDir: string): string => join(stateDir, "gateway.json");

/**
 * Runs statements that need a lock on the file. SQLite's locks are the system's: it releases them when their holder
 * dies, however it dies. (Nothing else in this process may open and close the file: POSIX drops all its locks then.)
 * @returns undefined where another holds it.
 */
function withLock(file: string, statements: string, readOnly: boolean): DatabaseSync | undefined {
  const db = new DatabaseSync(file, { readOnly, timeout: 0 });
  try {
    db.exec(statements);
    return db;
  } catch (error) {
    db.close();
    if (((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY) return undefined;
    throw error;
  }
}

async function takeLock(stateDir: string): Promise<DatabaseSync | undefined> {
  const file = lockFile(stateDir);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await chmod(file, 0o600);
  for (let attempt = 1; ; attempt++) {
    const db = withLock(file, "BEGIN EXCLUSIVE", false);
    if (db || attempt === ATTEMPTS) return db;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

function readInfo(stateDir: string): GatewayInfo | undefined {
  try {
    const info = JSON.parse(readFileSync(infoFile(stateDir), "utf8")) as GatewayInfo;
    return typeof info.pid === "number" ? info : undefined;
  } catch {
    return undefined;
  }
}

function lockedError(stateDir: string): RouseError {
  const holder = readInfo(stateDir);
  const who = holder ? `process ${holder.pid}${holder.url ? ` at ${holder.url}` : ""}` : "another process";
  return new RouseError({
    code: "store_locked",
    message: `${who} uses the state folder ${stateDir} already; stop it, or set another stateDir`,
  });
}

/**
 * Takes the state folder for this process; `info` is what others may know of it until `describe` says more.
 * @throws RouseError `store_locked` while another process holds it, `config_invalid` where the folder cannot be used.
 */
export async function acquireLock(
  stateDir: string,
  info: GatewayInfo = { pid: process.pid, startedAt: Date.now(), version: "" },
): Promise<Lock> {
  let db: DatabaseSync | undefined;
  const describe = async (next: GatewayInfo): Promise<void> => {
    const temporary = `${infoFile(stateDir)}.${process.pid}`;
    await writeFile(temporary, JSON.stringify(next), { mode: 0o600 });
    await rename(temporary, infoFile(stateDir));
  };
  try {
    db = await takeLock(stateDir);
    // What a killed holder left would name the wrong process.
    if (db) await describe(info);
  } catch (error) {
    db?.close();
    const { code, errstr } = error as { code?: string; errstr?: string };
    const message = `the state folder ${stateDir} cannot be used (${errstr ?? code ?? "error"}); make it writable, or set another one`;
    throw new RouseError(
      { code: "config_invalid", message: `stateDir: ${message}`, issues: [{ path: "stateDir", message }] },
      { cause: error },
    );
  }
  if (!db) throw lockedError(stateDir);
  const held = db;
  return {
    describe,
    release() {
      if (!held.isOpen) return;
      rmSync(infoFile(stateDir), { force: true });
      held.close();
    },
  };
}

/** What the holder of a state folder says of itself, or undefined where nobody holds it. */
export function readGateway(stateDir: string): GatewayInfo | undefined {
  const info = readInfo(stateDir);
  if (!info || !existsSync(lockFile(stateDir))) return undefined;
  const free = withLock(lockFile(stateDir), "SELECT count(*) FROM sqlite_schema", true);
  free?.close();
  return free ? undefined : info;
}
