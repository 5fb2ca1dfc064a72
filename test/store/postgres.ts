import { randomBytes } from "node:crypto";
import type pg from "pg";
import { afterEach, beforeEach, describe, it, onTestFinished } from "vitest";
import { parseAddress } from "../../plugins/postgres/client/address.ts";
import { openDb } from "../../plugins/postgres/client/db.ts";
import { isClash } from "../../plugins/postgres/client/errors.ts";
import { migrate } from "../../plugins/postgres/schema/migrate.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema/schema.ts";
import { POSTGRES } from "../../plugins/postgres/store.ts";
import { systemClock, type Clock } from "../../src/core/clock.ts";
import type { Logger } from "../../src/core/log.ts";
import { getSqlSource, openStore } from "../../src/store/open.ts";
import type { SqlSource } from "../../src/store/sql/sql.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { createTestClock, type Home } from "./suite/make.ts";
import { silent } from "./home.ts";
import { connectPlain, postgresAddress } from "./postgres-client.ts";

/** The database of a schema, as knowledge is given it. */
export const sqlSource = (schema: Schema): SqlSource | undefined =>
  getSqlSource(POSTGRES, schema.url);

export async function plainly<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connectPlain();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export interface Schema {
  name: string;
  url: string;
  drop(): Promise<void>;
}

const DROP_TRIES = 10;

/**
 * Drops a schema that a gateway may still use: an inner `afterEach` runs before an outer one that stops the gateway. The
 * locks of both can then be in each other's way, and PostgreSQL ends one of them with a deadlock.
 */
async function dropSchema(client: pg.Client, name: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return void (await client.query(`DROP SCHEMA IF EXISTS "${name}" CASCADE`));
    } catch (error) {
      if (!isClash(error) || tries === DROP_TRIES) throw error;
    }
  }
}

/** A schema of this test's own; the store makes it. */
export function newSchema(): Schema {
  const name = `${process.env["TEST_POSTGRES_SCHEMAS"]}_${randomBytes(6).toString("hex")}`;
  const url = postgresAddress();
  url.searchParams.set("schema", name);
  return {
    name,
    url: url.href,
    drop: () => plainly((client) => dropSchema(client, name)),
  };
}

/** The parts of a schema, as a hash, and its tables. */
const SHAPE = `
  WITH own AS (SELECT * FROM pg_class WHERE relnamespace = $1::regnamespace), things AS (
    SELECT concat_ws(' ', relkind, relname, relnatts, reloptions, relacl) AS thing FROM own
    UNION ALL SELECT concat_ws(' ', tgname, tgrelid, tgenabled) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM own)
    UNION ALL SELECT concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::regnamespace
    UNION ALL SELECT concat_ws(' ', proname, prosrc, proconfig) FROM pg_proc WHERE pronamespace = $1::regnamespace)
  SELECT (SELECT md5(string_agg(thing, ' ' ORDER BY thing)) FROM things) AS things,
    ARRAY(SELECT relname::text FROM own WHERE relkind = 'r' ORDER BY 1) AS tables`;

interface Shape {
  things: string;
  tables: string[];
}
interface Spare {
  schema: Schema;
  shape: Shape;
}
const spare: Spare[] = [];

const shapeOf = async (client: pg.Client, name: string): Promise<Shape> =>
  (await client.query<Shape>(SHAPE, [name])).rows[0] as Shape;

/** Empties a schema. False if it is not what it was when it was made: then it is of no use to another test. */
async function empty(
  client: pg.Client,
  { schema: { name }, shape: made }: Spare,
): Promise<boolean> {
  await client.query(`SET search_path TO "${name}"`);
  if ((await shapeOf(client, name)).things !== made.things) return false;
  const deletes = made.tables.map((one) =>
    one === "migrations"
      ? `DELETE FROM migrations WHERE version > ${MIGRATIONS.length}`
      : `DELETE FROM ${one}`,
  );
  // Triggers may add counts while rows are deleted. The second round deletes these.
  await client.query([...deletes, ...deletes].join("; "));
  return true;
}

async function makeSchema(): Promise<Spare> {
  const schema = newSchema();
  const db = await openDb(parseAddress(schema.url), silent);
  try {
    await migrate(db);
  } finally {
    await db.close();
  }
  return { schema, shape: await plainly((client) => shapeOf(client, schema.name)) };
}

/**
 * A schema that has its tables and no rows, until the test and its `afterEach` are over. Making one takes twenty times as long
 * as emptying it: the next test gets it too, also of another file. `test/setup.ts` drops it.
 */
export async function madeSchema(): Promise<Schema> {
  const made = spare.pop() ?? (await makeSchema());
  onTestFinished(async () => {
    if (await plainly((client) => empty(client, made))) spare.push(made);
    else await made.schema.drop();
  });
  return made.schema;
}

/** A database for each test of the surrounding `describe`, and the stores that the test opens on it as gateways do. */
export function createDatabase(getSchema: () => Promise<Schema> = madeSchema) {
  let schema: Schema;
  let opened: StoreHandle[] = [];
  const closeAll = async (): Promise<void> =>
    void (await Promise.all(opened.splice(0).map((handle) => handle.store.close())));
  beforeEach(async () => {
    schema = await getSchema();
    opened = [];
  });
  afterEach(closeAll);
  const within = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      return work(client);
    });
  return {
    get schema() {
      return schema;
    },
    /** Opens a store; `at` changes the address of the database. */
    async open(
      at: (url: URL) => void = () => undefined,
      options: { clock?: Clock; log?: Logger } = {},
    ): Promise<StoreHandle> {
      const url = new URL(schema.url);
      at(url);
      const parts = { clock: systemClock, log: silent, ...options };
      const handle = await openStore({ url: url.href, ...parts });
      opened.push(handle);
      return handle;
    },
    async close(handle: StoreHandle): Promise<void> {
      opened = opened.filter((one) => one !== handle);
      await handle.store.close();
    },
    closeAll,
    /** Works with a connection of the test's own, in the schema. */
    within,
    query: <T extends object>(text: string, values: unknown[] = []): Promise<T[]> =>
      within(async (client) => (await client.query<T>(text, values)).rows),
  };
}

/** A PostgreSQL store in a schema of its own. */
export async function postgresHome(): Promise<Home> {
  const schema = await madeSchema();
  const clock = createTestClock();
  return {
    clock,
    open: () => openStore({ url: schema.url, clock, log: silent }),
    remove: () => Promise.resolve(),
  };
}

/**
 * Tests that need PostgreSQL. `test/setup.ts` has looked whether one answers: where none does, they are left out, or
 * fail where one is required.
 */
export function describePostgres(name: string, tests: () => void): void {
  if (process.env["TEST_POSTGRES_ANSWERS"] === "yes") return void describe(name, tests);
  if (process.env["TEST_POSTGRES_REQUIRED"] !== "1") return void describe.skip(name, tests);
  describe(name, () => {
    it("finds a PostgreSQL", () => {
      throw new Error(
        "no PostgreSQL answers at TEST_POSTGRES_URL (default postgres://127.0.0.1:5432/test)",
      );
    });
  });
}
