import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDetail, EventView } from "../../src/operate/records/views.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: {
      hooks: {
        mappings: [
          {
            id: "items",
            match: { path: "cart" },
            forEach: "items",
            messageTemplate: "Item {{item}} of {{id}}",
          },
          { id: "note", match: { path: "note" }, messageTemplate: "Note {{id}}" },
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const send = async (path: string, body: unknown): Promise<string> => {
  const { body: answer } = await world.post(`/hooks/${path}`, body);
  return (answer.eventId ?? answer.requestId) as string;
};
const replay = (id: string, options: object): Promise<Answer> =>
  world.admin(`/admin/v1/events/${id}/replay`, { method: "POST", body: JSON.stringify(options) });
const show = async (id: string): Promise<EventDetail> =>
  (await world.admin(`/admin/v1/events/${id}`)).body.event;
const list = async (query: string): Promise<EventView[]> =>
  (await world.admin(`/admin/v1/events?${query}`)).body.events;

describe("the replay of one event", () => {
  it("starts one action of it", async () => {
    const id = await send("cart", { id: 1, items: ["a", "b", "c"] });
    const { body } = await replay(id, { action: 2 });
    expect(body.result.actions).toEqual([
      { kind: "run", id: expect.any(String), mapping: "items", summary: "Item b of 1" },
    ]);
    const made = await show(body.result.newEventId as string);
    expect([made.actions.length, made.replayOf, made.edited]).toEqual([1, id, false]);
    const tried = await replay(id, { action: 3, dryRun: true });
    expect(tried.body.result.actions).toEqual([
      { kind: "run", mapping: "items", summary: "Item c of 1" },
    ]);
  });

  it("refuses the number of an action that the event does not make, and records nothing", async () => {
    const id = await send("cart", { id: 2, items: ["a"] });
    const { status, body } = await replay(id, { action: 2 });
    expect([status, body.error]).toEqual([
      400,
      { code: "usage", message: "there is no action 2: the event makes one action now" },
    ]);
    expect((await list("path=cart")).filter((event) => event.replayOf === id)).toEqual([]);
  });

  it("takes another body, and says that it was edited and from which event it was made", async () => {
    const id = await send("note", { id: "as it came" });
    const edited = Buffer.from(JSON.stringify({ id: "as edited" })).toString("base64");
    const { body } = await replay(id, { body: edited });
    expect(body.result).toMatchObject({
      eventId: id,
      outcome: "accepted",
      actions: [{ summary: "Note as edited" }],
    });
    const made = await show(body.result.newEventId as string);
    expect(made).toMatchObject({
      replayOf: id,
      edited: true,
      request: { body: '{"id":"as edited"}' },
    });
    expect(await show(id)).toMatchObject({
      edited: false,
      request: { body: '{"id":"as it came"}' },
    });
    const broken = await replay(id, { body: Buffer.from("{").toString("base64") });
    expect(broken.body.result).toMatchObject({ outcome: "rejected" });
  });
});

describe("the replay of many events", () => {
  it("takes those that filters leave, the newest so many, from the oldest to the newest", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      // `until` is a time in milliseconds: two events of one would both be left out.
      if (n === 4) await sleep(5);
      ids.push(await send("note", { id: n }));
    }
    await send("cart", { id: 9, items: ["x"] });
    const until = (await show(ids[4] as string)).receivedAt;
    const filters = {
      select: "all",
      path: "note",
      mapping: "note",
      outcome: "accepted",
      until,
      limit: 2,
      perSecond: 20,
    };
    const begun = performance.now();
    const headers = { authorization: `Bearer ${world.gateway.operatorToken}` };
    const request = new Request("http://127.0.0.1/admin/v1/events/replay", {
      method: "POST",
      body: JSON.stringify(filters),
      headers,
    });
    const lines = await (await world.gateway.fetch(request)).text();
    const results = lines
      .trim()
      .split("\n")
      .map(
        (line) =>
          JSON.parse(line) as {
            type: string;
            result?: { eventId: string; actions: { summary: string }[] };
          },
      )
      .flatMap(({ result }) => result ?? []);
    expect(results.map(({ eventId, actions }) => [eventId, actions[0]?.summary])).toEqual([
      [ids[2], "Note 2"],
      [ids[3], "Note 3"],
    ]);
    expect(performance.now() - begun).toBeGreaterThan(45);
  });
});
