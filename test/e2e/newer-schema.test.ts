import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { parseAddress } from "../../plugins/postgres/client/address.ts";
import { openDb } from "../../plugins/postgres/client/db.ts";
import { migrate } from "../../plugins/postgres/schema/migrate.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema/schema.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

/** Changes that the next version may make to the tables, by the rules of `MIGRATIONS`. */
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
    for (const args of [["start"], ["store", "--migrate"], ["events"]]) {
      const { code, err } = await cli.rouse(args);
      expect([args, code]).toEqual([args, 1]);
      expect(err).toContain(
        `schema ${MIGRATIONS.length + 1} by a newer version of the program (known here up to ${MIGRATIONS.length})`,
      );
    }
    expect(JSON.parse((await cli.rouse("store --json")).out)).toMatchObject({
      schema: MIGRATIONS.length + 1,
      known: MIGRATIONS.length,
    });
    expect(
      (await cli.rouse("events", { env: { ROUSE_STATE_DIR: join(dir, ".rouse") } })).code,
    ).toBe(0);
    const columns = await plainly((client) =>
      client.query<{ weight: string }>(
        `SELECT DISTINCT weight FROM "${schema.name}".runs WHERE colour IS NULL`,
      ),
    );
    expect(columns.rows).toEqual([{ weight: "0" }]);
  });
});
