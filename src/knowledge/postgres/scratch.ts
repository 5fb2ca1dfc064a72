import { randomBytes } from "node:crypto";
import { createLogger } from "../../core/log.ts";
import { parseAddress } from "../../store/postgres/address.ts";
import { openDb } from "../../store/postgres/db.ts";

const LIMITS = { connections: 1, statementMs: 60_000 };

/** A schema of its own in a database, for what is not to be kept. */
export async function scratchSchema(
  url: string,
  env?: Record<string, string | undefined>,
): Promise<{ url: string; drop(): Promise<void> }> {
  parseAddress(url, env);
  const schema = `rouse_eval_${randomBytes(6).toString("hex")}`;
  const own = new URL(url);
  own.searchParams.set("schema", schema);
  return {
    url: own.href,
    async drop() {
      const db = await openDb(parseAddress(own.href, env), createLogger("silent"), LIMITS);
      try {
        await db.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
      } finally {
        await db.close();
      }
    },
  };
}
