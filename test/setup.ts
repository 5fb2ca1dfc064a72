import { randomBytes } from "node:crypto";
import { connectPlain } from "./store/postgres-client.ts";

const VACUUM_MS = 20_000;
const CATALOGS =
  "pg_attribute, pg_attrdef, pg_class, pg_constraint, pg_depend, pg_description, pg_index, pg_inherits, pg_namespace, pg_partitioned_table, pg_proc, pg_sequence, pg_shdepend, pg_statistic, pg_trigger, pg_type";

/**
 * Vacuums the catalogs now and then. Each schema that a test makes and drops leaves thousands of dead rows there; where autovacuum
 * is off, each further schema would take longer. Returns what ends it.
 */
function keepCatalogsSmall(): () => Promise<void> {
  let running = Promise.resolve();
  const vacuum = async (): Promise<void> => {
    try {
      const client = await connectPlain();
      try {
        // Without locks that others wait for.
        await client.query(`VACUUM (TRUNCATE false, SKIP_LOCKED) ${CATALOGS}`);
      } finally {
        await client.end();
      }
    } catch {
      // A test may have stopped the server: the next look finds it again.
    }
  };
  const timer = setInterval(() => void (running = running.then(vacuum)), VACUUM_MS);
  timer.unref();
  running = vacuum();
  return async () => {
    clearInterval(timer);
    await running;
  };
}

/** Drops the schemas that tests have left. */
async function dropSchemas(): Promise<void> {
  const client = await connectPlain();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)",
      [process.env["TEST_POSTGRES_SCHEMAS"]],
    );
    // One at a time: each takes locks of all its tables.
    for (const { name } of rows) await client.query(`DROP SCHEMA "${name}" CASCADE`);
  } finally {
    await client.end();
  }
}

/** Looks once for a PostgreSQL to test with, and says which tests are left out if there is none. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Each project of the config asks.
  if (process.env["TEST_POSTGRES_ANSWERS"] !== undefined) return undefined;
  try {
    await (await connectPlain()).end();
    process.env["TEST_POSTGRES_ANSWERS"] = "yes";
    process.env["TEST_POSTGRES_SCHEMAS"] = `test_${randomBytes(4).toString("hex")}`;
    const stopVacuum = keepCatalogsSmall();
    return async () => {
      await stopVacuum();
      await dropSchemas();
    };
  } catch {
    process.env["TEST_POSTGRES_ANSWERS"] = "no";
    if (process.env["TEST_POSTGRES_REQUIRED"] !== "1")
      process.stderr.write(
        "No PostgreSQL answers at TEST_POSTGRES_URL (default postgres://127.0.0.1:5432/test): the tests of the store and queue on it are left out.\n",
      );
    return undefined;
  }
}
