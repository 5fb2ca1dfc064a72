import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import JSON5 from "json5";
import { afterEach, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { startProgram } from "../e2e/program.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createCli, type CliWorld } from "./world.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

const ended: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).toReversed()) await end();
});

async function open(): Promise<CliWorld> {
  const cli = await createCli();
  ended.push(cli.close);
  return cli;
}

async function start(cli: CliWorld, config: object): Promise<World> {
  const world = await createWorld({ dir: cli.dir, config, workers: false });
  ended.push(() => world.stop());
  return world;
}

const mapping = (id: string): object => ({
  id,
  match: { path: "shop" },
  messageTemplate: `by ${id}`,
});

const postTo = async (world: World): Promise<string> =>
  (await world.post("/hooks/shop", { id: 1 })).body.eventId as string;

describe("the recorded config", () => {
  it("is there after a kill -9 and a start with another config, and without a gateway", async () => {
    const cli = await open();
    const write = (id: string): Promise<string> =>
      cli.write("rouse.json5", {
        gateway: { port: 0 },
        hooks: { enabled: true, token: TOKEN, mappings: [mapping(id)] },
      });
    await write("first");
    const killed = await startProgram(process.execPath, [ROUSE, "start"], {
      cwd: cli.dir,
      env: { ROUSE_LOG_LEVEL: "warn" },
    });
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const answer = await fetch(`${killed.url}/hooks/shop`, {
      method: "POST",
      headers,
      body: "{}",
    });
    const { eventId } = (await answer.json()) as { eventId: string };
    await killed.kill();
    await write("second");
    expect(await cli.explain(eventId)).toMatchObject({
      config: { number: 1 },
      evaluation: { mapping: "first" },
    });
    expect((await cli.rouse(`explain ${eventId}`)).out).toMatch(
      /decided by +config 1, .*; today's is a config without a number\n/,
    );
    await start(cli, { hooks: { mappings: [mapping("second")] } });
    const { config, evaluation, note } = await cli.explain(eventId);
    expect({ config, evaluation, note }).toMatchObject({
      config: { number: 1, today: 2, note: null },
      evaluation: { mapping: "first" },
      note: null,
    });
  });

  it("has the preset as it was, and says so where a config was never recorded or cannot be used", async () => {
    const cli = await open();
    const first = await createWorld({
      dir: cli.dir,
      config: { hooks: { presets: [{ use: "alertmanager", path: "shop" }] } },
      workers: false,
    });
    const id = await postTo(first);
    await first.stop();
    const edit = (change: (content: { files: Record<string, string> }) => void): void => {
      const db = new DatabaseSync(join(cli.dir, ".rouse/rouse.db"));
      const { seq, content } = db
        .prepare("SELECT seq, content FROM configs ORDER BY seq")
        .get() as { seq: number; content: string };
      const changed = JSON.parse(content) as { files: Record<string, string> };
      change(changed);
      db.prepare("UPDATE configs SET content = ? WHERE seq = ?").run(JSON.stringify(changed), seq);
      db.close();
    };
    // As an earlier version of the program would have brought it.
    edit(({ files }) => {
      const document = JSON5.parse<{ mappings: { id: string }[] }>(
        files["presets/alertmanager.json"] ?? "",
      );
      for (const one of document.mappings) one.id = one.id.replace("alertmanager.", "older.");
      files["presets/alertmanager.json"] = JSON.stringify(document);
    });
    const config = { hooks: { mappings: [mapping("today")] } };
    const second = await createWorld({ dir: cli.dir, config, workers: false });
    expect((await cli.explain(id)).evaluation?.traces.map((trace) => trace.mapping)).toContainEqual(
      expect.stringMatching(/^older\./),
    );
    await second.stop();
    edit(({ files }) => void (files["presets/alertmanager.json"] = "{"));
    const third = await createWorld({ dir: cli.dir, config, workers: false });
    const broken = await cli.explain(id);
    expect(broken).toMatchObject({
      evaluation: { mapping: "today" },
      note: expect.stringContaining("; today it would be accepted by today") as string,
    });
    expect(broken.config?.note).toMatch(
      /^config 1 cannot be used \(preset alertmanager: is not valid JSON5.*\); it is explained by today's config$/,
    );
    await third.stop();
    const db = new DatabaseSync(join(cli.dir, ".rouse/rouse.db"));
    db.exec("DELETE FROM configs");
    db.close();
    await start(cli, config);
    const gone = await cli.explain(id);
    expect(gone.config).toMatchObject({
      number: null,
      note: "the config that decided was not recorded; it is explained by today's config",
    });
    expect((await cli.rouse(`explain ${id}`)).out).toMatch(
      /decided by +a config that was not recorded; today's is config \d\n/,
    );
  });
});

describePostgres("recorded configs on PostgreSQL", () => {
  const schemas: Schema[] = [];
  const newStore = (): { store: { url: string } } => {
    const schema = newSchema();
    schemas.push(schema);
    ended.push(schema.drop);
    return { store: { url: schema.url } };
  };

  it("of two gateways that differ decide each their own events, at whichever gateway is asked", async () => {
    const store = newStore();
    const [one, two] = [await open(), await open()];
    const first = await start(one, { ...store, hooks: { mappings: [mapping("of.one")] } });
    const second = await start(two, { ...store, hooks: { mappings: [mapping("of.two")] } });
    const events = [await postTo(first), await postTo(second)];
    for (const cli of [one, two])
      for (const [n, id] of events.entries()) {
        const { config, evaluation, note } = await cli.explain(id);
        expect([config?.isToday, evaluation?.mapping, note]).toEqual([
          cli === [one, two][n],
          ["of.one", "of.two"][n],
          null,
        ]);
      }
    // The same config on another machine is the same.
    const three = await open();
    await start(three, { ...store, hooks: { mappings: [mapping("of.two")] } });
    expect((await three.explain(events[1] as string)).config).toMatchObject({
      isToday: true,
      number: (await two.explain(events[1] as string)).config?.number,
    });
  });

  it("are copied with their events", async () => {
    const [cli, target] = [await open(), await open()];
    mkdirSync(join(cli.dir, ".rouse"), { recursive: true });
    const world = await createWorld({
      dir: cli.dir,
      config: { hooks: { mappings: [mapping("then")] } },
      workers: false,
    });
    const id = await postTo(world);
    await world.stop();
    const { store } = newStore();
    const file = join(cli.dir, "kept.jsonl");
    expect((await cli.rouse(`store export ${file}`)).code).toBe(0);
    await target.write("rouse.json5", { store });
    expect(await target.rouse(`store import ${file}`)).toMatchObject({ code: 0 });
    await start(target, { store, hooks: { mappings: [mapping("now")] } });
    expect(await target.explain(id)).toMatchObject({
      config: { number: 1, today: 2 },
      evaluation: { mapping: "then" },
      note: null,
    });
  });
});
