import { definePlugin } from "#plugin";
import { openPostgres } from "./driver.ts";
import { ENV, MODULE } from "./sql.ts";
import { openReader, readStatus, readValues } from "./tools.ts";
import { exportTables, importTables } from "./records/transfer.ts";

/** Keeps work in PostgreSQL, for any number of gateways. */
export default definePlugin({
  id: "postgres",
  store: {
    protocols: ["postgres", "postgresql"],
    shared: true,
    open: openPostgres,
    openReader,
    status: readStatus,
    readValues,
    sql: { module: MODULE, env: ENV },
    exportTables,
    importTables,
  },
});
