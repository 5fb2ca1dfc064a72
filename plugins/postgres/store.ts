import type { StoreDriver } from "#store-kit";
import { openPostgres } from "./driver.ts";
import { exportTables, importTables } from "./records/transfer.ts";
import { ENV, MODULE } from "./sql.ts";
import { openReader, readStatus } from "./tools.ts";

/** Keeps work in PostgreSQL, for any number of gateways. */
export const POSTGRES: StoreDriver = {
  shared: true,
  open: openPostgres,
  openReader,
  status: readStatus,
  sql: { module: MODULE, env: ENV },
  exportTables,
  importTables,
};
