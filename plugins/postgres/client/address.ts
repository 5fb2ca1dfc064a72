import { userInfo } from "node:os";
import { urlError } from "#store-kit";

/** The address of a PostgreSQL store. */
export interface Address {
  /** For the client: with the password, and without what only we understand. */
  connection: string;
  /** The schema that holds the tables; `rouse` unless the URL names another one. */
  schema: string;
  /** Fit to be shown: without password and parameters. */
  shown: string;
}

const SCHEMA = /^[a-z_][a-z0-9_]{0,47}$/;

/**
 * Reads `postgres://user:password@host:port/database?schema=name`; further parameters (`sslmode`, `sslrootcert`, …) are
 * the client's.
 * @param env `PGUSER` and `PGPASSWORD` stand in for what the URL does not name.
 * @throws RouseError `config_invalid`; its message quotes nothing of the URL but the schema's name.
 */
export function parseAddress(url: string, env: Record<string, string | undefined> = {}): Address {
  const parsed = URL.parse(url);
  if (!parsed)
    throw urlError(
      'write "postgres://user:password@host:5432/database", with special characters of the password as %XX',
    );
  if (parsed.pathname.length < 2)
    throw urlError('name the database: "postgres://host:5432/database"');
  const schema = parsed.searchParams.get("schema") ?? "rouse";
  if (!SCHEMA.test(schema))
    throw urlError("schema: use at most 48 of a-z, 0-9 and _, with no digit first");
  parsed.searchParams.delete("schema");
  // As PostgreSQL's own programs do it; the client would look for variables of this process only.
  if (parsed.hostname !== "") {
    if (parsed.username === "")
      parsed.username = encodeURIComponent(env["PGUSER"] || userInfo().username);
    if (parsed.password === "")
      parsed.password = encodeURIComponent((env["PGPASSWORD"] ?? "").replace(/[\r\n]+$/, ""));
  }
  const shown = `postgres://${parsed.host}${parsed.pathname}?schema=${schema}`;
  return { connection: parsed.href, schema, shown };
}
