import { checkReadable, createLogger, type StoreDriver } from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { openDb } from "./client/db.ts";
import { createPostgresReads } from "./records/reads.ts";
import { readStatus } from "./status.ts";

const LIMITS = { connections: 1, statementMs: 30_000, isReadOnly: true };

/** Opens a connection whose transactions only read. */
export const openReader: NonNullable<StoreDriver["openReader"]> = async ({ url, env, clock }) => {
  checkReadable(await readStatus({ url, env }));
  const db = await openDb(parseAddress(url, env), createLogger("silent"), LIMITS);
  return { ...createPostgresReads(db, () => clock.now()), close: () => db.close() };
};
