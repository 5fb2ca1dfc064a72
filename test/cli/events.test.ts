import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World;
beforeEach(async () => {
  cli = await createCli();
  world = await createWorld({
    dir: cli.dir,
    config: {
      hooks: {
        mappings: [
          {
            id: "shop.order",
            match: { path: "shop", payload: { type: "order" } },
            messageTemplate: "Order {{id}} of {{customer.email}}",
            name: "Order",
          },
        ],
      },
    },
  });
});
afterEach(async () => {
  await world.stop();
  await cli.close();
});

const send = async (body: object, path = "shop"): Promise<string> => {
  const { body: answer, headers } = await world.post(`/hooks/${path}`, body);
  return (answer.eventId as string | undefined) ?? (headers.get("x-request-id") as string);
};
const ids = async (...args: string[]): Promise<string[]> => {
  const { code, out, err } = await cli.rouse(["events", "--json", ...args]);
  expect([code, err]).toEqual([0, ""]);
  return (JSON.parse(out) as { events: { id: string }[] }).events.map(({ id }) => id);
};

it("rouse events: a search finds words and fields of bodies", async () => {
  const order = await send({ type: "order", id: 7, customer: { email: "ann@shop.example" } });
  const refund = await send({ type: "refund", id: 8, customer: { email: "bob@shop.example" } });
  expect(await ids("--search", "customer.email:ann@*")).toEqual([order]);
  expect(await ids("--search", "type:refund id:8")).toEqual([refund]);
  expect(await ids("--search", "shop.ORDER", "--outcome", "accepted")).toEqual([order]);
  expect(await ids("--search", "type:refund", "--outcome", "accepted")).toEqual([]);
  const answer = await world.admin(`/admin/v1/events?search=${encodeURIComponent("id:7")}`);
  expect(answer.body).toMatchObject({
    ok: true,
    events: [{ id: order, actions: [{ name: "Order" }] }],
    next: null,
    searchedTo: null,
    looked: 2,
  });
  const printed = await cli.rouse("events --search BOB@shop");
  expect(printed.out).toContain(refund);
  expect(printed.out).not.toContain(order);
  expect(printed.out).toContain("looked at all 2 events");
});

it.each(["", "  ", "x".repeat(501)])(
  "rouse events: the search %j is refused with what to write",
  async (search) => {
    const { status, body } = await world.admin(
      `/admin/v1/events?search=${encodeURIComponent(search)}`,
    );
    expect([status, body.error.issues]).toEqual([
      400,
      [{ path: "search", message: "write words or field:value, in 1 to 500 characters" }],
    ]);
  },
);

it("fixtures: an event is frozen over HTTP as `rouse test add` does", async () => {
  const order = await send({ type: "order", id: 7, customer: { email: "ann@shop.example" } });
  const freeze = (body: object) =>
    world.admin("/admin/v1/fixtures", {
      method: "POST",
      body: JSON.stringify({ event: order, ...body }),
    });
  const { body } = await freeze({ name: "large" });
  expect(body.fixture).toMatchObject({
    written: expect.stringMatching(/tests\/shop\/large\.json5$/),
    masked: ["payload.customer.email"],
    changedBy: null,
  });
  const written = await readFile(body.fixture.written as string, "utf8");
  expect(written).not.toContain("ann@shop.example");
  const tested = await cli.rouse("test");
  expect([tested.code, tested.err]).toEqual([0, ""]);
  const twice = await freeze({ name: "large" });
  expect([twice.status, twice.body.error.message]).toEqual([
    400,
    expect.stringContaining("is there already: choose another name"),
  ]);
  const outside = await freeze({ name: "../../x" });
  expect([outside.status, outside.body.error.message]).toEqual([
    400,
    expect.stringContaining("write letters, digits"),
  ]);
  const unknown = await freeze({ mask: ["payload.nothing"] });
  expect([unknown.status, unknown.body.error.message]).toEqual([
    400,
    expect.stringContaining("the request has no such field"),
  ]);
  expect((await freeze({ mask: ["payload.type"] })).body.fixture).toMatchObject({
    written: null,
    changedBy: ["payload.type"],
  });
});
