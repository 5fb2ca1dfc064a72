import { afterEach, describe, expect, it } from "vitest";
import { scheduleIssues } from "../../src/config/schedule-checks.ts";
import type { Config } from "../../src/config/schema/index.ts";
import { scheduleSchema } from "../../src/config/schema/schedules.ts";
import { createSetClock, scheduleWorld, type ScheduleWorld } from "./world.ts";

const MINUTE = 60_000;

let world: ScheduleWorld;

const asked = (): string[] =>
  world.provider.requests.map((request) => world.provider.text(request));
const beats = async (): Promise<string[]> =>
  (await world.admin("/admin/v1/runs?kind=all&limit=100")).body.runs.map(
    (run: { kind: string; agentId: string }) => `${run.kind} ${run.agentId}`,
  );

describe("heartbeats of every agent", () => {
  afterEach(() => world.close());

  it("come by each agent's own settings, and are schedules", async () => {
    const time = createSetClock();
    world = await scheduleWorld({
      clock: time.clock,
      defaults: { heartbeat: { every: "30m", instructions: "Check the house." } },
      agents: [
        { id: "main" },
        { id: "garden", heartbeat: { every: "5m", instructions: "Check the garden." } },
        { id: "quiet" },
        { id: "off", heartbeat: { every: 0 } },
      ],
    });
    world.provider.answer = () => "HEARTBEAT_OK";
    await world.ready("quiet/heartbeat");
    expect((await world.schedules()).map(({ name, source }) => `${name} ${source}`)).toEqual([
      "main/heartbeat heartbeat",
      "garden/heartbeat heartbeat",
      "quiet/heartbeat heartbeat",
    ]);
    time.advance(6 * MINUTE);
    await world.until(async () => asked().length === 1);
    expect(asked()[0]).toContain("Check the garden.");
    await world.until(async () => (await beats()).length === 1);
    time.advance(25 * MINUTE);
    await world.until(async () => (await beats()).length === 3);
    expect((await beats()).toSorted()).toEqual([
      "heartbeat garden",
      "heartbeat garden",
      "heartbeat main",
    ]);
    // An agent that says nothing of heartbeats asks its model only about events.
    expect((await world.schedule("quiet/heartbeat")).fired).toBe(1);
    expect(asked().filter((text) => text.includes("Check the house."))).toHaveLength(1);
    expect((await world.rouse("schedules")).out).toMatch(/garden\/heartbeat +every 5m .*heartbeat/);
  });

  it("see the wakes that name their agent, and no others", async () => {
    world = await scheduleWorld({
      agents: [{ id: "main" }, { id: "garden" }],
      more: {
        hooks: {
          allowedAgentIds: ["main", "garden"],
          mappings: [
            {
              id: "rain",
              match: { path: "rain" },
              action: "wake",
              agentId: "{{who}}",
              textTemplate: "Rain: {{mm}}",
            },
          ],
        },
      },
    });
    world.provider.answer = () => "HEARTBEAT_OK";
    expect(
      (await world.post("/hooks/wake", { text: "The gate is open.", agentId: "garden" })).status,
    ).toBe(200);
    await world.until(async () => asked().some((text) => text.includes("The gate is open.")));
    await world.until(async () => (await beats()).length === 1);
    expect(await beats()).toEqual(["heartbeat garden"]);
    expect((await world.post("/hooks/rain", { who: "garden", mm: 7 })).status).toBe(200);
    await world.until(async () => asked().some((text) => text.includes("Rain: ")));
    expect((await world.post("/hooks/wake", { text: "Hello." })).status).toBe(200);
    await world.until(async () => (await beats()).includes("heartbeat main"));
    const wrong = await world.post("/hooks/wake", { text: "Hello.", agentId: "nobody" });
    expect([wrong.status, wrong.body.error.issues]).toEqual([
      400,
      [{ path: "agentId", message: "names no agent of agents.list" }],
    ]);
  });
});

it.each([
  [{ cron: "0 8 * *", prompt: "x" }, "cron", "must have five fields"],
  [{ cron: "0 8 * * *", every: "1h", prompt: "x" }, "", "it has cron and every"],
  [{ prompt: "x" }, "", "it has none"],
  [{ every: "10ms", prompt: "x" }, "every", "at least a second"],
  [{ id: "heartbeat", every: "1h", prompt: "x" }, "id", "heartbeats"],
  [{ every: "1h", prompt: " " }, "prompt", "must not be blank"],
])("the schedule %j is refused with the path of the field and the reason", (given, field, said) => {
  const schedule = scheduleSchema.parse({ id: "a", ...given });
  const config = { agents: { list: [{ schedules: [schedule] }] } } as Config;
  expect(scheduleIssues(config)).toEqual([
    {
      path: ["agents.list[0].schedules[0]", field].filter(Boolean).join("."),
      message: expect.stringContaining(said) as unknown,
    },
  ]);
});
