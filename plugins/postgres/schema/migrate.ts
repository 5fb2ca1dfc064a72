import type { Client, QueryConfig, QueryResult } from "pg";
import { RouseError, type Sql, urlError } from "#store-kit";
import type { Address } from "../client/address.ts";
import type { Db } from "../client/db.ts";
import { isLocked, sqlState, storeError } from "../client/errors.ts";
import { MIGRATIONS } from "./schema.ts";

/** The time that a gateway waits for another one that migrates, and for users of a table. */
const WAIT_MS = 120_000;
/** A step over tables that have grown takes its time; only a server that is gone takes longer. */
const STEP_MS = 3_600_000;
/** PostgreSQL says by itself that it has waited for too long; so much later the client gives up. */
const ANSWER_MS = 10_000;
const OLDEST_SERVER = 13;

const wrong = (message: string, cause?: unknown): RouseError =>
  urlError(message, { transient: true, cause });

/** Returns advice for an address that the server rejects; undefined for an error that may pass by itself. */
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
    {
      code: "store_unavailable",
      message: `store.url: ${address.shown} cannot be used just now (${why}); is PostgreSQL running there?`,
    },
    { cause: error.cause },
  );
}

/** The version of the schema in the database; 0 where there is none yet. Changes nothing. */
export async function schemaVersion(
  sql: Sql,
  { schema }: Address,
  table = "migrations",
): Promise<number> {
  const [found] = await sql.query<{ there: boolean }>(
    "SELECT to_regclass($1) IS NOT NULL AS there",
    [`"${schema}".${table}`],
  );
  if (!found?.there) return 0;
  const [row] = await sql.query<{ version: number | null }>(
    `SELECT max(version)::int AS version FROM "${schema}".${table}`,
  );
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
  if ((server?.version ?? 0) < OLDEST_SERVER)
    throw wrong(`PostgreSQL ${OLDEST_SERVER} or newer is needed; this is ${server?.version}`);
  if (server?.encoding !== "UTF8")
    throw wrong(`the database must have the encoding UTF8; this one has ${server?.encoding}`);
}

const asks = <T extends object>(
  client: Client,
  text: string,
  ms: number,
  values: readonly unknown[] = [],
): Promise<QueryResult<T>> => {
  // The client's own bound is for statements of gateways. The driver reads this one, though its types do not say so.
  const config: QueryConfig & { query_timeout: number } = {
    text,
    values: [...values],
    query_timeout: ms,
  };
  return client.query<T>(config);
};

/** Renders PostgreSQL's error about a step. Messages of the classes 22 and 23 may quote values of rows. */
function renderSqlError(error: unknown): string {
  const state = sqlState(error);
  if (state === undefined) return "the connection was lost";
  return /^2[23]/.test(state)
    ? `SQLSTATE ${state}`
    : `SQLSTATE ${state}: ${(error as Error).message}`;
}

/** Returns what to do before a step can succeed; undefined if only the step itself can be at fault. */
function remedy(error: unknown, { schema }: Address): string | undefined {
  const state = sqlState(error);
  if (state === undefined) return "look whether PostgreSQL runs";
  if (state === "55P03")
    return `something has used a table of "${schema}" for more than ${WAIT_MS / 1000} s (pg_stat_activity); let it end`;
  if (state === "42501")
    return `run \`rouse store --migrate\` as the user whose tables these are, or make "${schema}" and its tables this user's`;
  if (state === "53100") return "make room on PostgreSQL's disk";
  if (/^(?:53|57|58)/.test(state)) return "look into PostgreSQL's log";
  return undefined;
}

/** A step is there as a whole or not at all, and so are those before it: each start goes on with the first that is missing. */
function stepFailed(error: unknown, step: number, address: Address): RouseError {
  const todo =
    remedy(error, address) ??
    "look into PostgreSQL's log, or go on with the version of the program before";
  const message =
    `store.url: ${address.shown}: step ${step} of the schema failed (${renderSqlError(error)}); nothing of it was kept, the schema is at ${step - 1}. ` +
    `${todo[0]?.toUpperCase()}${todo.slice(1)}, and start again: it goes on with step ${step}`;
  return new RouseError({ code: "store_unavailable", message }, { cause: error });
}

async function lockSchema(client: Client, address: Address): Promise<void> {
  try {
    // Held by the session until it ends: one gateway migrates, and the others wait for it.
    await asks(client, "SELECT pg_advisory_lock(hashtextextended($1, 7420))", WAIT_MS + ANSWER_MS, [
      `rouse ${address.schema}`,
    ]);
  } catch (error) {
    if (!isLocked(error)) throw openError(storeError(error), address);
    const { shown } = address;
    const message = `store.url: another gateway has been changing the tables of ${shown} for more than ${WAIT_MS / 1000} s; start again when it is done`;
    throw new RouseError({ code: "store_unavailable", message }, { cause: error });
  }
}

/** Makes what is needed to know the version, which it returns. What is there is not made: even IF NOT EXISTS asks for the right. */
async function prepare(client: Client, schema: string, table: string): Promise<number> {
  const there = await client.query<{ schema: boolean; table: boolean }>(
    "SELECT to_regnamespace($1) IS NOT NULL AS schema, to_regclass($2) IS NOT NULL AS table",
    [`"${schema}"`, `"${schema}".${table}`],
  );
  if (!there.rows[0]?.schema) await client.query(`CREATE SCHEMA "${schema}"`);
  if (!there.rows[0]?.table)
    await client.query(
      `CREATE TABLE ${table} (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
    );
  const { rows } = await client.query<{ version: number | null }>(
    `SELECT max(version) AS version FROM ${table}`,
  );
  return rows[0]?.version ?? 0;
}

async function applyAll(
  client: Client,
  address: Address,
  migrations: readonly string[],
  table: string,
): Promise<void> {
  const opening = (error: unknown): never => {
    throw openError(storeError(error), address);
  };
  // No step waits for the disk: one that a power failure took is done again, as what is committed later waits for all before it.
  const waits = `SET statement_timeout TO 0; SET lock_timeout TO ${WAIT_MS}; SET idle_in_transaction_session_timeout TO 0; SET synchronous_commit TO off`;
  await client.query(waits).catch(opening);
  await lockSchema(client, address);
  const version = await prepare(client, address.schema, table).catch(opening);
  refuseNewer(version, migrations.length);
  for (const [index, text] of migrations.entries()) {
    if (index < version) continue;
    // Several statements in one message are one transaction.
    await asks(
      client,
      `BEGIN; ${text}; INSERT INTO ${table} (version) VALUES (${index + 1}); COMMIT`,
      STEP_MS,
    ).catch((error: unknown) => {
      throw stepFailed(error, index + 1, address);
    });
  }
}

/**
 * Brings the schema up to date; where it is already, nothing is asked of the user's rights but reading.
 * @throws RouseError `config_invalid` where a newer version of the program was here, or where the server or the user's
 * rights do not do; `store_unavailable` where it cannot be reached.
 * `table` remembers what was done: parts of the schema have versions of their own.
 */
export async function migrate(
  db: Db,
  migrations = MIGRATIONS,
  table = "migrations",
): Promise<void> {
  const { address } = db;
  let client: Client;
  try {
    await checkServer(db);
    const version = await schemaVersion(db, address, table);
    refuseNewer(version, migrations.length);
    if (version === migrations.length) return;
    client = await db.client();
  } catch (error) {
    throw openError(error, address);
  }
  try {
    await applyAll(client, address, migrations, table);
  } finally {
    await client.end().catch(() => undefined);
  }
}
