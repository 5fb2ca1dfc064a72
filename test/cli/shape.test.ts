import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { HookShape } from "../../src/operate/shapes/shape.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createCli, type CliWorld } from "./world.ts";

/** Bodies are counted every two minutes: here ten times a second. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};

const MAPPINGS = [
  {
    id: "order.big",
    match: {
      path: "shop",
      payload: { type: "order", "data.total": { $gte: 100 }, "data.custmer.name": "Ada" },
    },
    messageTemplate: "Order {{ data.id }} of {{ data.customer.name }}",
    deliver: false,
  },
  {
    id: "order.any",
    match: { path: "shop" },
    messageTemplate: "Order {{ $uppercase(data.customer.name) }}",
    deliver: false,
  },
  {
    id: "order.count",
    match: { path: "busy" },
    messageTemplate: "{{ id }}",
    deliver: false,
  },
];

interface Both {
  world: World;
  cli: CliWorld;
}

async function begin(config: object, hooks: object = {}): Promise<Both> {
  const cli = await createCli();
  return {
    cli,
    world: await createWorld({
      dir: cli.dir,
      clock,
      config: { hooks: { mappings: MAPPINGS, ...hooks }, ...config },
    }),
  };
}

const order = (n: number, data: object = {}) => ({
  type: "order",
  secret: `s${n % 2}`,
  data: {
    id: n,
    total: String(n),
    customer: { name: "Ada", ref: "sk_live_4242" },
    lines: [{ sku: n % 2 === 0 ? "tea" : "pot" }],
    ...data,
  },
});

function shapeTests(both: () => Both, isWhole = true): void {
  const post = async (path: string, count: number, make: (n: number) => unknown): Promise<void> => {
    for (let n = 0; n < count; n++)
      expect((await both().world.post(`/hooks/${path}`, make(n))).status).toBeLessThan(300);
  };
  const shape = async (path: string): Promise<HookShape> => {
    const { code, out, err } = await both().cli.rouse(`hooks ${path} --json`);
    expect([code, err]).toEqual([0, expect.any(String)]);
    return (JSON.parse(out) as { shape: HookShape }).shape;
  };
  const validate = async (...options: string[]) =>
    both().cli.rouse(["config", "validate", ...options]);
  const doctor = async (id: string): Promise<{ status: string; message: string } | undefined> => {
    const { out } = await both().cli.rouse("doctor --json");
    return (
      JSON.parse(out) as { checks: { id: string; status: string; message: string }[] }
    ).checks.find((check) => check.id === id);
  };

  it("shows fields with types, shares and values, and no value that may be a secret", async () => {
    await post("shop", 25, (n) => order(n, n < 5 ? { note: null } : {}));
    const { events, fields } = await shape("shop");
    const byName = new Map(fields.map((field) => [field.name, field]));
    expect(events).toBe(25);
    expect(byName.get("type")).toMatchObject({ types: { text: 25 }, share: 1, values: ["order"] });
    expect(byName.get("data.lines[].sku")).toMatchObject({
      types: { text: 25 },
      values: expect.arrayContaining(["tea", "pot"]),
    });
    expect(byName.get("data.note")).toMatchObject({ types: { null: 5 }, share: 0.2 });
    for (const hidden of ["secret", "data.customer.ref", "data.id"])
      expect(byName.get(hidden)).not.toHaveProperty("values");
    const few = await both().world.admin("/admin/v1/hooks/shape?path=shop&last=3");
    expect(few.body.shape.events).toBe(3);
    expect((await both().cli.rouse("events replay latest")).code).toBe(0);
    expect((await shape("shop")).events).toBe(25);
    const { out } = await both().cli.rouse("hooks shop");
    expect(out).toMatch(/\n\nfields of 25 recorded bodies\n/);
    expect(out).toMatch(/\ndata\.lines\[\]\.sku +text +100% .*"tea"/);
    expect((await both().world.admin("/admin/v1/hooks/shape?path=shop&last=9999")).status).toBe(
      400,
    );
  });

  // No store has a part in the values that are made of the fields.
  if (!isWhole) return;

  it("compares mappings with recorded bodies: in validate, in doctor, and where the gateway warns", async () => {
    await both().world.until(async () =>
      (await validate()).out.includes("none of 25 recorded bodies"),
    );
    const { code, out } = await validate();
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(
        /rouse\.json5:1:\d+ {2}hooks\.mappings\[0\]\.match\.payload\.data\.custmer\.name: /,
      ),
    ]);
    expect(out).toContain(
      'none of 25 recorded bodies has the field "data.custmer.name". Did you mean "data.customer.name"? (lint: unknown-field)',
    );
    expect(out).toContain(
      'compares with a number, and "data.total" was text in all of 25 recorded bodies (lint: wrong-type)',
    );
    expect(out.match(/warning: /g)).toHaveLength(2);
    expect((await validate("--strict")).code).toBe(1);
    const { warnings } = both().world.gateway.status();
    expect(warnings.map(({ rule }) => rule)).toEqual(["unknown-field", "wrong-type"]);
    expect(await doctor("warnings")).toMatchObject({
      status: "warn",
      message: expect.stringContaining("and 1 more"),
    });
  });

  it("says when a field is gone from all bodies, and how many mappings read it", async () => {
    expect(await doctor("shapes")).toMatchObject({ status: "ok" });
    await post("shop", 19, (n) => order(n, { customer: { ref: "x" } }));
    await both().world.until(async () => (await shape("shop")).events === 44);
    await systemClock.sleep(400);
    expect(await doctor("shapes")).toMatchObject({ status: "ok" });
    await post("shop", 1, (n) => order(n, { customer: { ref: "x" } }));
    const found = await both().world.until(async () => {
      const check = await doctor("shapes");
      return check?.status === "warn" && check;
    });
    const today = new Intl.DateTimeFormat("en-GB", {
      day: "numeric",
      month: "long",
      timeZone: "UTC",
    }).format(Date.now());
    expect(found.message).toBe(
      `shop: data.customer.name is gone since ${today}, 2 mappings read it: the sender's bodies have changed, see \`rouse hooks <path>\``,
    );
  });

  it("keeps names and types of bodies that are gone, and shows markup, tables of ids and `__proto__` as names", async () => {
    await post(
      "busy",
      1,
      () =>
        `{"id":1,"__proto__":{"x":1},"constructor":2,"by":{"evt_8812771":1,"evt_9912772":2},"<b>\\u001b[31m":true,"deep":${"[".repeat(198)}1${"]".repeat(198)}}`,
    );
    const { fields } = await shape("busy");
    const names = fields.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(["__proto__.x", "constructor", "by.*", "deep[][]"]),
    );
    expect(names.length).toBeLessThan(40);
    expect(({} as { x?: unknown }).x).toBeUndefined();
    const { out } = await both().cli.rouse("hooks busy");
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  });
}

describe("rouse hooks, with a path", () => {
  let both: Both;
  beforeAll(async () => {
    both = await begin({});
  });
  afterAll(async () => {
    await both.world.stop();
    await both.cli.close();
  });
  shapeTests(() => both);
});

describePostgres("rouse hooks, with a path, on PostgreSQL", () => {
  const schema = newSchema();
  let both: Both;
  beforeAll(async () => {
    both = await begin({ store: { url: schema.url } });
  });
  afterAll(async () => {
    await both.world.stop();
    await both.cli.close();
  });
  shapeTests(() => both, false);
});

describe("what is kept of bodies", () => {
  const bodies = async ({ world }: Both): Promise<boolean> => {
    const { events } = (await world.admin("/admin/v1/events?limit=1")).body as {
      events: { id: string }[];
    };
    const { event } = (await world.admin(`/admin/v1/events/${events[0]?.id}`)).body as {
      event: { request: { body: unknown } };
    };
    return event.request.body !== null;
  };
  const names = async ({ world }: Both): Promise<string[]> =>
    (
      (await world.admin("/admin/v1/hooks/shape?path=shop")).body as { shape: HookShape }
    ).shape.fields.map(({ name }) => name);

  it("are names and types after hooks.retention, and nothing with retention 0", async () => {
    const kept = await begin({}, { retention: "1s" });
    await kept.world.post("/hooks/shop", order(1));
    await kept.world.until(async () => !(await bodies(kept)));
    expect(await names(kept)).toContain("data.lines[].sku");
    expect(
      ((await kept.world.admin("/admin/v1/hooks/shape?path=shop")).body as { shape: HookShape })
        .shape,
    ).toMatchObject({ events: 0 });
    kept.world.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: { enabled: true, token: TOKEN, retention: 0, mappings: MAPPINGS },
    });
    await kept.world.until(async () => (await names(kept)).length === 0);
    await kept.world.post("/hooks/shop", order(2));
    await kept.world.until(async () => !(await bodies(kept)));
    await systemClock.sleep(400);
    expect(await names(kept)).toEqual([]);
    await kept.world.stop();
    await kept.cli.close();
  });

  it.each<[retention: string | number, hasNames: boolean]>([
    ["1s", true],
    [0, false],
  ])(
    "is no value of a body, wherever in the store: with retention %s",
    async (retention, hasNames) => {
      const kept = await begin({}, { retention });
      const canary = "canary-4711-of-a-body";
      const send = (n: number) =>
        kept.world.post(
          "/hooks/shop",
          order(n, { [`${canary}@shop.example`]: 1, note: canary, deep: [{ canary }] }),
        );
      for (let n = 0; n < 3; n++) await send(n);
      await kept.world.until(async () => !(await bodies(kept)));
      if (hasNames)
        expect(await names(kept)).toEqual(
          expect.arrayContaining(["data.note", "data.*", "data.deep[].canary"]),
        );
      else expect(await names(kept)).toEqual([]);
      await kept.world.stop();
      const db = new DatabaseSync(join(kept.cli.dir, ".rouse/rouse.db"), { readOnly: true });
      const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as {
        name: string;
      }[];
      const rows = tables.flatMap(({ name }) =>
        db
          .prepare(`SELECT * FROM "${name}"`)
          .all()
          .map((row) => ({ name, row })),
      );
      db.close();
      const text = (value: unknown): string =>
        value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value);
      const found = rows.filter(({ row }) =>
        Object.values(row).some((value) => text(value).includes(canary)),
      );
      expect([rows.length > 5, found.map(({ name }) => name)]).toEqual([true, []]);
      const shapes = rows.filter(({ row }) =>
        Object.values(row).some((value) => text(value).startsWith("shape:")),
      );
      expect(shapes.length).toBe(hasNames ? 1 : 0);
      await kept.cli.close();
    },
  );

  it("is read by `config validate` without a change of the store, and the lack of a store is said", async () => {
    const cli = await createCli();
    await cli.write("rouse.json5", { hooks: { enabled: true, token: TOKEN, mappings: MAPPINGS } });
    const { out } = await cli.rouse("config validate");
    expect(out).toContain("not compared with recorded hooks: no events are recorded yet");
    expect(readdirSync(cli.dir)).toEqual(["rouse.json5"]);
    const world = await createWorld({
      dir: cli.dir,
      clock,
      config: { hooks: { mappings: MAPPINGS } },
    });
    for (let n = 0; n < 20; n++) await world.post("/hooks/shop", order(n));
    await world.until(async () => world.gateway.status().warnings.length > 0);
    await world.stop();
    const file = join(cli.dir, ".rouse/rouse.db");
    const before = readFileSync(file);
    expect((await cli.rouse("config validate")).out).toContain("unknown-field");
    expect(readFileSync(file).equals(before)).toBe(true);
    await cli.close();
  });
});
