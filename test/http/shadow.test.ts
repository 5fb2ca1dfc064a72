import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: {
      hooks: {
        presets: [{ use: "healthchecks", shadow: true }],
        mappings: [
          {
            id: "new",
            match: { path: "orders" },
            shadow: true,
            messageTemplate: "New words: {{id}}",
            sessionKey: "hook:new:{{id}}",
            channel: "console",
            to: "ops",
          },
          {
            id: "old",
            match: { path: "orders", payload: { both: true } },
            messageTemplate: "Old words: {{id}}{{last}}",
            strict: true,
          },
          { id: "behind", match: { path: "orders" }, shadow: true, messageTemplate: "Behind" },
          {
            id: "wrong",
            match: { path: "wrong" },
            shadow: true,
            messageTemplate: "x",
            agentId: "{{agent}}",
          },
          {
            id: "once",
            match: { path: "once" },
            shadow: true,
            messageTemplate: "x",
            dedupeKey: "{{id}}",
          },
        ],
      },
    },
  });
});
afterAll(() => world.stop());
const eventOf = async (id: string) => (await world.admin(`/admin/v1/events/${id}`)).body.event;

describe("a mapping in shadow", () => {
  it("does nothing, says so, and records what it would have done", async () => {
    const { status, body } = await world.post("/hooks/orders", { id: 7 });
    expect([status, body]).toEqual([
      200,
      {
        ok: true,
        eventId: expect.any(String),
        outcome: "skipped",
        reason: "shadow: 2 actions would have been done",
      },
    ]);
    const event = await eventOf(body.eventId);
    expect(event).toMatchObject({
      outcome: "skipped",
      mapping: "new",
      actions: [],
      would: [
        {
          kind: "run",
          mapping: "new",
          fields: { sessionKey: "hook:new:7", channel: "console", to: "ops", deliver: true },
        },
        { kind: "run", mapping: "behind" },
      ],
    });
    expect(event.would[0].content.map((part: { text: string }) => part.text).join("")).toBe(
      "New words: 7",
    );
    expect((await world.admin("/admin/v1/runs")).body.runs).toEqual([]);
    expect((await world.get(`/hooks/events/${body.eventId}`)).body.event).toMatchObject({
      outcome: "skipped",
      actions: [],
    });
  });

  it("is shown by rouse explain and by the console's route", async () => {
    const { body } = await world.post("/hooks/orders", { id: 11 });
    const { code, out } = await world.rouse("explain", body.eventId as string);
    expect(code).toBe(0);
    expect(out).toMatch(
      /in shadow, new would have done\n[^]*sessionKey: hook:new:11[^]*New words: 11/,
    );
  });

  it("holds back no other mapping, and changes neither its answer nor its failure", async () => {
    const took = async (order: object) => {
      const { status, body } = await world.post("/hooks/orders", order);
      const event = await eventOf(body.eventId ?? body.requestId);
      const would = (event.would as { mapping: string }[]).map(({ mapping }) => mapping);
      return [status, body.mapping ?? body.error?.code, event.outcome, would];
    };
    // "behind" would be reached by what "old" leaves alone.
    expect(await took({ id: 8, last: "", both: true })).toEqual([202, "old", "accepted", ["new"]]);
    expect(await took({ id: 8, both: true })).toEqual([
      400,
      "mapping_incomplete",
      "rejected",
      ["new"],
    ]);
    expect((await took({ id: 8 }))[3]).toEqual(["new", "behind"]);
  });

  it("tells what would not have been done and why, and binds no key", async () => {
    const { body } = await world.post("/hooks/wrong", { agent: "nobody" });
    expect(body.reason).toMatch(
      /^shadow: 0 actions would have been done; not done: agentId: names no agent/,
    );
    expect((await eventOf(body.eventId)).would).toMatchObject([
      {
        kind: "none",
        mapping: "wrong",
        fields: { reason: expect.stringContaining("names no agent") },
      },
    ]);
    for (let n = 0; n < 2; n++)
      expect((await world.post("/hooks/once", { id: 1 })).body.reason).toContain("1 action would");
  });

  it("may be a whole preset", async () => {
    expect(
      (await world.post("/hooks/healthchecks", { check: "Backup", code: "c", status: "down" })).body
        .outcome,
    ).toBe("skipped");
  });

  it("is the same in a replay", async () => {
    const { body } = await world.post("/hooks/orders", { id: 9 });
    const replayed = await world.admin(`/admin/v1/events/${body.eventId}/replay`, {
      method: "POST",
      body: '{"dryRun":true}',
    });
    expect(replayed.body.result).toMatchObject({
      outcome: "skipped",
      actions: [{ kind: "run", summary: "New words: 9" }, { summary: "Behind" }],
    });
  });
});
