import { Socket } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parseAddress } from "../../plugins/postgres/client/address.ts";
import { openDb, type Db } from "../../plugins/postgres/client/db.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "./postgres.ts";

it("PostgreSQL: user and password come from the given environment if the URL names none", () => {
  const env = { PGUSER: "ada", PGPASSWORD: "p@ss word\n" };
  expect(parseAddress("postgres://db.example/work", env).connection).toBe(
    "postgres://ada:p%40ss%20word@db.example/work",
  );
  expect(parseAddress("postgres://eve:own@db.example/work", env).connection).toBe(
    "postgres://eve:own@db.example/work",
  );
  expect(parseAddress("postgres://db.example/work", {}).connection).toMatch(
    /^postgres:\/\/[^:@]+@db\.example\/work$/,
  );
});

describePostgres("the connections to PostgreSQL", () => {
  let schema: Schema;
  let db: Db;

  beforeEach(async () => {
    schema = newSchema();
    await plainly((client) =>
      client.query(
        `CREATE SCHEMA "${schema.name}"; CREATE TABLE "${schema.name}".notes (id int PRIMARY KEY)`,
      ),
    );
    db = await openDb(parseAddress(schema.url), silent);
  });
  afterEach(async () => {
    await db.close();
    await schema.drop();
  });
  const notes = async (): Promise<number[]> =>
    (await db.query<{ id: number }>("SELECT id FROM notes ORDER BY id")).map(({ id }) => id);

  it.each([
    [
      "text",
      [
        "",
        "plain",
        `"quoted" \\ {curly}, NULL`,
        "漢字 🦜 e\u0301",
        "a\0b\u{10FFFF}",
        null,
        "null",
        "x".repeat(100_000),
      ],
    ],
    [
      "bigint",
      [
        0,
        1,
        -1,
        2 ** 31,
        -(2 ** 31) - 1,
        2 ** 32,
        Date.now(),
        -(2 ** 40) - 7,
        Number.MAX_SAFE_INTEGER,
        Number.MIN_SAFE_INTEGER,
        null,
      ],
    ],
    ["int", [0, -1, 2 ** 31 - 1, -(2 ** 31), null]],
    ["bytea", [Buffer.of(), Buffer.of(0, 255, 92), null]],
    ["boolean", [true, false, null]],
    ["text", []],
    ["bytea", []],
  ])("gives lists of %s back as they were sent", async (type, list) => {
    const rows = await db.query<{ value: unknown }>(
      `SELECT value FROM unnest($1::${type}[]) WITH ORDINALITY AS given (value, nth) ORDER BY nth`,
      [list],
    );
    expect(rows.map(({ value }) => value)).toEqual(list);
  });

  it("end by themselves if the gateway's machine is gone, with what they have locked", async () => {
    const names = [
      "tcp_keepalives_idle",
      "tcp_keepalives_interval",
      "tcp_keepalives_count",
      "tcp_user_timeout",
    ];
    const read = (): Promise<{ value: string }[]> =>
      db.query(
        "SELECT current_setting(name) AS value FROM unnest($1::text[]) WITH ORDINALITY AS given (name, nth) ORDER BY nth",
        [names],
      );
    expect((await read()).map(({ value }) => Number(value))).toEqual([10, 5, 3, 25_000]);
    const tested = vi.spyOn(Socket.prototype, "setKeepAlive");
    const client = await db.client();
    expect(tested).toHaveBeenCalledWith(true, 10_000);
    tested.mockRestore();
    expect((await client.query("SHOW tcp_keepalives_idle")).rows).toEqual([
      { tcp_keepalives_idle: "10" },
    ]);
    await client.end();
  });

  it("takes numbers that are given as text, as PostgreSQL reads them, and refuses what is none", async () => {
    expect(
      await db.query("SELECT sum(v)::bigint AS sum FROM unnest($1::bigint[]) AS v", [
        ["9007199254740993", 2],
      ]),
    ).toEqual([{ sum: 9007199254740996 }]);
    await expect(db.query("SELECT unnest($1::bigint[])", [[1, 1.5]])).rejects.toMatchObject({
      code: "internal",
      message: "the store refused a record",
    });
    await expect(db.query("SELECT unnest($1::int[])", [[2 ** 31]])).rejects.toMatchObject({
      message: "the store refused a record",
    });
  });

  it("has committed what a transaction sent last when it resolves, takes nothing after it, and rolls back what fails", async () => {
    const sent = db.transaction(async (sql) => {
      const added = sql.query("INSERT INTO notes VALUES (1)");
      sql.last();
      expect(() => sql.query("SELECT 1")).toThrow("nothing can follow");
      await added;
      return "value";
    });
    expect(await sent).toBe("value");
    expect(await notes()).toEqual([1]);
    const failed = db.transaction(async (sql) => {
      const added = [
        sql.query("INSERT INTO notes VALUES (2)"),
        sql.query("INSERT INTO notes VALUES (1)"),
      ];
      sql.last();
      await Promise.all(added);
    });
    await expect(failed).rejects.toMatchObject({
      message: expect.stringContaining("holds already") as unknown,
    });
    await expect(
      db.transaction(async (sql) => {
        await sql.query("INSERT INTO notes VALUES (3)");
        throw new Error("changed my mind");
      }),
    ).rejects.toThrow("changed my mind");
    expect(await notes()).toEqual([1]);
  });
});
