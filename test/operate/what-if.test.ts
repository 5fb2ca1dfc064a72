import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { definePlugin } from "../../src/plugin/api.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import {
  ask,
  askEnd,
  begin,
  CHANNEL,
  listChildren,
  ORDER,
  REFUND,
  REFUND_TEXT,
  SLOW,
} from "./what-if-world.ts";

const ADD = { kind: "add", text: REFUND_TEXT };
const ORDER_ALONE = {
  id: "shop.order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
  deliver: false,
};
const REFUNDS = { id: "refunds", mappings: [REFUND] };
/** Each event takes a moment: a comparison that does not end by itself within the test. */
const ADD_SLOW = {
  kind: "add",
  text: JSON.stringify({ ...REFUND, transform: { module: "slow.js" } }),
};

/** A gateway for each test, and what hooks it has had. */
function useWorld(url: () => string | undefined) {
  const made = {} as { world: World };
  beforeEach(async () => {
    made.world = await createWorld({
      workers: false,
      config: {
        plugins: ["./own.js"],
        channels: { own: {} },
        hooks: { mappings: [ORDER] },
        ...(url() !== undefined && { store: { url: url() } }),
      },
      files: {
        "own.js": CHANNEL,
        "transforms/slow.js": SLOW,
      },
    });
  });
  afterEach(() => made.world.stop());
  const send = async (type: string, count: number): Promise<void> => {
    for (let id = 0; id < count; id++)
      await made.world.post("/hooks/shop", { type, id, customer: { name: "Ann" } });
  };
  return { made, send };
}

function answerTest(url: () => string | undefined): void {
  const { made, send } = useWorld(url);
  it("answers one document a line: progress, and the end with the whole report", async () => {
    const { world } = made;
    await send("refund", 5);
    await send("order", 3);
    const { status, headers, lines } = await ask(world, { change: ADD, since: "1h" });
    expect([status, headers.get("content-type"), headers.get("cache-control")]).toEqual([
      200,
      "application/x-ndjson",
      "no-store",
    ]);
    expect(lines[0]).toEqual({
      type: "progress",
      events: 0,
      skipped: 0,
      changed: 0,
      wouldRun: 0,
      wouldNotRun: 0,
    });
    const end = lines.at(-1);
    expect(end).toMatchObject({
      type: "end",
      events: 8,
      changed: 5,
      wouldRun: 5,
      groups: [{ kind: "starts", text: "starts a run", mapping: "shop.refund", count: 5 }],
    });
    const [start] = end?.type === "end" ? end.groups : [];
    const examples = (start?.examples ?? []).map(({ eventId }) => eventId);
    expect([examples.length, new Set(examples).size]).toEqual([3, 3]);
    expect(lines.filter(({ type }) => type === "end")).toHaveLength(1);

    const changeOf = async (change: object, more: object = {}) => {
      const { groups: found, events } = await askEnd(world, { change, ...more });
      return [events, ...found.map(({ kind, mapping, count }) => `${kind}:${mapping} ${count}`)];
    };
    expect(
      await changeOf({ kind: "file", file: "more.json5", text: JSON.stringify(REFUNDS) }),
    ).toEqual([8, "starts:shop.refund 5"]);
    const replaced = {
      kind: "replace",
      mapping: "shop.order",
      text: JSON.stringify({ ...ORDER, to: "room-2" }),
    };
    expect(await changeOf(replaced)).toEqual([8, "recipient:shop.order 3"]);
    expect(await changeOf(replaced, { last: 2 })).toEqual([2, "recipient:shop.order 2"]);
    expect(await changeOf(replaced, { events: [examples[0]] })).toEqual([1]);
    expect(await changeOf(replaced, { path: "other" })).toEqual([0]);
    // All of it was one process, and the config in use is compared, also after it has changed.
    expect(listChildren("what-if-child")).toHaveLength(1);
    world.write("mappings/live.json", { id: "live", mappings: [{ ...REFUND, id: "live.refund" }] });
    await world.gateway.reload();
    expect(await changeOf(ADD)).toEqual([8, "other-mapping:shop.refund 5"]);
  });
}

describe("POST /admin/v1/what-if", () => {
  answerTest(() => undefined);
});

describePostgres("POST /admin/v1/what-if on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());
  answerTest(() => schema.url);
});

describe("comparisons over HTTP", () => {
  const { made, send } = useWorld(() => undefined);
  it("ends one whose connection is closed; two may run together", async () => {
    const { world } = made;
    await send("refund", 60);
    const slow = { change: ADD_SLOW };
    const readers = [await begin(world, slow), await begin(world, slow)];
    for (const reader of readers)
      expect([reader.status, reader.first]).toEqual([
        200,
        expect.stringContaining('"type":"progress"'),
      ]);
    const { status, headers, error } = await ask(world, { change: ADD });
    expect([status, error?.code, headers.get("retry-after")]).toEqual([429, "rate_limited", "2"]);
    // A landing does not wait for them.
    const check = (more: object) =>
      world.admin("/admin/v1/changes/check", {
        method: "POST",
        body: JSON.stringify({ change: ADD, ...more }),
      });
    expect((await check({})).body.check).toMatchObject({
      problems: [],
      whatIf: { events: 60, wouldRun: 60 },
    });
    expect((await check({ whatIf: false })).body.check).toMatchObject({
      problems: [],
      tests: { passed: 0 },
      whatIf: null,
    });
    for (const reader of readers) reader.leave();
    expect(await world.until(async () => (await ask(world, { change: ADD })).status === 200)).toBe(
      true,
    );
    // The modules of what was left are gone with it.
    await world.until(async () =>
      listChildren("what-if-child").every(
        ({ group }) => listChildren("transform-worker", group).length === 0,
      ),
    );

    const last = await begin(world, slow);
    const children = listChildren("what-if-child");
    await world.gateway.stop();
    expect(await last.rest()).toContain('"type":"error","code":"draining"');
    expect(children.length).toBeGreaterThan(0);
    await world.until(async () => children.every(({ pid }) => listChildren("", pid).length === 0));
  });
});

