import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Explanation } from "../../src/operate/records/explain.ts";
import { createWorld, TOKEN, type World, type WorldOptions } from "../e2e/world.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createCli, type CliWorld } from "./world.ts";

interface Both {
  world: World;
  cli: CliWorld;
}

const open: Both[] = [];
const schemas: Schema[] = [];
afterEach(async () => {
  for (const { world, cli } of open.splice(0)) {
    await world.stop();
    await cli.close();
  }
  for (const schema of schemas.splice(0)) await schema.drop();
});

async function begin(options: WorldOptions): Promise<Both> {
  const cli = await createCli();
  const world = await createWorld({ workers: false, ...options, dir: cli.dir }).catch(
    async (error: unknown) => {
      await cli.close();
      throw error;
    },
  );
  const both = { world, cli };
  open.push(both);
  return both;
}

const mapping = (total: number, more: object = {}): object => ({
  id: "order.big",
  match: { path: "shop", payload: { "data.total": { $gte: total } } },
  messageTemplate: "Order {{data.id}}",
  ...more,
});
const lines = (text: string): string => text.replace(/^ {6}/gm, "");

async function postTo({ world }: Both, body: object, path = "shop"): Promise<string> {
  const { body: answer } = await world.post(`/hooks/${path}`, body);
  return answer.eventId as string;
}

/** Changes the config and waits until it is in use. */
const change = ({ world }: Both, hooks: object, more: object = {}): Promise<void> =>
  world.reload({ hooks, ...more });

/** A kind of store, as far as the tests need it. */
interface Kind {
  /** The section `store` of a config, for a store of its own. */
  store(): object | undefined;
  /** All that the store has written for its configs. */
  written(both: Both): Promise<string>;
}

const sqlite: Kind = {
  store: () => undefined,
  async written({ cli }) {
    const dir = join(cli.dir, ".rouse");
    const files = readdirSync(dir).filter((name) => name.startsWith("rouse.db"));
    return files.map((name) => readFileSync(join(dir, name), "latin1")).join("\n");
  },
};

const postgres: Kind = {
  store() {
    const schema = newSchema();
    schemas.push(schema);
    return { url: schema.url };
  },
  written: () =>
    plainly(async (client) => {
      const { name } = schemas.at(-1) as Schema;
      const { rows } = await client.query<{ row: string }>(
        `SELECT configs::text AS row FROM "${name}".configs UNION ALL SELECT events::text FROM "${name}".events`,
      );
      return rows.map(({ row }) => row).join("\n");
    }),
};

