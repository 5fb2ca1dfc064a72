import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/run.ts";
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
            continue: true,
            messageTemplate: "New words: {{id}}",
            sessionKey: "hook:new:{{id}}",
            channel: "console",
            to: "ops",
          },
          {
            id: "old",
            match: { path: "orders", payload: { both: true } },
            messageTemplate: "Old words: {{id}}",
          },
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
        reason: "shadow: 1 action would have been done",
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
    let out = "";
    const io = {
      out: (text: string) => void (out += text),
      err: () => undefined,
      env: {},
      cwd: world.dir,
      terminal: { in: false, out: false, err: false, columns: undefined },
      now: () => Date.now(),
      exitCode: 0,
    };
    expect(await runCommandLine(["explain", body.eventId], io)).toBe(0);
    expect(out).toMatch(
      /in shadow, new would have done\n[^]*sessionKey: hook:new:11[^]*New words: 11/,
    );
  });

  it("goes beside one that acts", async () => {
    const { status, body } = await world.post("/hooks/orders", { id: 8, both: true });
    expect(status).toBe(202);
    const event = await eventOf(body.eventId);
    expect([event.outcome, event.actions.length, event.would.length]).toEqual(["accepted", 1, 1]);
  });

  it("tells what would have been refused, and binds no key", async () => {
    expect((await world.post("/hooks/wrong", { agent: "nobody" })).body.reason).toBe(
      "shadow: 0 actions would have been done, and 1 would have been refused",
    );
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
      actions: [{ kind: "run", summary: "New words: 9" }],
    });
  });
});
