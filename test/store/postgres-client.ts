import { userInfo } from "node:os";
import pg from "pg";

/** The PostgreSQL of the tests, with a user as PostgreSQL's own programs take it. */
export function postgresAddress(): URL {
  const url = new URL(process.env["TEST_POSTGRES_URL"] ?? "postgres://127.0.0.1:5432/test");
  if (url.username === "") url.username = process.env["PGUSER"] ?? userInfo().username;
  return url;
}

/** A connection of the test's own, past the store. */
export async function connectPlain(): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: postgresAddress().href,
    connectionTimeoutMillis: 3000,
  });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}
