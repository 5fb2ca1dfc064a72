import { testStore } from "./suite.ts";
import { sqliteHome } from "./home.ts";
import { describePostgres, postgresHome } from "./postgres.ts";

testStore("SQLite", sqliteHome);

describePostgres("with a schema of its own", () => testStore("PostgreSQL", postgresHome));
