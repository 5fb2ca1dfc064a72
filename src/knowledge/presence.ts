import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { lazy } from "../core/lazy.ts";
import type { Logger } from "../core/log.ts";
import { openSql, type SqlSource } from "../store/sql.ts";

/** Says whether there are documents, without the threads that read and write them. */
export interface Presence {
  /** Whether there may be documents: of this tenant, or of any. @throws RouseError `store_unavailable` */
  has(tenant?: string): Promise<boolean>;
  /** Whether a process that was killed or stopped may have left work behind. @throws RouseError `store_unavailable` */
  hasWork(): Promise<boolean>;
  close(): Promise<void>;
}

/** Whether a query finds anything in the file. */
function findsAny(file: string, sql: string, ...parameters: string[]): boolean {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    return db.prepare(`${sql} LIMIT 1`).get(...parameters) !== undefined;
  } catch {
    // Whatever is wrong with it, opening it says.
    return true;
  } finally {
    db?.close();
  }
}

/** Asks the index in a file. With `embeds`, vectors may be missing of any document. */
export function createFilePresence(file: string, embeds: () => boolean): Presence {
  /** Tenants that had no documents in the file: whatever adds one opens the index. */
  const without = new Set<string>();
  return {
    async has(tenant) {
      if (!existsSync(file)) return false;
      if (tenant === undefined) return true;
      if (
        !without.has(tenant) &&
        !findsAny(file, "SELECT 1 FROM knowledge_documents WHERE tenant = ?", tenant)
      )
        without.add(tenant);
      return !without.has(tenant);
    },
    async hasWork() {
      const unfinished = embeds() ? "" : "WHERE status IN ('queued', 'extracting', 'indexing')";
      return existsSync(file) && findsAny(file, `SELECT 1 FROM knowledge_documents ${unfinished}`);
    },
    async close() {},
  };
}

/** One connection, which is closed while it is not used, and the longest that a look into an index takes. */
const LIMITS = { connections: 1, statementMs: 10_000 };

/** Asks the index in the database of the store, where other gateways add documents, too. */
export function createSharedPresence(
  source: SqlSource,
  options: { env: Record<string, string | undefined>; log: Logger },
): Presence {
  const database = lazy(() => openSql(source, { ...options, ...LIMITS }));
  /** The first gateway that opens the index makes its tables. */
  let isMade = false;
  const findAny = async (condition: string, values: string[]): Promise<boolean> => {
    const db = await database();
    isMade ||=
      (
        await db.query<{ made: boolean }>(
          "SELECT to_regclass('knowledge_documents') IS NOT NULL AS made",
        )
      )[0]?.made ?? false;
    return (
      isMade &&
      (await db.query(`SELECT 1 FROM knowledge_documents ${condition} LIMIT 1`, values)).length > 0
    );
  };
  const has = (tenant?: string): Promise<boolean> =>
    tenant === undefined ? findAny("", []) : findAny("WHERE tenant = $1", [tenant]);
  return {
    has,
    // Which work others have left, the index knows best.
    hasWork: () => has(),
    async close() {
      const opening = database.current();
      database.reset();
      await (await opening?.catch(() => undefined))?.close();
    },
  };
}
