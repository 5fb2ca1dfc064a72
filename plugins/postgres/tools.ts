/** Ways into a store's database beside a gateway that works with it. */
import { checkReadable, createLogger, type StoreDriver } from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { openDb, withDb } from "./client/db.ts";
import { createPostgresReads } from "./records/reads.ts";
import { openError, schemaVersion } from "./schema/migrate.ts";
import { MIGRATIONS } from "./schema/schema.ts";

const READER_LIMITS = { connections: 1, statementMs: 30_000, isReadOnly: true };

/** Looks at a store in PostgreSQL; changes nothing. */
export const readStatus: StoreDriver["status"] = async (options) => {
  const address = parseAddress(options.url, options.env);
  return withDb(options, async (db) => {
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
  }).catch((error: unknown) => {
    throw openError(error, address);
  });
};

/** Opens a connection whose transactions only read. */
export const openReader: NonNullable<StoreDriver["openReader"]> = async ({ url, env, clock }) => {
  checkReadable(await readStatus({ url, env }));
  const db = await openDb(parseAddress(url, env), createLogger("silent"), READER_LIMITS);
  return { ...createPostgresReads(db, () => clock.now()), close: () => db.close() };
};
