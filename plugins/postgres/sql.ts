import type { OpenSql, SqlDatabase } from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { openDb, type Db } from "./client/db.ts";
import { migrate } from "./schema/migrate.ts";

export const MODULE = import.meta.url;
/** The variables that the client reads: user, password and certificates that the URL leaves out. */
export const ENV = /^(?:PG[A-Z]+|HOME|NODE_EXTRA_CA_CERTS)$/;

/** The database as others than the store see it. */
export function toSqlDatabase(db: Db): SqlDatabase {
  const { query, transaction, close } = db;
  return {
    schema: db.address.schema,
    query,
    transaction,
    close,
    migrate: (migrations, table) => migrate(db, migrations, table),
  };
}

const openSql: OpenSql = async (url, { env, log, connections, statementMs }) =>
  toSqlDatabase(
    await openDb(parseAddress(url, env), log, { connections, statementMs, gathers: true }),
  );

export default openSql;