describe("comparisons side by side", () => {
  const { made, send } = useWorld(() => undefined);
  it("each end by the config that they began with, also if another one is in use by then", async () => {
    const { world } = made;
    await send("refund", 2);
    const slow = await begin(world, { change: ADD_SLOW });
    world.write("mappings/live.json", { id: "live", mappings: [{ ...REFUND, id: "live.refund" }] });
    await world.gateway.reload();
    expect((await askEnd(world, { change: ADD })).groups).toMatchObject([
      { kind: "other-mapping", count: 2 },
    ]);
    expect(listChildren("what-if-child")).toHaveLength(1);
    const last = (await slow.rest()).trimEnd().split("\n").at(-1) ?? "";
    expect(JSON.parse(last)).toMatchObject({
      type: "end",
      outcomes: { accepted: 2 },
      groups: [{ kind: "starts", count: 2 }],
    });
  });
});

describe("a comparison over HTTP", () => {
  let world: World;
  afterEach(() => world.stop());

  it("is refused with a reason if it cannot be made", async () => {
    world = await createWorld({ workers: false, config: { hooks: { mappings: [ORDER_ALONE] } } });
    const refusals = [
      [{ change: { kind: "enable", mapping: "none" } }, 404, "not_found"],
      [{ change: { kind: "replace", mapping: "none", text: REFUND_TEXT } }, 404, "not_found"],
      [{ change: { kind: "add", text: "{ id: " } }, 400, "config_invalid"],
      [
        { change: { kind: "add", text: JSON.stringify({ ...REFUND, agentId: "absent" }) } },
        400,
        "config_invalid",
      ],
      [{ change: { kind: "file", file: "../rouse.json5", text: "{}" } }, 400, "usage"],
      [{ change: ADD, last: 0 }, 400, "usage"],
      [{ change: ADD, events: ["evt_1"], since: "1h" }, 400, "usage"],
      [{ change: ADD, event: "evt_1" }, 400, "usage"],
    ] as const;
    for (const [body, status, code] of refusals) {
      const answer = await ask(world, body);
      expect([body, answer.status, answer.error?.code]).toEqual([body, status, code]);
    }
    const { lines } = await ask(world, { change: ADD, events: ["evt_none"] });
    expect(lines.at(-1)).toMatchObject({
      type: "error",
      code: "not_found",
      message: 'there is no event "evt_none"; `rouse events` lists them',
    });
    const stranger = await fetch(`${world.url}/admin/v1/what-if`, {
      method: "POST",
      body: JSON.stringify({ change: ADD }),
    });
    expect(stranger.status).toBe(401);
  });

  it("is refused while the files are not what the gateway uses: something else would be compared", async () => {
    world = await createWorld({ workers: false, config: { hooks: { mappings: [ORDER_ALONE] } } });
    const text = readFileSync(join(world.dir, "rouse.json5"), "utf8");
    world.write("rouse.json5", text.replace("Order", "Sale"));
    world.write("mappings/broken.json5", "{");
    expect(await ask(world, { change: ADD })).toMatchObject({
      status: 409,
      error: { code: "conflict" },
    });
    const checked = await world.admin("/admin/v1/changes/check", {
      method: "POST",
      body: JSON.stringify({ change: ADD }),
    });
    expect(checked.body.check.problems).toMatchObject([{ path: "mappings/broken.json5" }]);
    rmSync(join(world.dir, "mappings/broken.json5"));
    await world.gateway.reload();
    expect((await ask(world, { change: ADD })).status).toBe(200);
  });

  it("says that it cannot be made if plugins were passed as values, and changes are checked all the same", async () => {
    world = await createWorld({
      workers: false,
      plugins: [
        definePlugin({ id: "mine", channel: () => ({ send: async () => ({ status: "sent" }) }) }),
      ],
    });
    const { status, error } = await ask(world, { change: ADD });
    expect([status, error?.code, error?.message]).toEqual([
      501,
      "what_if_unavailable",
      expect.stringContaining("passed to this gateway as values"),
    ]);
    const checked = await world.admin("/admin/v1/changes/check", {
      method: "POST",
      body: JSON.stringify({ change: ADD }),
    });
    expect(checked.body.check).toMatchObject({ problems: [], whatIf: { events: 0 } });
    expect(listChildren("what-if-child")).toEqual([]);
  });
});
