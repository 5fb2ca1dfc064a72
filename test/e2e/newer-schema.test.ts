import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { parseAddress } from "../../plugins/postgres/address.ts";
import { openDb } from "../../plugins/postgres/db.ts";
import { migrate } from "../../plugins/postgres/migrate.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

/** What the next version may do to the tables, by the rules of `MIGRATIONS`. */
const NEXT = `
  ALTER TABLE runs ADD COLUMN colour text, ADD COLUMN weight bigint NOT NULL DEFAULT 0;
  ALTER TABLE holders ADD COLUMN place text;
  CREATE INDEX runs_colour ON runs (colour);
  CREATE TABLE colours (name text PRIMARY KEY, seen timestamptz NOT NULL DEFAULT now())`;

describePostgres("versions side by side", () => {
  let schema: Schema;
  let provider: Provider;
  let dir: string;
  let cli: CliWorld;
  let worlds: World[] = [];
  beforeEach(async () => {
    schema = newSchema();
    provider = await createProvider();
    dir = mkdtempSync(join(tmpdir(), "rouse-versions-"));
    cli = await createCli();
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    await cli.close();
    await provider.close();
    await schema.drop();
    rmSync(dir, { recursive: true, force: true });
  });

  const open = async (workers = true): Promise<World> => {
    const mapping = {
      id: "shop",
      match: { path: "shop" },
      sessionKey: "hook:shop:{{id}}",
      messageTemplate: "order {{id}}",
      allowUnsafeExternalContent: true,
      deliver: false,
    };
    const config = {
      store: { url: schema.url },
      hooks: { mappings: [{ ...mapping, limits: { concurrent: 2, queue: 5000 } }] },
      ...modelConfig(provider),
    };
    const world = await createWorld({ dir, config, workers });
    worlds.push(world);
    return world;
  };
  const order = async (world: World, id: number): Promise<string> => {
    const { status, body } = await world.post(
      "/hooks/shop",
      { id },
      { "idempotency-key": `order-${id}` },
    );
    expect(status).toBe(202);
    return body.runId as string;
  };
  const runOf = async (world: World, id: string) =>
    (await world.admin(`/admin/v1/runs/${id}`)).body.run;
  const succeeds = (world: World, id: string): Promise<boolean> =>
    world.until(async () => (await runOf(world, id)).status === "succeeded");
  const toNext = async (): Promise<void> => {
    const db = await openDb(parseAddress(schema.url), silent);
    try {
      await migrate(db, [...MIGRATIONS, NEXT]);
    } finally {
      await db.close();
    }
  };

  it("a gateway that runs goes on while a newer program brings the schema up; none of its version starts any more", async () => {
    const running = await open();
    let n = 0;
    const sent: string[] = [];
    let over = false;
    const sending = (async () => {
      while (!over) sent.push(await order(running, n++));
    })();
    await running.until(async () => sent.length > 20);
    await toNext();
    const during = sent.length;
    await running.until(async () => sent.length > during + 20);
    over = true;
    await sending;
    for (const id of sent) await succeeds(running, id);
    expect(
      (await running.post("/hooks/shop", { id: 0 }, { "idempotency-key": "order-0" })).body.runId,
    ).toBe(sent[0]);
    expect((await running.post("/hooks/wake", { text: "still awake" })).status).toBe(200);
    await running.until(async () =>
      provider.requests.some((request) => provider.text(request).includes("still awake")),
    );
    expect((await running.get("/readyz")).status).toBe(200);
    expect(await running.admin("/readyz?detail")).toMatchObject({
      status: 200,
      body: { gateways: [{ self: true, alive: true }] },
    });

    // Commands go through the gateway that runs; a start, and what opens the store itself, says what is the matter.
    await cli.write("rouse.json5", {
      store: { url: schema.url },
      hooks: { enabled: true, token: TOKEN },
    });
    for (const args of [["start"], ["store", "migrate"], ["events", "list"]]) {
      const { code, err } = await cli.rouse(args);
      expect([args, code]).toEqual([args, 1]);
      expect(err).toContain(
        `schema ${MIGRATIONS.length + 1} by a newer version of the program (known here up to ${MIGRATIONS.length})`,
      );
    }
    expect(JSON.parse((await cli.rouse(["store", "status", "--json"])).out)).toMatchObject({
      schema: MIGRATIONS.length + 1,
      known: MIGRATIONS.length,
    });
    expect(
      (await cli.rouse(["events", "list"], { env: { ROUSE_STATE_DIR: join(dir, ".rouse") } })).code,
    ).toBe(0);
    const columns = await plainly((client) =>
      client.query<{ weight: string }>(
        `SELECT DISTINCT weight FROM "${schema.name}".runs WHERE colour IS NULL`,
      ),
    );
    expect(columns.rows).toEqual([{ weight: "0" }]);
  });

  it("work that a gateway of version 1 accepted, or holds, beside one of this version comes to its end once", async () => {
    // Its rows: without the columns of the steps after the first, and a holder that only says that it lives.
    const front = await open(false);
    const [held, free] = [await order(front, 1), await order(front, 2)];
    const old = await plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      await client.query("UPDATE runs SET mapping = NULL");
      const { rows } = await client.query<{ id: string }>(
        "INSERT INTO holders DEFAULT VALUES RETURNING id",
      );
      await client.query(
        "UPDATE jobs SET holder = $1, ready = NULL, attempts = 1, starts = 1 WHERE id = $2",
        [rows[0]?.id, held],
      );
      return rows[0]?.id;
    });
    const beat = setInterval(() => {
      void plainly((client) =>
        client.query(`UPDATE "${schema.name}".holders SET seen = now() WHERE id = $1`, [old]),
      );
    }, 1000);
    try {
      worlds = [];
      await front.stop();
      const fresh = await open();
      await succeeds(fresh, free);
      // For longer than a lease lasts.
      await new Promise((done) => setTimeout(done, 11_000));
      expect(await runOf(fresh, held)).toMatchObject({ status: "queued" });
      expect((await fresh.admin("/readyz?detail")).body.gateways).toHaveLength(1);
      expect((await fresh.admin("/admin/v1/doctor")).status).toBe(200);
      clearInterval(beat);
      for (
        const end = Date.now() + 20_000;
        (await runOf(fresh, held)).status !== "succeeded" && Date.now() < end;
      )
        await new Promise((done) => setTimeout(done, 100));
      expect(await runOf(fresh, held)).toMatchObject({ status: "succeeded" });
    } finally {
      clearInterval(beat);
    }
    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const turns = await store.list("turns", {
      agentId: "main",
      origin: "hook",
      key: "hook:shop:1",
      via: { path: "shop", credential: "hooks.token" },
    });
    expect(turns.map(({ runId }) => runId)).toEqual([held]);
    await store.close();
    expect(
      provider.requests.filter((request) => provider.text(request).endsWith("order 1")),
    ).toHaveLength(1);
  });
});
