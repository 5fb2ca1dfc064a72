import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createSetClock, scheduleWorld, type ScheduleWorld } from "./world.ts";

const MINUTE = 60_000;

let world: ScheduleWorld;
afterEach(async () => {
  await world.close();
});

const asked = (): string[] =>
  world.provider.requests.map((request) => world.provider.text(request));
const getDues = (): number[] =>
  asked().map((text) => Date.parse(/due at (\S+)\./.exec(text)?.[1] ?? ""));

it('schedules: with `catchUp: "all"`, the newest 100 of more missed times are caught up', async () => {
  const time = createSetClock();
  const schedules = [{ id: "often", every: "1m", catchUp: "all", prompt: "Tick.", deliver: false }];
  world = await scheduleWorld({ agents: [{ id: "main", schedules }], clock: time.clock });
  await world.ready("main/often");
  time.advance(150 * MINUTE + 1000);
  await world.until(async () => (await world.schedule("main/often")).fired >= 100);
  await world.until(async () => getDues().length >= 100);
  expect(await world.schedule("main/often")).toMatchObject({
    skipped: 50,
    skips: [
      {
        count: 50,
        reason: "missed while no gateway fired it; only the newest 100 are caught up",
      },
    ],
  });
});

describe("a schedule whose replies can have no route", () => {
  const at = (channel: string, to?: string) => ({
    id: "job",
    every: "1d",
    prompt: "Go.",
    deliver: { channel, ...(to !== undefined && { to }) },
  });

  it.each([
    ["slakc", {}, 'names no channel. Did you mean "slack"?'],
    ["Slack", {}, 'the channel "slack" is not configured: add `channels.slack`'],
    ["telegram", { telegram: { enabled: false } }, 'the channel "telegram" is turned off'],
  ])("is an error at load if its channel is not there: %s", async (channel, channels, message) => {
    world = await scheduleWorld({ agents: [{ id: "main" }] });
    const config = { channels, agents: { list: [{ id: "main", schedules: [at(channel, "1")] }] } };
    world.write("wrong.json5", config);
    const { code, out, err } = await world.rouse("config", "validate", "-c", "wrong.json5");
    expect(code).toBe(3);
    expect(out + err).toContain("agents.list[0].schedules[0].deliver.channel");
    expect(out + err).toContain(message);
  });

  it("is a warning if only its recipient is missing", async () => {
    const schedules = [
      at("desk"),
      { ...at("desk", "ann"), id: "right" },
      { ...at("last"), id: "l" },
    ];
    world = await scheduleWorld({ agents: [{ id: "main", schedules }] });
    const warnings = world.gateway
      .status()
      .warnings.filter(({ message }) => message.startsWith("replies have no route"));
    expect(warnings.map(({ path }) => path)).toEqual([
      "agents.list[0].schedules[0].deliver.channel",
    ]);
  });
});

it("`rouse schedules` shows the zone of a schedule, and its hours there", async () => {
  const rest = { prompt: "Go.", deliver: false };
  const schedules = [
    { id: "late", cron: "30 23 * * *", timezone: "Asia/Tokyo", ...rest },
    { id: "early", cron: "15 6 1 1 *", timezone: "America/Lima", ...rest },
    { id: "once", at: "2099-05-31T09:00", timezone: "Europe/Berlin", ...rest },
    { id: "tick", every: "1h", ...rest },
  ];
  world = await scheduleWorld({ agents: [{ id: "main", schedules }] });
  const { out } = await world.rouse("schedules");
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  for (const row of [
    /NAME +WHEN +ZONE +NEXT +LAST/,
    /main\/late +30 23 \* \* \* +Asia\/Tokyo +\d{4}-\d\d-\d\d 23:30 /,
    /main\/early +15 6 1 1 \* +America\/Lima +\d{4}-01-01 06:15 /,
    /main\/once +at 2099-05-31T09:00 +Europe\/Berlin +2099-05-31 09:00 /,
    new RegExp(`main/tick +every 1h +${timeZone} +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d `),
  ])
    expect(out).toMatch(row);
});

it("schedules: the turn of one gets passages of documents", async () => {
  const time = createSetClock();
  const schedules = [
    {
      id: "ask",
      every: "1d",
      prompt: "What is the opening time of the observatory?",
      deliver: false,
    },
  ];
  world = await scheduleWorld({
    agents: [{ id: "main", knowledge: "auto", schedules }],
    clock: time.clock,
  });
  await world.ready("main/ask");
  const file = join(world.dir, "opening.txt");
  writeFileSync(
    file,
    "The observatory opens at twenty to eight. Its opening time changes in winter.",
  );
  const added = await world.rouse("knowledge", "add", file);
  expect([added.code, added.err]).toEqual([0, expect.stringContaining("(the running gateway)")]);
  await world.act("main/ask", "run");
  await world.until(async () => asked().length === 1);
  expect(asked()[0]).toContain("twenty to eight");
});
