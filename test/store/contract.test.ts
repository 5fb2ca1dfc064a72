import { queueContract } from "../contract/queue.ts";
import { storeContract } from "../contract/store.ts";
import { sqliteHome } from "./home.ts";
import { describePostgres, postgresHome } from "./postgres.ts";

storeContract("SQLite", sqliteHome);
queueContract("SQLite", sqliteHome);

describePostgres("with a schema of its own", () => {
  storeContract("PostgreSQL", postgresHome);
  queueContract("PostgreSQL", postgresHome);
});
