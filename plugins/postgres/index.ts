import { definePlugin } from "#plugin";
import { copyFromFile } from "./copy/copy-store.ts";
import { openPostgres } from "./driver.ts";
import { scratchSchema } from "./scratch.ts";
import { ENV, MODULE } from "./sql.ts";
import { readStatus } from "./status.ts";

/** Keeps work in PostgreSQL, for any number of gateways. */
export default definePlugin({
  id: "postgres",
  store: {
    protocols: ["postgres", "postgresql"],
    example: "postgres://user:password@host:5432/database",
    shared: true,
    open: openPostgres,
    status: readStatus,
    sql: { module: MODULE, env: ENV },
    scratch: scratchSchema,
    copy: copyFromFile,
  },
});
