import { createLogger, type StoreDriver } from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { openDb } from "./client/db.ts";
import { openError, schemaVersion } from "./schema/migrate.ts";
import { MIGRATIONS } from "./schema/schema.ts";

/** Looks at a store in PostgreSQL; changes nothing. */
export const readStatus: StoreDriver["status"] = async ({ url, env }) => {
  const address = parseAddress(url, env);
  const db = await openDb(address, createLogger("silent"));
  try {
    const schema = await schemaVersion(db, address);
    const [size] = await db.query<{ bytes: number }>(
      `SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint AS bytes
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'`,
      [address.schema],
    );
    return {
      driver: "postgres",
      where: address.shown,
      schema,
      known: MIGRATIONS.length,
      bytes: size?.bytes ?? 0,
    };
  } catch (error) {
    throw openError(error, address);
  } finally {
    await db.close();
  }
};

/** Reads values of a store in PostgreSQL; changes nothing. */
export const readValues: NonNullable<StoreDriver["readValues"]> = async ({ url, env }, keys) => {
  const address = parseAddress(url, env);
  const db = await openDb(address, createLogger("silent"));
  try {
    if ((await schemaVersion(db, address)) === 0) return undefined;
    const rows = await db.query<{ key: string; value: string }>(
      "SELECT key, value FROM meta WHERE key = ANY($1::text[])",
      [keys],
    );
    return new Map(rows.map(({ key, value }) => [key, JSON.parse(value) as unknown]));
  } catch (error) {
    throw openError(error, address);
  } finally {
    await db.close();
  }
};
