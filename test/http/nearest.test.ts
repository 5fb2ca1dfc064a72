import { afterAll, beforeAll, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { listChildren } from "../operate/what-if-world.ts";

const LOOP = "($f := function($n) { $f($n + 1) }; $f(0))";
const COUNT = 200;

const mapping = (path: string, id: string, match: object, more: object = {}): object => ({
  id: `${path}.${id}`,
  match: { path, ...match },
  messageTemplate: "m",
  deliver: false,
  ...more,
});

let world: World;
beforeAll(async () => {
  const long = Array.from({ length: COUNT }, (_, n) =>
    mapping("long", `m${n}`, { payload: { kind: `k${n}`, "rows.name": `n${n}` } }),
  );
  const mappings = [
    mapping("off", "loop", { when: LOOP }, { enabled: false }),
    mapping("each", "list", { payload: { kind: "each" } }, { forEach: "rows" }),
    mapping("each", "loop", { when: LOOP }),
    mapping("each", "other", { payload: { kind: "other" } }),
    mapping("twice", "first", { payload: { n: 1 }, when: "$count(rows) > 5" }),
    mapping("twice", "second", { when: "$count(rows) > 7" }),
    ...long.slice(0, -1),
    // The nearest, if all are looked at: one of its conditions holds.
    mapping("long", "last", { payload: { kind: "last", "rows.name": "a" } }),
  ];
  world = await createWorld({
    workers: false,
    config: { hooks: { mappings, maxBodyBytes: 2_000_000, transformTimeoutSeconds: 60 } },
  });
});
afterAll(() => world.stop());

it("nearest mapping: no expression is evaluated that matching did not need", async () => {
  // The processes of other test files, which this worker ran before.
  const before = listChildren("transform-worker").map(({ pid }) => pid);
  const off = await world.post("/hooks/off", { n: 1 });
  expect(off.body).toMatchObject({
    outcome: "unmatched",
    nearest: { mapping: "off.loop", condition: "enabled" },
  });
  expect((await world.post("/hooks/each", { kind: "each", rows: [] })).status).toBe(204);
  const { body } = await world.admin("/admin/v1/events?limit=1");
  expect(body.events[0]).toMatchObject({
    outcome: "skipped",
    nearest: { mapping: "each.other", condition: "match.payload.kind" },
  });
  // An expression that loops goes on in a process of its own.
  expect(listChildren("transform-worker").filter(({ pid }) => !before.includes(pid))).toEqual([]);
});

it("nearest mapping: results of expressions from matching are used", async () => {
  const { body } = await world.post("/hooks/twice", { n: 1, rows: [1] });
  expect(body.nearest).toEqual({ mapping: "twice.first", condition: "match.when" });
});

it("nearest mapping: the answer to a hook does not wait for all conditions of all mappings", async () => {
  const row = { name: "a" };
  const nearest = async (rows: object[]): Promise<unknown> =>
    (await world.post("/hooks/long", { kind: "none", rows })).body.nearest;
  // On a busy machine one look may be cut off early.
  await expect
    .poll(() => nearest([row]))
    .toEqual({ mapping: "long.last", condition: "match.payload.kind" });
  // To look at all takes too long.
  expect(await nearest(Array.from({ length: 50_000 }, () => row))).toEqual({
    mapping: "long.m0",
    condition: "match.payload.kind",
  });
});
