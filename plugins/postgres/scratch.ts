import { randomBytes } from "node:crypto";
import { createLogger, type StoreDriver } from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { openDb } from "./client/db.ts";

const LIMITS = { connections: 1, statementMs: 60_000 };

/** Names a schema that is not there yet, for data that is not kept. */
export const scratchSchema: NonNullable<StoreDriver["scratch"]> = async ({ url, env }) => {
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
};