function explainsThen({ store, written }: Kind): void {
  const start = (hooks: object, options: WorldOptions = {}): Promise<Both> => {
    const own = store();
    return begin({
      ...options,
      config: { ...options.config, hooks, ...(own ? { store: own } : {}) },
    });
  };
  const reload = (both: Both, hooks: object, more: object = {}): Promise<void> => {
    const schema = schemas.at(-1);
    return change(both, hooks, {
      ...more,
      ...(store === postgres.store && schema ? { store: { url: schema.url } } : {}),
    });
  };

  it("gives the answer of the config that decided", async () => {
    const both = await start({ mappings: [mapping(100)] });
    const id = await postTo(both, { data: { id: 7, total: 50 } });
    await reload(both, {
      mappings: [{ id: "first", match: { path: "other" }, messageTemplate: "x" }, mapping(10)],
    });
    const then = await both.cli.explain(id);
    expect(then).toMatchObject({
      config: { number: 1, isToday: false, today: 2, note: null },
      note: null,
    });
    expect(then.evaluation).toMatchObject({
      outcome: "unmatched",
      traces: [{ mapping: "order.big", verdict: "no", place: "rouse.json5:1" }],
    });
    const { out } = await both.cli.rouse(`explain ${id}`);
    expect(out).toMatch(
      /decided by +config 1, in use from .+ to at least .+; today's is config 2\n/,
    );
    expect(out).toContain("data.total is the number 50, which is less than 100");
    const other = await postTo(both, { data: { id: 8, total: 50 } });
    expect(await both.cli.explain(other)).toMatchObject({
      config: { number: 2, isToday: true },
      note: null,
    });
    // A config that comes back is the one that it was.
    await reload(both, { mappings: [mapping(100)] });
    expect(await both.cli.explain(id)).toMatchObject({ config: { number: 1, isToday: true } });
  });

  it("keeps no secret of a config, and gives none in an answer", async () => {
    const secret = (n: number): string => `hush-secret-${n}-0123456789`;
    const callback = Buffer.from(secret(7).padEnd(30, "x")).toString("base64");
    const both = await start(
      {
        token: ["${HOOK_TOKEN}", secret(1), TOKEN],
        callbackHosts: ["example.com"],
        mappings: [
          mapping(1, {
            auth: { token: secret(2) },
            callback: { url: `https://example.com/${secret(6)}`, secret: callback },
          }),
          {
            match: { path: "basic" },
            auth: { user: "u", password: secret(3) },
            messageTemplate: "-",
          },
          {
            match: { path: "named", headers: { "x-shop-token": secret(8) } },
            messageTemplate: "-",
          },
        ],
        presets: [{ use: "github", secret: [secret(4), "${PRESET_SECRET}"] }],
      },
      {
        env: { HOOK_TOKEN: secret(9), PRESET_SECRET: secret(10) },
        files: {
          "mappings/own.json5": {
            id: "own",
            auth: { token: { file: "own.secret" } },
            mappings: [{ match: { path: "own" }, messageTemplate: "-" }],
          },
          "mappings/plain.json5": {
            id: "plain",
            auth: { token: secret(5) },
            mappings: [{ match: { path: "plain" }, messageTemplate: "-" }],
          },
          "own.secret": secret(11),
        },
        config: { channels: { telegram: { token: `123456:${secret(12)}-abcdefghijkl` } } },
      },
    );
    const answer = await both.world.post(
      "/hooks/shop",
      { data: { total: 5, id: 1 } },
      { authorization: `Bearer ${secret(2)}` },
    );
    expect(answer.status).toBe(202);
    const id = answer.body.eventId as string;
    await reload(both, { mappings: [] });
    const shown = JSON.stringify(await both.cli.explain(id));
    expect(shown).toContain('"mapping":"order.big"');
    const kept = await written(both);
    expect(kept).toContain("order.big");
    expect(kept).toContain("${PRESET_SECRET}");
    expect(kept).toContain("own.secret");
    for (const text of [kept, shown]) expect(text).not.toMatch(/hush-secret/);
    expect(kept).not.toContain(callback);
  });

  // The store has no part in an explanation by a kept config, so one kind of store is enough for the rest.
  if (store !== sqlite.store) return;

  it("names the file and line in which a mapping stood, and explains mapping files that are gone", async () => {
    const text = lines(`{
      // a comment that says hush-0001
      gateway: { port: 0 },
      hooks: {
        enabled: true, token: "${TOKEN}",
        mappings: [
          { id: "one", match: { path: "shop", payload: { "issue.key": "A" } }, messageTemplate: "1" },

          { id: "two", match: { path: "shop", payload: { $or: [{ "issue.key": "C" }, { token: "T" }] } }, messageTemplate: "2" },
        ],
      },
      ${JSON.stringify({ store: store() ?? {} }).slice(1, -1)},
    }`);
    const file = lines(`{
      id: "extra",
      mappings: [

        { id: "three", match: { path: "shop", payload: { kind: "k" } }, messageTemplate: "3 {{kind}}", validate: "k.schema.json" },
      ],
    }`);
    const both = await begin({
      config: {},
      files: {
        "rouse.json5": text,
        "mappings/extra.json5": file,
        "mappings/k.schema.json": { required: ["kind"] },
      },
    });
    const id = await postTo(both, { kind: "k", issue: { key: "D" } });
    const second = await postTo(both, { issue: { key: "C" } });
    both.world.write("mappings/extra.json5", {
      id: "extra",
      mappings: [{ match: { path: "else" }, messageTemplate: "-" }],
    });
    both.world.write("mappings/added.json5", {
      id: "added",
      mappings: [{ match: { path: "shop" }, messageTemplate: "all" }],
    });
    both.world.write("mappings/k.schema.json", { required: ["never"] });
    both.world.write("rouse.json5", text.replace('"one"', '"uno"'));
    await both.world.gateway.reload();
    const { evaluation, note } = await both.cli.explain(id);
    expect([note, evaluation?.outcome]).toEqual([null, "actions"]);
    expect(evaluation?.traces).toMatchObject([
      { mapping: "one", place: "rouse.json5:7", verdict: "no" },
      { mapping: "two", place: "rouse.json5:9", verdict: expect.any(String) },
      { mapping: "three", place: "extra.json5:5", verdict: "first" },
    ]);
    expect((await both.cli.explain(second)).evaluation).toMatchObject({
      mapping: "two",
      outcome: "actions",
    });
    expect(await written(both)).not.toContain("hush-0001");
  });

  it("does not run a module that has changed, and says so", async () => {
    const module = (word: string): string => `import { writeFileSync } from "node:fs";
      console.log("loaded ${word}");
      export default ({ payload }) => ({ message: "${word} " + payload.id });`;
    const both = await start(
      {
        mappings: [
          {
            id: "made",
            match: { path: "shop" },
            messageTemplate: "-",
            transform: { module: "shop.js" },
          },
        ],
      },
      { files: { "transforms/shop.js": module("earlier") } },
    );
    const id = await postTo(both, { id: 7 });
    expect((await both.cli.explain(id)).evaluation).toMatchObject({
      outcome: "actions",
      actions: [{ content: [{ text: "earlier 7" }] }],
    });
    await reload(both, {
      mappings: [{ id: "made", match: { path: "elsewhere" }, messageTemplate: "-" }],
    });
    // The same file still runs: only the mapping has changed.
    expect(await both.cli.explain(id)).toMatchObject({
      note: null,
      evaluation: { debug: { notes: [{ console: [{ text: "loaded earlier" }] }] } },
    });
    both.world.write("transforms/shop.js", module("later"));
    const changed = await both.cli.explain(id);
    expect(changed).toMatchObject({
      note: "the transform's module has changed since, and was not run: the event and its runs have what it gave",
      evaluation: { traces: [{ mapping: "made", verdict: "first" }] },
      runs: [{ run: { input: [{ text: "earlier 7" }] } }],
    });
    expect(JSON.stringify(changed)).not.toContain("later");
  });

  it("explains then while the config is broken now, and says what differs with a variable that has changed", async () => {
    const env: Record<string, string> = { LEAST: "A" };
    const both = await start(
      {
        mappings: [
          {
            id: "named",
            match: { path: "shop", payload: { kind: "${LEAST}" } },
            messageTemplate: "-",
          },
        ],
      },
      { env },
    );
    const id = await postTo(both, { kind: "A" });
    await reload(both, { mappings: [mapping(1)] });
    both.world.write("rouse.json5", "{ hooks: { mappings: [{ match: ");
    expect(await both.world.gateway.reload()).toMatchObject({ ok: false });
    const answer = async (): Promise<Explanation> =>
      (await both.world.admin(`/admin/v1/events/${id}/explain`)).body.explanation as Explanation;
    expect(await answer()).toMatchObject({
      evaluation: { mapping: "named", outcome: "actions" },
    });
    env["LEAST"] = "B";
    await reload(both, { mappings: [mapping(2)] });
    expect(await answer()).toMatchObject({
      config: { number: 1, note: null },
      evaluation: { outcome: "unmatched" },
      note: "it was accepted by named; by that config it would be unmatched",
    });
  });

  it("keeps the nearest mapping of unmatched and of skipped events as the reason, and answers senders as before", async () => {
    const both = await start({
      mappings: [
        mapping(100),
        {
          id: "none",
          match: { path: "shop", payload: { kind: "each" } },
          forEach: "list",
          messageTemplate: "-",
        },
      ],
    });
    const [unmatched, skipped] = [
      await both.world.post("/hooks/shop", { kind: "x" }),
      await both.world.post("/hooks/shop", { kind: "each" }),
    ];
    expect([unmatched.body.nearest, skipped.status, skipped.body]).toEqual([
      expect.any(Object),
      204,
      "",
    ]);
    const reasons = [
      'no mapping matched; the closest is "order.big", whose match.payload.data.total does not hold',
      'forEach found no items; the closest other mapping is "order.big", whose match.payload.data.total does not hold',
    ];
    const { body } = await both.world.admin("/admin/v1/events");
    const events = (body.events as { reason: string; nearest: object }[]).toReversed();
    for (const [n, reason] of reasons.entries()) expect(events[n]?.reason).toContain(reason);
    expect(events[1]?.nearest).toEqual({
      mapping: "order.big",
      condition: "match.payload.data.total",
    });
    const { out } = await both.cli.rouse("events");
    // A list says it in fewer words.
    expect(out).toContain("match.payload.data.total of order.big does not hold");
    expect(out).toContain(reasons[1]);
  });

  it("says of each action what the gateway would refuse, by the agents of then", async () => {
    const shop = (id: string, more: object): object => ({
      id,
      match: { path: `by-${id}` },
      messageTemplate: "m",
      ...more,
    });
    const hooks = {
      allowedSessionKeyPrefixes: ["hook:"],
      mappings: [
        shop("agent", { agentId: "{{agent}}" }),
        shop("key", { sessionKey: "{{key}}" }),
        shop("channel", { channel: "{{channel}}" }),
        shop("recipient", { channel: "telegram", to: "{{to}}" }),
        shop("model", { model: "{{model}}" }),
      ],
    };
    const channels = { telegram: { token: "123456:abcdefghijklmnopqrstuvwxyz0123456789" } };
    const both = await start(hooks, { config: { agents: { list: [{ id: "ops" }] }, channels } });
    const bodies: [string, object, string][] = [
      ["agent", { agent: "nobody" }, "unknown_agent"],
      ["key", { key: "main" }, "session_key_not_allowed"],
      ["channel", { channel: "carrier-pigeon" }, "unknown_channel"],
      ["recipient", { to: "not a chat" }, "invalid_recipient"],
      ["model", { model: "no/model" }, "unknown_model"],
    ];
    const ids: string[] = [];
    for (const [path, body] of bodies)
      ids.push((await both.world.post(`/hooks/by-${path}`, body)).body.requestId as string);
    const fine = await postTo(both, { agent: "ops" }, "by-agent");
    await reload(both, hooks, { channels });
    for (const [n, id] of ids.entries()) {
      const { evaluation, note } = await both.cli.explain(id);
      expect([note, evaluation?.actions]).toMatchObject([
        null,
        [{ ok: true, problem: { code: bodies[n]?.[2] } }],
      ]);
      expect((await both.cli.rouse(`explain ${id}`)).out).toContain("the gateway would reject it");
    }
    expect((await both.cli.explain(fine)).evaluation?.actions).toMatchObject([
      { ok: true, problem: null, fields: { agentId: "ops" } },
    ]);
  });
}

describe("rouse explain by the config of then", () => explainsThen(sqlite));
describePostgres("rouse explain by the config of then, on PostgreSQL", () =>
  explainsThen(postgres),
);
