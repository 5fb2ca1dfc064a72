import { readFileSync, rmSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { RouseError } from "../core/errors.ts";

/** What a running gateway says of itself. */
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
  release(): void;
}

const lockFile = (stateDir: string): string => join(stateDir, "gateway.lock");
const infoFile = (stateDir: string): string => join(stateDir, "gateway.json");

/** Tries to hold the lock: SQLite's exclusive lock on a file of its own, which the system releases when its holder dies. */
function tryLock(stateDir: string): DatabaseSync | undefined {
  const db = new DatabaseSync(lockFile(stateDir));
  try {
    db.exec("PRAGMA busy_timeout=0; PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE;");
    return db;
  } catch {
    db.close();
    return undefined;
  }
}

function readInfo(stateDir: string): GatewayInfo | undefined {
  try {
    return JSON.parse(readFileSync(infoFile(stateDir), "utf8")) as GatewayInfo;
  } catch {
    return undefined;
  }
}

/**
 * Takes the state folder for this process.
 * @throws RouseError `store_locked` while another gateway holds it.
 */
export async function acquireLock(stateDir: string): Promise<Lock> {
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const db = tryLock(stateDir);
  if (!db) {
    const holder = readInfo(stateDir);
    const who = holder ? ` (process ${holder.pid}${holder.url ? `, ${holder.url}` : ""})` : "";
    throw new RouseError({ code: "store_locked", message: `another gateway uses ${stateDir}${who}; stop it, or give this one another stateDir` });
  }
  return {
    async describe(info) {
      const temporary = `${infoFile(stateDir)}.${process.pid}`;
      await writeFile(temporary, JSON.stringify(info), { mode: 0o600 });
      await rename(temporary, infoFile(stateDir));
    },
    release() {
      rmSync(infoFile(stateDir), { force: true });
      db.exec("ROLLBACK");
      db.close();
    },
  };
}

/** The gateway that runs on a state folder, or undefined where none holds its lock. */
export function readGateway(stateDir: string): GatewayInfo | undefined {
  const info = readInfo(stateDir);
  if (!info) return undefined;
  const db = tryLock(stateDir);
  if (!db) return info;
  db.exec("ROLLBACK");
  db.close();
  return undefined;
}
