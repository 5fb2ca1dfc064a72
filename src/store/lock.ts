import { existsSync, readFileSync, rmSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../core/errors.ts";
import { makePrivate, replaceFile } from "../core/replace-file.ts";

/** The entry of a running gateway in its state folder. `url` is there when the gateway listens. */
export interface GatewayInfo {
  pid: number;
  url?: string;
  adminUrl?: string;
  startedAt?: number;
  version: string;
  /** Its config file; null if it runs on the defaults. */
  config?: string | null;
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

/**
 * The files of one holder. Who has the folder for itself locks `gateway.lock`; those who share it lock that one for
 * reading, and each another one for itself: `gateway-1.lock`, `gateway-2.lock`, …
 */
interface Files {
  lock: string;
  info: string;
}
const getLockFiles = (stateDir: string, place: number): Files => {
  const name = join(stateDir, place === 0 ? "gateway" : `gateway-${place}`);
  return { lock: `${name}.lock`, info: `${name}.json` };
};
/** The most gateways that share a state folder. */
const PLACES = 64;

/**
 * Runs statements that need a lock on the file. SQLite's locks are the system's: it releases them when their holder
 * dies, however it dies. (Nothing else in this process may open and close the file: POSIX drops all its locks then.)
 * @returns undefined if another process holds it.
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

const EXCLUSIVE = "BEGIN EXCLUSIVE";
/** Other processes may take this lock too, but none can lock the file exclusively. */
const SHARED = "BEGIN; SELECT count(*) FROM sqlite_schema";

async function takeLock(
  file: string,
  statements: string,
  attempts = ATTEMPTS,
): Promise<DatabaseSync | undefined> {
  await makePrivate(file);
  for (let attempt = 1; ; attempt++) {
    const db = withLock(file, statements, false);
    if (db || attempt === attempts) return db;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

interface LockSlot {
  files: Files;
  held: DatabaseSync[];
}

async function takeFolder(stateDir: string): Promise<LockSlot | undefined> {
  const files = getLockFiles(stateDir, 0);
  const db = await takeLock(files.lock, EXCLUSIVE);
  return db && { files, held: [db] };
}

async function takePlace(stateDir: string): Promise<LockSlot | undefined> {
  const common = await takeLock(getLockFiles(stateDir, 0).lock, SHARED);
  if (!common) return undefined;
  for (let place = 1; place <= PLACES; place++) {
    const files = getLockFiles(stateDir, place);
    const own = await takeLock(files.lock, EXCLUSIVE, 1);
    if (own) return { files, held: [own, common] };
  }
  common.close();
  return undefined;
}

function readInfo({ info: file }: Files): GatewayInfo | undefined {
  try {
    const info = JSON.parse(readFileSync(file, "utf8")) as GatewayInfo;
    return typeof info.pid === "number" ? info : undefined;
  } catch {
    return undefined;
  }
}

function lockedError(stateDir: string): RouseError {
  const holder = readInfo(getLockFiles(stateDir, 0)) ?? readGateway(stateDir);
  const who = holder
    ? `process ${holder.pid}${holder.url ? ` at ${holder.url}` : ""}`
    : "another process";
  return new RouseError({
    code: "store_locked",
    message: `${who} uses the state folder ${stateDir} already; stop it, or set another stateDir`,
  });
}

/**
 * Takes the state folder for this process; `info` is what others may know of it until `describe` says more. With
 * `shared`, others may do so as well: their work is not in the folder.
 * @throws RouseError `store_locked` while another process holds it, `config_invalid` where the folder cannot be used.
 */
export async function acquireLock(
  stateDir: string,
  info: GatewayInfo = { pid: process.pid, version: "" },
  { shared = false }: { shared?: boolean } = {},
): Promise<Lock> {
  let place: LockSlot | undefined;
  const describe = async (next: GatewayInfo): Promise<void> => {
    const file = (place as LockSlot).files.info;
    await replaceFile(file, JSON.stringify(next), { mode: 0o600 });
  };
  const close = (): void => place?.held.forEach((db) => db.close());
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    place = await (shared ? takePlace(stateDir) : takeFolder(stateDir));
    // The entry of a killed holder names a process that is gone.
    if (place) await describe(info);
  } catch (error) {
    close();
    const { code, errstr } = error as { code?: string; errstr?: string };
    const message = `the state folder ${stateDir} cannot be used (${errstr ?? code ?? "error"}); make it writable, or set another one`;
    throw new RouseError(
      {
        code: "config_invalid",
        message: `stateDir: ${message}`,
        issues: [{ path: "stateDir", message, transient: true }],
      },
      { cause: error },
    );
  }
  if (!place) throw lockedError(stateDir);
  const { files, held } = place;
  return {
    describe,
    release() {
      if (!held[0]?.isOpen) return;
      rmSync(files.info, { force: true });
      close();
    },
  };
}

/** Returns the entry of the gateway that holds a state folder, or undefined if no gateway holds it. If several share it: one that listens. */
export function readGateway(stateDir: string): GatewayInfo | undefined {
  let silent: GatewayInfo | undefined;
  for (let place = 0; place <= PLACES; place++) {
    const files = getLockFiles(stateDir, place);
    const info = readInfo(files);
    if (!info || !existsSync(files.lock)) continue;
    const free = withLock(files.lock, "SELECT count(*) FROM sqlite_schema", true);
    free?.close();
    if (free) continue;
    if (info.url !== undefined) return info;
    silent ??= info;
  }
  return silent;
}
