import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type pg from "pg";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { parseAddress } from "../../plugins/postgres/client/address.ts";
import { openDb } from "../../plugins/postgres/client/db.ts";
import { migrate } from "../../plugins/postgres/schema/migrate.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema/schema.ts";
import { event, runAction } from "./suite/make.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "../cli/world.ts";
import { startProgram, type Program } from "../e2e/program.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "./postgres.ts";

/** Longer than an impatient client waits for an answer. */
const HELD_MS = 1_600;
const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

describePostgres("the schema's steps", () => {
  let schema: Schema;
  let cli: CliWorld;
  let dir: string;
  let programs: Program[] = [];
  beforeEach(async () => {
    schema = newSchema();
    cli = await createCli();
    dir = mkdtempSync(join(tmpdir(), "rouse-migrate-"));
    await cli.write("rouse.json5", shopConfig({ store: { url: schema.url } }));
    writeFileSync(
      join(dir, "rouse.json5"),
      JSON.stringify(shopConfig({ store: { url: "${STORE_URL}" } })),
    );
  });
  afterEach(async () => {
    await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
    await cli.close();
    await schema.drop();
    rmSync(dir, { recursive: true, force: true });
  });

  /** Brings the schema to where an earlier version of the program left it. */
  const bringTo = async (steps: readonly string[], url = schema.url): Promise<void> => {
    const db = await openDb(parseAddress(url), silent);
    try {
      await migrate(db, steps);
    } finally {
      await db.close();
    }
  };
  const makeSchema = (): Promise<unknown> =>
    plainly((client) =>
      client.query(
        `CREATE SCHEMA "${schema.name}"; CREATE TABLE "${schema.name}".migrations (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`,
      ),
    );
  const within = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      return work(client);
    });
  const there = (...names: string[]): Promise<boolean[]> =>
    within(async (client) => {
      const { rows } = await client.query<{ there: boolean }>(
        `SELECT to_regclass('"${schema.name}".' || name) IS NOT NULL AS there FROM unnest($1::text[]) WITH ORDINALITY AS g (name, n) ORDER BY n`,
        [names],
      );
      return rows.map((row) => row.there);
    });
  const start = async (url = schema.url): Promise<Program> => {
    const program = await startProgram(process.execPath, [ROUSE, "start"], {
      cwd: dir,
      env: { STORE_URL: url, ROUSE_LOG_LEVEL: "warn" },
    });
    programs.push(program);
    return program;
  };
  const hook = (to: Program, id: number): Promise<Response> =>
    fetch(`${to.url}/hooks/shop`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ type: "order", id, customer: { name: "Ann" } }),
    });
  /** The client's own bound for statements, so that no test has to wait for the usual one. */
  const impatient = (): string => {
    const url = new URL(schema.url);
    url.searchParams.set("query_timeout", "1000");
    return url.href;
  };
  /** Begins something on a connection of its own, and ends it after so long. */
  const during = async (begin: string, ms: number): Promise<() => Promise<void>> => {
    let release = (): void => undefined;
    let begun = (): void => undefined;
    const ready = new Promise<void>((done) => (begun = done));
    const held = within(async (client) => {
      await client.query(begin);
      begun();
      await new Promise<void>((done) => {
        release = done;
        setTimeout(done, ms);
      });
    });
    await ready;
    return () => {
      release();
      return held;
    };
  };

  it("one that fails leaves nothing half done and says what to do; the next start continues with it", async () => {
    await makeSchema();
    // In the way of the first step, after it has made other tables.
    await within((client) => client.query("CREATE TABLE windows (mine text)"));
    for (const args of [["store", "--migrate"], ["events"], ["start"]]) {
      const { code, out, err } = await cli.rouse(args);
      expect([code, out]).toEqual([1, ""]);
      expect(err).toMatch(
        /step 1 of the schema failed \(SQLSTATE 42P07: relation "windows" already exists\); nothing of it was kept/,
      );
      expect(err).toMatch(/the schema is at 0\. .*start again: it goes on with step 1\n$/);
    }
    expect(JSON.parse((await cli.rouse(["store", "--json"])).out)).toMatchObject({
      schema: 0,
    });
    expect(await there("leases", "jobs", "windows")).toEqual([false, false, true]);

    await within((client) => client.query("DROP TABLE windows"));
    const repaired = await start();
    expect((await hook(repaired, 1)).status).toBe(202);
    expect(await repaired.stop()).toBe(0);
    expect(await cli.rouse(["store", "--migrate"])).toMatchObject({
      code: 0,
      out: `schema ${MIGRATIONS.length}: up to date\n`,
    });
  });

  it("one that is ended by the server says so, and quotes no row of a table", async () => {
    const steps = (second: string): string[] => [
      "CREATE TABLE one (word text); INSERT INTO one VALUES ('canary')",
      second,
    ];
    await expect(
      bringTo(steps("SET LOCAL statement_timeout TO 50; SELECT pg_sleep(5)")),
    ).rejects.toMatchObject({
      message: expect.stringMatching(
        /SQLSTATE 57014: canceling statement due to statement timeout\).*Look into PostgreSQL's log/,
      ) as string,
    });
    await expect(
      bringTo(steps("ALTER TABLE one ALTER word TYPE int USING word::int")),
    ).rejects.toMatchObject({
      message: expect.stringMatching(
        /^(?!.*canary).*step 2 of the schema failed \(SQLSTATE 22P02\)/,
      ) as string,
    });
  });

  it("a user who may not make or change tables gets an error with the user who may, and the command", async () => {
    const role = `${schema.name}_app`;
    const own = new URL(schema.url);
    own.username = role;
    await cli.write("rouse.json5", shopConfig({ store: { url: own.href } }));
    await plainly((client) => client.query(`CREATE ROLE ${role} LOGIN`));
    try {
      const nothing = await cli.rouse(["store", "--migrate"]);
      expect(nothing).toMatchObject({
        code: 1,
        err: expect.stringContaining(`CREATE SCHEMA ${schema.name} AUTHORIZATION`) as string,
      });
      await makeSchema();
      await within((client) =>
        client.query(`GRANT USAGE ON SCHEMA ${schema.name} TO ${role};
          GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema.name} TO ${role}`),
      );
      const { code, err } = await cli.rouse(["start"]);
      expect(code).toBe(1);
      expect(err).toMatch(
        /step 1 .*SQLSTATE 42501.* Run `rouse store --migrate` as the user whose tables these are/,
      );
      await bringTo(MIGRATIONS);
      await within((client) =>
        client.query(
          `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema.name} TO ${role}`,
        ),
      );
      expect(await cli.rouse(["events"])).toMatchObject({ code: 0 });
      const { store, queue } = await openStore({ url: own.href, clock: systemClock, log: silent });
      await store.accept(event({ actions: [runAction()] }));
      const [held] = await queue.fetch("turn", 1);
      expect(await store.commit((tx) => tx.jobs.settle(held!), held)).toBe(true);
      await store.close();
    } finally {
      await plainly((client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
    }
  });

  it("gateways wait for the one that makes them, for longer than they wait for anything else", async () => {
    const unlock = await during(
      `SELECT pg_advisory_lock(hashtextextended('rouse ${schema.name}', 7420))`,
      HELD_MS,
    );
    const opened = await openStore({ url: impatient(), clock: systemClock, log: silent });
    await opened.store.close();
    await unlock();
    expect(await there("leases")).toEqual([true]);
  });

  it("a step waits for those who read a table, for longer than a gateway waits for an answer", async () => {
    const steps = [
      "CREATE TABLE one (id int)",
      "ALTER TABLE one ADD word text; CREATE TABLE two ()",
    ];
    await bringTo(steps.slice(0, 1));
    const unlock = await during("BEGIN; SELECT count(*) FROM one", HELD_MS);
    await bringTo(steps, impatient());
    await unlock();
    expect(await there("two")).toEqual([true]);
  });
});
