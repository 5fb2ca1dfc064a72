import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { event, runAction } from "../store/suite/make.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createCli, shopConfig, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

const status = async (): Promise<Record<string, unknown>> =>
  await cli.json<Record<string, unknown>>("store");

describe("rouse store on SQLite", () => {
  it("says what is there and changes nothing, and brings it up to date", async () => {
    await cli.write("rouse.json5", shopConfig());
    const before = await status();
    expect(before).toMatchObject({
      driver: "sqlite",
      where: join(cli.dir, ".rouse", "rouse.db"),
      schema: 0,
      bytes: 0,
    });
    expect(await status()).toEqual(before);
    const migrated = await cli.rouse("store --migrate");
    expect(migrated).toMatchObject({ code: 0, out: `schema 0 → ${String(before["known"])}\n` });
    expect(await status()).toMatchObject({ schema: before["known"] });
    expect((await cli.rouse("store --migrate")).out).toContain("up to date");
    expect((await cli.rouse("store")).out).toContain("up to date");
  });
});

describePostgres("rouse store on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(async () => {
    schema = newSchema();
    await cli.write("store-url", `${schema.url}\n`);
    await cli.write("rouse.json5", shopConfig({ store: { url: { file: "store-url" } } }));
  });
  afterEach(() => schema.drop());

  it("says what is there and changes nothing, and brings it up to date", async () => {
    const before = await status();
    expect(before).toMatchObject({
      driver: "postgres",
      where: expect.stringContaining(schema.name),
      schema: 0,
    });
    expect(await status()).toEqual(before);
    expect(await cli.rouse("store --migrate")).toMatchObject({
      code: 0,
      out: `schema 0 → ${String(before["known"])}\n`,
    });
    const after = await status();
    expect(after).toMatchObject({ schema: before["known"] });
    expect(after["bytes"]).toBeGreaterThan(0);
    expect(JSON.parse((await cli.rouse("store --migrate --json")).out)).toMatchObject({
      from: before["known"],
      schema: before["known"],
    });
    await plainly((client) =>
      client.query(`INSERT INTO ${schema.name}.migrations (version) VALUES (99)`),
    );
    expect((await cli.rouse("store")).out).toContain("newer program");
    await cli.fails("events", 1, "newer version");
  });

  it("has pg_dump make copies, and makes no file itself", async () => {
    const { code, err } = await cli.rouse("backup --store copy.db");
    expect(code).toBe(2);
    expect(err).toContain("pg_dump");
    expect((await cli.rouse("backup --store copy.db")).err).not.toContain("is there already");
  });

  it("lets commands work on what gateways elsewhere keep there", async () => {
    const { store, queue } = await openStore({
      url: schema.url,
      clock: systemClock,
      log: silent,
    });
    const action = runAction();
    const given = event({ receivedAt: Date.now(), actions: [action] });
    await store.accept(given);
    expect((await cli.rouse("events")).out).toContain(given.id);
    expect((await cli.rouse("runs")).out).toContain(action.runId);
    expect(await cli.rouse(["runs", "cancel", action.runId])).toMatchObject({ code: 0 });
    expect(await store.runs.get(action.runId)).toMatchObject({ status: "cancelled" });
    expect(await queue.fetch("turn", 1)).toEqual([]);
    await store.close();
  });

  it("shows no password, wherever the config is shown or wrong", async () => {
    const url = new URL(schema.url);
    url.password = "canary-password";
    url.pathname = "/nobody_made_this";
    await cli.write("store-url", url.href);
    const env = { STORE_URL: url.href };
    await cli.write("env.json5", shopConfig({ store: { url: "${STORE_URL}" } }));
    const said = [
      await cli.rouse("store"),
      await cli.rouse("store --migrate --verbose"),
      await cli.rouse("events --verbose"),
      await cli.rouse("config --json"),
      await cli.rouse("store --config env.json5", { env }),
      await cli.rouse("config --json --config env.json5", { env }),
    ];
    expect(said.map((one) => one.code)).toEqual([1, 1, 1, 0, 1, 0]);
    for (const { out, err } of said) expect(out + err).not.toContain("canary-password");
    expect(said[0]?.err).toContain("create it first");
  });
});
