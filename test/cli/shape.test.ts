import { afterAll, beforeAll, expect, it } from "vitest";
import type { HookShape } from "../../src/operate/shapes/shape.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

const MAPPINGS = ["shop", "busy"].map((path) => ({
  id: path,
  match: { path },
  messageTemplate: "x",
  deliver: false,
}));

let world: World;
let cli: CliWorld;
beforeAll(async () => {
  cli = await createCli();
  world = await createWorld({ dir: cli.dir, config: { hooks: { mappings: MAPPINGS } } });
});
afterAll(async () => {
  await world.stop();
  await cli.close();
});

const order = (n: number) => ({
  type: "order",
  secret: `s${n % 2}`,
  data: {
    id: n,
    customer: { name: "Ada", ref: "sk_live_4242" },
    lines: [{ sku: n % 2 === 0 ? "tea" : "pot" }],
    ...(n < 5 ? { note: null } : {}),
  },
});

const shape = async (path: string): Promise<HookShape> => {
  const { code, out, err } = await cli.rouse(`hooks ${path} --json`);
  expect([code, err]).toEqual([0, expect.any(String)]);
  return (JSON.parse(out) as { shape: HookShape }).shape;
};

it("a hook shows its fields with types, shares and values, and no value that may be a secret", async () => {
  for (let n = 0; n < 25; n++)
    expect((await world.post("/hooks/shop", order(n))).status).toBeLessThan(300);
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
  const few = await world.admin("/admin/v1/hooks/shape?path=shop&last=3");
  expect(few.body.shape.events).toBe(3);
  expect((await cli.rouse("events replay latest")).code).toBe(0);
  expect((await shape("shop")).events).toBe(25);
  const { out } = await cli.rouse("hooks shop");
  expect(out).toMatch(/\n\nfields of 25 recorded bodies\n/);
  expect(out).toMatch(/\ndata\.lines\[\]\.sku +text +100% .*"tea"/);
  expect((await world.admin("/admin/v1/hooks/shape?path=shop&last=9999")).status).toBe(400);
});

it("a hook shows markup, tables of ids and `__proto__` as names", async () => {
  await world.post(
    "/hooks/busy",
    `{"id":1,"__proto__":{"x":1},"constructor":2,"by":{"evt_8812771":1,"evt_9912772":2},"<b>\\u001b[31m":true,"deep":${"[".repeat(198)}1${"]".repeat(198)}}`,
  );
  const { fields } = await shape("busy");
  const names = fields.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["__proto__.x", "constructor", "by.*", "deep[][]"]));
  expect(names.length).toBeLessThan(40);
  expect(({} as { x?: unknown }).x).toBeUndefined();
  const { out } = await cli.rouse("hooks busy");
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
});
