import { randomBytes } from "node:crypto";
import type pg from "pg";
import { describe, it } from "vitest";
import { isClash } from "../../plugins/postgres/errors.ts";
import plugin from "../../plugins/postgres/index.ts";
import { getSqlSource, openStore } from "../../src/store/open.ts";
import type { SqlSource } from "../../src/store/sql.ts";
import type { StoreDriver } from "../../src/store/types.ts";
import { createTestClock, type Home } from "../../src/testing/store/make.ts";
import { silent } from "./home.ts";
import { connectPlain, postgresAddress } from "./postgres-client.ts";

export const POSTGRES = plugin.store as StoreDriver;

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
  const name = `test_${randomBytes(6).toString("hex")}`;
  const url = postgresAddress();
  url.searchParams.set("schema", name);
  return {
    name,
    url: url.href,
    drop: () => plainly((client) => dropSchema(client, name)),
  };
}

/** A PostgreSQL store in a schema of its own. */
export async function postgresHome(): Promise<Home> {
  const schema = newSchema();
  const clock = createTestClock();
  return {
    clock,
    open: () => openStore({ url: schema.url, clock, log: silent }),
    remove: () => schema.drop(),
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
