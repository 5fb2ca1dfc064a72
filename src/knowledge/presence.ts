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

const ANY = "SELECT 1 FROM knowledge_documents";
const OF_TENANT = `${ANY} WHERE tenant = $1`;

/** Whether a query finds anything in the file. */
function findsAny(file: string, sql: string, ...tenant: string[]): boolean {
  if (!existsSync(file)) return false;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    return db.prepare(`${sql} LIMIT 1`).get(...tenant) !== undefined;
  } catch {
    // Whatever is wrong with it, opening it says.
    return true;
  } finally {
    db?.close();
  }
}

/** Asks the documents in a file. With `embeds`, vectors may be missing of any document. */
export function createFilePresence(file: string, embeds: () => boolean): Presence {
  /** Tenants that had no documents in the file: whatever adds one opens the documents. */
  const without = new Set<string>();
  return {
    async has(tenant) {
      if (tenant === undefined) return existsSync(file);
      if (without.has(tenant)) return false;
      const found = findsAny(file, OF_TENANT.replace("$1", "?"), tenant);
      if (!found && existsSync(file)) without.add(tenant);
      return found;
    },
    hasWork: async () =>
      findsAny(
        file,
        embeds() ? ANY : `${ANY} WHERE status IN ('queued', 'extracting', 'indexing')`,
      ),
    async close() {},
  };
}

/** One connection, which is closed while it is not used, and the longest that a look at the documents takes. */
const LIMITS = { connections: 1, statementMs: 10_000 };

/** Asks the documents in the database of the store, where other gateways add documents, too. */
export function createSharedPresence(
  source: SqlSource,
  options: { env: Record<string, string | undefined>; log: Logger },
): Presence {
  const database = lazy(() => openSql(source, { ...options, ...LIMITS }));
  /** The first gateway that opens the documents makes their tables. */
  let isMade = false;
  const has = async (tenant?: string): Promise<boolean> => {
    const db = await database();
    const made = "SELECT to_regclass('knowledge_documents') IS NOT NULL AS made";
    isMade ||= (await db.query<{ made: boolean }>(made))[0]?.made ?? false;
    if (!isMade) return false;
    const [sql, values] = tenant === undefined ? [ANY, []] : [OF_TENANT, [tenant]];
    return (await db.query(`${sql} LIMIT 1`, values)).length > 0;
  };
  return {
    has,
    // Which work others have left, the documents know best.
    hasWork: () => has(),
    async close() {
      const opening = database.current();
      database.reset();
      await (await opening?.catch(() => undefined))?.close();
    },
  };
}
