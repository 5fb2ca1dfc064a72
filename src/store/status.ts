import { existsSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { createLogger } from "../core/log.ts";
import { fileOf } from "./open.ts";
import { isPostgres } from "./postgres/address.ts";
import type { StoreStatus } from "./types.ts";

async function sqliteStatus(file: string): Promise<StoreStatus> {
  const { MIGRATIONS } = await import("./sqlite/schema.ts");
  const status: StoreStatus = { driver: "sqlite", where: file, schema: 0, known: MIGRATIONS.length, bytes: 0 };
  if (!existsSync(file)) return status;
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").get();
    const row = table && (db.prepare("SELECT max(version) AS version FROM migrations").get() as { version: number | null });
    const bytes = [file, `${file}-wal`].reduce((sum, name) => sum + (statSync(name, { throwIfNoEntry: false })?.size ?? 0), 0);
    return { ...status, schema: row?.version ?? 0, bytes };
  } finally {
    db.close();
  }
}

/**
 * Looks at the store that a URL names; may be asked while gateways run.
 * @throws RouseError `config_invalid` for an address that cannot be used, `store_unavailable` where nobody answers.
 */
export async function storeStatus(url: string, env: Record<string, string | undefined>): Promise<StoreStatus> {
  if (!isPostgres(url)) return sqliteStatus(fileOf(url));
  const { postgresStatus } = await import("./postgres/status.ts");
  return postgresStatus(url, env, createLogger("silent"));
}
