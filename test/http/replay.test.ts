import type { BulkLine } from "../../src/operate/records/bulk.ts";
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
          {
            id: "partly",
            match: { path: "partly" },
            forEach: "items",
            agentId: "{{item}}",
            messageTemplate: "For {{item}}",
          },
          { id: "note", match: { path: "note" }, messageTemplate: "Note {{id}}" },
          {
            id: "named",
            match: { path: "named", payload: { kind: "good" } },
            messageTemplate: "Note {{n}}",
          },
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
      { code: "usage", message: "there is no action 2: the event makes 1 action now" },
    ]);
    expect((await list("path=cart")).filter((event) => event.replayOf === id)).toEqual([]);
  });

  it("says of an event that is wrong what was recorded of it, and keeps nothing of a dry run", async () => {
    const id = await send("note", "{not json");
    const { reason } = await show(id);
    for (const dryRun of [true, false]) {
      const { body } = await replay(id, { dryRun });
      expect(body.result).toMatchObject({ outcome: "rejected", reason, actions: [] });
      const made = (await list("path=note")).filter((event) => event.replayOf === id);
      expect(made).toHaveLength(dryRun ? 0 : 1);
    }
  });

  it("says which actions are left out beside others, as a dry run does before", async () => {
    const id = await send("partly", { items: ["main", "absent"] });
    for (const dryRun of [true, false]) {
      const { body } = await replay(id, { dryRun });
      expect(body.result).toMatchObject({
        outcome: "accepted",
        reason: "1 of 2 actions failed: action 2: agentId: names no agent of agents.list",
        actions: [{ kind: "run", summary: "For main" }],
      });
    }
  });

  it("counts actions as the reason does, and does none in place of one that fails", async () => {
    const id = await send("partly", { items: ["absent", "main"] });
    for (const dryRun of [true, false]) {
      const { status, body } = await replay(id, { action: 1, dryRun });
      expect([status, body.error?.message]).toEqual([
        400,
        expect.stringContaining("names no agent of agents.list"),
      ]);
      const { result } = (await replay(id, { action: 2, dryRun })).body;
      expect(result.actions).toMatchObject([{ summary: "For main" }]);
    }
  });

  it("says that the queue is full, in place of what the mapping would do", async () => {
    const mappings = [{ id: "m", match: { path: "m" }, messageTemplate: "{{n}}" }];
    const full = await createWorld({
      workers: false,
      config: { hooks: { limits: { queue: 1 }, mappings } },
    });
    const { eventId } = (await full.post("/hooks/m", { n: 1 })).body;
    const path = `/admin/v1/events/${eventId}/replay`;
    expect((await full.admin(path, { method: "POST", body: "{}" })).body.result).toMatchObject({
      outcome: "rejected",
      reason: expect.stringContaining("limits.queue"),
    });
    await full.stop();
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

describe("the replay of events that are named", () => {
  const sendNamed = (n: number, kind = "bad"): Promise<string> => send("named", { kind, n });
  const replayMany = (body: object): Promise<Answer> =>
    world.admin("/admin/v1/events/replay", { method: "POST", body: JSON.stringify(body) });
  const readLines = async (body: object): Promise<BulkLine[]> => {
    const headers = { authorization: `Bearer ${world.gateway.operatorToken}` };
    const request = new Request("http://127.0.0.1/admin/v1/events/replay", {
      method: "POST",
      body: JSON.stringify(body),
      headers,
    });
    const text = await (await world.gateway.fetch(request)).text();
    return text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as BulkLine);
  };
  const results = async (body: object): Promise<unknown[]> =>
    (await readLines(body)).flatMap((line) => {
      if (line.type !== "result") return [];
      return [[line.id, line.ok ? line.status : line.failure.code]];
    });
  const countReplays = async (): Promise<number> =>
    (
      (await world.admin("/admin/v1/events?path=named&limit=500")).body.events as {
        replayOf: string | null;
      }[]
    ).filter(({ replayOf }) => replayOf !== null).length;

  it("takes these and no others, the oldest first, each once", async () => {
    const ids = [await sendNamed(1), await sendNamed(2), await sendNamed(3)];
    const [first, second, third] = ids as [string, string, string];
    const named = { select: "all", ids: [third, first, third] };
    expect(await results({ ...named, dryRun: true })).toEqual([
      [first, "unmatched"],
      [third, "unmatched"],
    ]);
    expect(await countReplays()).toBe(0);
    expect(await results(named)).toEqual([
      [first, "unmatched"],
      [third, "unmatched"],
    ]);
    expect(await countReplays()).toBe(2);
    // A second call makes no work twice, and says so.
    expect(await results({ select: "all", ids: [second, first, "evt_gone"] })).toEqual([
      [first, "not_retryable"],
      [second, "unmatched"],
      ["evt_gone", "not_found"],
    ]);
    expect(await countReplays()).toBe(3);
  });

  it("with `select` takes those of them that have this outcome", async () => {
    const [accepted, unmatched] = [await sendNamed(4, "good"), await sendNamed(5)];
    expect(await results({ select: "unmatched", ids: [accepted, unmatched] })).toEqual([
      [unmatched, "unmatched"],
    ]);
    expect(await results({ select: "failed", ids: [accepted, unmatched] })).toEqual([]);
  });

  it("with `failed` says of an event of which some actions failed how to replay these alone", async () => {
    const id = await send("partly", { items: ["main", "absent"] });
    const message = `1 of 2 actions failed: action 2: agentId: names no agent of agents.list; all other actions are done: replay each failed one alone, by \`rouse events replay ${id} --action <n>\``;
    for (const chosen of [{ ids: [id] }, { path: "partly" }])
      expect(await readLines({ select: "failed", ...chosen })).toContainEqual({
        type: "result",
        id,
        ok: false,
        failure: { code: "not_retryable", message },
      });
  });

  it("takes an accepted event in again with `all` alone", async () => {
    const id = await sendNamed(6, "good");
    const { actions } = (await world.admin(`/admin/v1/events/${id}`)).body.event as {
      actions: { id: string }[];
    };
    const run = actions[0]?.id as string;
    expect((await world.admin(`/admin/v1/runs/${run}/cancel`, { method: "POST" })).status).toBe(
      200,
    );
    expect(await results({ select: "failed", ids: [id] })).toEqual([]);
    const before = await countReplays();
    expect(await results({ select: "all", ids: [id] })).toEqual([[id, "accepted"]]);
    expect(await countReplays()).toBe(before + 1);
  });

  it("refuses filters beside ids, no ids, and more than 10,000", async () => {
    const refusals = [
      [
        { select: "all", ids: ["evt_1"], path: "named", limit: 1 },
        "`ids` names what is meant: leave `limit`, `path` out",
      ],
      [{ select: "all", ids: [] }, "ids: "],
      [{ select: "all", ids: Array.from({ length: 10_001 }, (_, n) => `evt_${n}`) }, "ids: "],
      [{ ids: ["evt_1"] }, "select: "],
    ] as const;
    for (const [body, message] of refusals)
      expect(await replayMany(body)).toMatchObject({
        status: 400,
        body: { error: { code: "usage", message: expect.stringContaining(message) } },
      });
  });
});
