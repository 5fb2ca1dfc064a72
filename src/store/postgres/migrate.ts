import type { Client } from "pg";
import { RouseError } from "../../core/errors.ts";
import type { Address } from "./address.ts";
import type { Db, Sql } from "./db.ts";
import { sqlState } from "./errors.ts";
import { MIGRATIONS } from "./schema.ts";

/** How long a gateway waits for another one that migrates. */
const WAIT_MS = 120_000;
const OLDEST_SERVER = 13;

function wrong(message: string, cause?: unknown): RouseError {
  return new RouseError(
    { code: "config_invalid", message: `store.url: ${message}`, issues: [{ path: "store.url", message }] },
    cause === undefined ? undefined : { cause },
  );
}

/** What the server says to those who may not, or cannot, use it as the URL says; undefined for what may pass by itself. */
function advice(state: string | undefined, { schema, shown }: Address): string | undefined {
  switch (state) {
    case "28P01":
    case "28000":
      return `${shown} refuses the user or its password`;
    case "3D000":
      return `${shown}: there is no database of this name; create it first`;
    case "42501":
      return `${shown}: the user lacks a right; let it create the schema (GRANT CREATE ON DATABASE …), or make "${schema}" its own (CREATE SCHEMA ${schema} AUTHORIZATION …)`;
    case "25006":
      return `${shown} only reads (a standby?); name the primary`;
    default:
      return undefined;
  }
}

/** An error of opening the store, in words that say what to change. The password is in none of them. */
export function openError(error: unknown, address: Address): unknown {
  if (!(error instanceof RouseError) || error.code === "config_invalid") return error;
  const state = sqlState(error);
  const known = advice(state, address);
  if (known !== undefined) return wrong(known, error.cause);
  const { code } = (error.cause ?? {}) as { code?: unknown };
  const why = typeof code === "string" && /^[A-Z0-9_]{1,40}$/.test(code) ? code : "no answer";
  return new RouseError(
    { code: "store_unavailable", message: `store.url: ${address.shown} cannot be used just now (${why}); is PostgreSQL running there?` },
    { cause: error.cause },
  );
}

/** The version of the schema in the database; 0 where there is none yet. Changes nothing. */
export async function schemaVersion(sql: Sql, { schema }: Address, table = "migrations"): Promise<number> {
  const [found] = await sql.query<{ there: boolean }>("SELECT to_regclass($1) IS NOT NULL AS there", [`"${schema}".${table}`]);
  if (!found?.there) return 0;
  const [row] = await sql.query<{ version: number | null }>(`SELECT max(version)::int AS version FROM "${schema}".${table}`);
  return row?.version ?? 0;
}

function refuseNewer(version: number, known: number): void {
  if (version <= known) return;
  throw wrong(
    `the database was brought to schema ${version} by a newer version of the program (known here up to ${known}); start that version, or restore a dump from before it`,
  );
}

async function checkServer(sql: Sql): Promise<void> {
  const [server] = await sql.query<{ version: number; encoding: string }>(
    "SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_encoding') AS encoding",
  );
  if ((server?.version ?? 0) < OLDEST_SERVER) throw wrong(`PostgreSQL ${OLDEST_SERVER} or newer is needed; this is ${server?.version}`);
  if (server?.encoding !== "UTF8") throw wrong(`the database must have the encoding UTF8; this one has ${server?.encoding}`);
}

async function applyAll(client: Client, { schema }: Address, migrations: readonly string[], table: string): Promise<void> {
  await client.query(`SET statement_timeout TO 0; SET lock_timeout TO ${WAIT_MS}; SET idle_in_transaction_session_timeout TO 0`);
  // Held by the session until it ends: one gateway migrates, and the others wait for it.
  await client.query({ text: "SELECT pg_advisory_lock(hashtextextended($1, 7420))", values: [`rouse ${schema}`] });
  const there = await client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]);
  if (there.rows.length === 0) await client.query(`CREATE SCHEMA "${schema}"`);
  await client.query(`CREATE TABLE IF NOT EXISTS ${table} (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`);
  const { rows } = await client.query<{ version: number | null }>(`SELECT max(version) AS version FROM ${table}`);
  const version = rows[0]?.version ?? 0;
  refuseNewer(version, migrations.length);
  for (const [index, text] of migrations.entries()) {
    if (index < version) continue;
    // Several statements in one message are one transaction.
    await client.query(`BEGIN; ${text}; INSERT INTO ${table} (version) VALUES (${index + 1}); COMMIT`);
  }
}

/**
 * Brings the schema up to date; where it is already, nothing is asked of the user's rights but reading.
 * @throws RouseError `config_invalid` where a newer version of the program was here, or where the server or the user's
 * rights do not do; `store_unavailable` where it cannot be reached.
 * `table` remembers what was done: parts of the schema have versions of their own.
 */
export async function migrate(db: Db, migrations = MIGRATIONS, table = "migrations"): Promise<void> {
  const { address } = db;
  try {
    await checkServer(db);
    const version = await schemaVersion(db, address, table);
    refuseNewer(version, migrations.length);
    if (version === migrations.length) return;
    const client = await db.client();
    try {
      // The client takes 13 s for a statement otherwise.
      await applyAll(client, address, migrations, table);
    } finally {
      await client.end().catch(() => undefined);
    }
  } catch (error) {
    throw openError(error, address);
  }
}
