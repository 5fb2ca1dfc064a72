/** Puts hooks into a queue of pg-boss. Argument: the URL of a PostgreSQL with the `schema`. */
import { PgBoss } from "pg-boss";
import { serveHooks } from "../front.ts";

const url = new URL(process.argv[2] ?? "");
const schema = url.searchParams.get("schema") ?? "";
url.searchParams.delete("schema");
const boss = new PgBoss({ connectionString: url.href, schema, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue("hooks");
serveHooks(async (body) => (await boss.send("hooks", body as object)) ?? "");
