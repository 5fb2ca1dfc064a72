import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createSetClock, scheduleWorld, type ScheduleWorld } from "./world.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let world: ScheduleWorld;
let schema: Schema | undefined;
afterEach(async () => {
  await world.close();
  await schema?.drop();
  schema = undefined;
});

/** The requests to the model, as text. */
const asked = (): string[] =>
  world.provider.requests.map((request) => world.provider.text(request));
const runsOf = async (kind: string) =>
  (await world.admin(`/admin/v1/runs?kind=${kind}&limit=100`)).body.runs;

describe("schedules", () => {
  it("fires a prompt in the schedule's session, sends the reply and leaves a summary", async () => {
    const time = createSetClock();
    const schedules = [
      {
        id: "report",
        every: "6h",
        prompt: "Write the report.",
        deliver: { channel: "desk", to: "ann" },
      },
    ];
    world = await scheduleWorld({ agents: [{ id: "main", schedules }], clock: time.clock });
    world.provider.answer = () => "All is well.";
    await world.ready("main/report");
    time.advance(6 * HOUR);
    await world.until(async () => world.sent.length === 1);
    expect(world.sent[0]).toMatchObject({ to: "ann", text: "All is well." });
    expect(asked()[0]).toContain("Write the report.");
    expect(asked()[0]).toMatch(
      /This turn was started by the schedule "report", due at \S+\+00:00\./,
    );
    const [run] = await runsOf("schedule");
    expect(run).toMatchObject({
      status: "succeeded",
      sessionKey: "schedule:report",
      agentId: "main",
    });
    expect((await world.rouse("sessions", "schedule:report")).out).toContain("Write the report.");
    const { body } = await world.admin("/admin/v1/sessions/show?key=main");
    expect(JSON.stringify(body.queued)).toContain("Schedule report: All is well.");
    time.advance(6 * HOUR);
    await world.until(async () => world.sent.length === 2);
    // The second turn sees the first: a schedule has one conversation.
    expect(asked()[1]).toContain("All is well.");
    expect(await world.schedule("main/report")).toMatchObject({
      fired: 2,
      skipped: 0,
      last: { status: "succeeded", manual: false },
    });
  });

  it("fires when a person says so, besides its own times", async () => {
    const time = createSetClock();
    world = await scheduleWorld({
      agents: [
        { id: "main", schedules: [{ id: "tick", every: "1d", prompt: "Tick.", deliver: false }] },
      ],
      clock: time.clock,
    });
    await world.ready("main/tick");
    const manual = await world.rouse("schedules", "set", "main/tick", "--run", "--json");
    expect(JSON.parse(manual.out)).toMatchObject({
      fired: { manual: true, runId: expect.stringMatching(/^run_/) },
    });
    await world.until(async () => (await world.schedule("main/tick")).last?.status === "succeeded");
    time.advance(DAY);
    await world.until(async () => (await world.schedule("main/tick")).fired === 1);
    await world.until(
      async () =>
        (await world.schedule("main/tick")).last?.manual === false && asked().length === 2,
    );
    await world.until(async () => (await world.schedule("main/tick")).last?.status === "succeeded");
    expect((await world.rouse("schedules")).out).toMatch(
      /main\/tick +every 1d +\S+ +\d{4}-\d\d-\d\d \d\d:\d\d +.*succeeded +0 +prompt: Tick\./,
    );
    expect((await world.rouse("schedules", "nothing")).err).toContain(
      'there is no schedule "nothing"',
    );
  });

  it("starts again after a change of its times, and stops if it is removed", async () => {
    const time = createSetClock();
    const list = (every: string, more: object[] = []) => ({
      agents: {
        list: [
          { id: "main", schedules: [{ id: "job", every, prompt: "Go.", deliver: false }, ...more] },
        ],
      },
    });
    world = await scheduleWorld({
      agents: [
        { id: "main", schedules: [{ id: "job", every: "4h", prompt: "Go.", deliver: false }] },
      ],
      clock: time.clock,
    });
    await world.ready("main/job");
    const before = JSON.parse(readFileSync(join(world.dir, "rouse.json5"), "utf8"));
    const reload = async (agents: object) => {
      world.write("rouse.json5", {
        ...before,
        ...agents,
        agents: { ...before.agents, ...(agents as { agents: object }).agents },
      });
      expect((await world.admin("/admin/v1/reload", { method: "POST" })).status).toBe(200);
    };
    time.advance(3 * HOUR);
    await reload(list("2h"));
    await world.until(
      async () =>
        Math.abs(
          Date.parse((await world.schedule("main/job")).next[0] ?? "") -
            time.clock.now() -
            2 * HOUR,
        ) < 60_000,
    );
    expect(asked()).toHaveLength(0);
    await reload({ agents: { list: [{ id: "main" }] } });
    time.advance(9 * HOUR);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await reload(list("2h"));
    // Times that passed while it was gone are left out.
    await world.ready("main/job");
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(asked()).toHaveLength(0);
    time.advance(2 * HOUR);
    await world.until(async () => asked().length === 1);
  });

  it("does not fire twice for a time if the clock is set back and forward", async () => {
    const time = createSetClock();
    world = await scheduleWorld({
      agents: [
        {
          id: "main",
          schedules: [{ id: "job", every: "4h", prompt: "Go.", deliver: false, catchUp: "all" }],
        },
      ],
      clock: time.clock,
    });
    await world.ready("main/job");
    time.advance(9 * HOUR);
    await world.until(async () => (await runsOf("schedule")).length === 2);
    for (const step of [-5, 5, -9, 9]) {
      time.advance(step * HOUR);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect((await runsOf("schedule")).length).toBe(2);
    time.advance(-40 * DAY);
    // Until the gateway looks at the clock again.
    time.advance(10_000);
    await world.until(
      async () =>
        Date.parse((await world.schedule("main/job")).handledTo ?? "") <= time.clock.now(),
    );
    // A clock that was wrong by weeks silences nothing.
    time.advance(4 * HOUR);
    await world.until(async () => (await runsOf("schedule")).length === 3);
  });
});

describePostgres("schedules on PostgreSQL", () => {
  it("fire at one of two gateways, and then at the other", async () => {
    schema = newSchema();
    const agents = [
      {
        id: "main",
        schedules: [{ id: "tick", every: "1s", prompt: "Tick.", deliver: false, catchUp: "all" }],
      },
    ];
    const first = await scheduleWorld({ agents, storeUrl: schema.url });
    world = await scheduleWorld({ agents, storeUrl: schema.url, provider: first.provider });
    await world.until(async () => (await world.schedule("main/tick")).fired >= 2);
    await first.stop();
    const { fired } = await world.schedule("main/tick");
    await world.until(async () => (await world.schedule("main/tick")).fired >= fired + 2);
    const due = (await runsOf("schedule")).map(({ id }: { id: string }) => id);
    expect(new Set(due).size).toBe(due.length);
    const dues = asked().map((text) => /due at (\S+)\./.exec(text)?.[1]);
    const seconds = [...new Set(dues)].map((text) => Date.parse(text ?? "") / 1000);
    expect(dues.length).toBe(seconds.length);
    // Each second once, without a gap.
    expect(seconds.toSorted((a, b) => a - b)).toEqual(
      seconds.map((_second, n) => Math.min(...seconds) + n),
    );
    await first.provider.close();
  });
});
