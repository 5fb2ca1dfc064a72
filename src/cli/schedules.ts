import type { Command } from "commander";
import type { ScheduleView } from "../admin/schedules.ts";
import { connected, read, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson, printTable } from "./print.ts";
import { cell, localZone, zonedTime } from "./text.ts";

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1_000, "s"],
];

/** Renders a duration as the config has it: `30m`. */
function renderDuration(ms: number): string {
  const [size, unit] = UNITS.find(([known]) => ms >= known && ms % known === 0) ?? [1, "ms"];
  return `${ms / size}${unit}`;
}

function renderTrigger({ cron, everyMs, at }: ScheduleView): string {
  return everyMs === null ? (cron ?? `at ${at}`) : `every ${renderDuration(everyMs)}`;
}

/** The zone whose hours a schedule keeps. An interval has none, and is shown in that of the machine. */
const getZone = ({ timezone }: ScheduleView): string => timezone ?? localZone();

/** The newest firing, as `2026-01-31 08:00 succeeded`. */
function renderLast({ last }: ScheduleView, zone: string): string {
  if (!last) return "–";
  return [
    zonedTime(last.firedAt, zone),
    last.status ?? "fired",
    ...(last.error ? [last.error.code] : []),
  ].join(" ");
}

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.schedules.$get()));
  if (options.json) return printJson(io, answer);
  const rows = answer.schedules.map((schedule) => {
    const zone = getZone(schedule);
    return [
      schedule.name,
      renderTrigger(schedule),
      zone,
      schedule.paused ? "paused" : zonedTime(schedule.next[0] ?? null, zone),
      renderLast(schedule, zone),
      String(schedule.skipped),
      schedule.text === null ? "heartbeat" : `${schedule.action}: ${schedule.text}`,
    ];
  });
  printTable(io, ["SCHEDULE", "WHEN", "ZONE", "NEXT", "LAST", "SKIPPED", "WHAT"], rows);
}

/** Finds the schedule that a name means: `<agent>/<id>`, or the id if one agent alone has it. */
async function find({ api }: GatewayConnection, name: string): Promise<ScheduleView> {
  const { schedules } = await read(api.schedules.$get());
  const exact = schedules.find((schedule) => schedule.name === name);
  const same = schedules.filter(({ id }) => id === name);
  const [only] = same;
  if (exact) return exact;
  if (only && same.length === 1) return only;
  if (only)
    throw usage(
      `several agents have a schedule "${cell(name)}": write ${same.map((one) => one.name).join(" or ")}`,
    );
  throw usage(
    `there is no schedule "${cell(name)}"; \`rouse schedules list\` shows which there are`,
  );
}

/** What names a schedule in the routes. */
const toParam = ({ agentId, id }: ScheduleView): { param: { agent: string; id: string } } => ({
  param: { agent: encodeURIComponent(agentId), id: encodeURIComponent(id) },
});

const SOURCES: Record<ScheduleView["source"], string> = {
  config: "the config",
  agent: "proposed by the agent",
  heartbeat: "`heartbeat` of the agent",
};

function printSchedule(schedule: ScheduleView, io: CliIo): void {
  const { last, approved, deliver, text, outside } = schedule;
  const zone = getZone(schedule);
  const target =
    deliver && [deliver.channel, ...(deliver.to === null ? [] : [deliver.to])].join(" ");
  printFields(io, {
    schedule: schedule.name,
    from: approved
      ? `${SOURCES.agent}, approved by ${approved.by} (${approved.runId})`
      : SOURCES[schedule.source],
    when: renderTrigger(schedule),
    zone,
    "missed times": schedule.catchUp,
    jitter: schedule.jitterMs === 0 ? null : renderDuration(schedule.jitterMs),
    "reply to": schedule.action === "prompt" ? (target ?? "nobody") : null,
    state: schedule.paused ? "paused" : null,
    fired: schedule.fired,
    skipped: schedule.skipped,
    last:
      last &&
      `${zonedTime(last.firedAt, zone)}, due ${zonedTime(last.dueAt, zone)}${last.manual ? ", started by a person" : ""}`,
    run: last?.runId && `${last.runId}  ${last.status ?? "no longer kept"}`,
    error: last?.error && `${last.error.code}: ${last.error.message}`,
  });
  if (text !== null)
    printBlock(io, outside ? `${schedule.action} (text from outside)` : schedule.action, text);
  if (schedule.next.length > 0)
    printBlock(io, "next", schedule.next.map((time) => zonedTime(time, zone)).join("\n"));
  const skips = schedule.skips.map(
    ({ from, to, count, isMore, reason }) =>
      `${zonedTime(from, zone)} to ${zonedTime(to, zone)}  ${isMore ? "more than " : ""}${count}: ${reason}`,
  );
  if (skips.length > 0) printBlock(io, "skipped", skips.join("\n"));
}

async function show(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) =>
    read(to.api.schedules[":agent"][":id"].$get(toParam(await find(to, name)))),
  );
  if (options.json) return printJson(io, answer);
  printSchedule(answer.schedule, io);
}

async function run(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const { live, schedule, ...answer } = await connected(options, io, async (to) => {
    const found = await find(to, name);
    return {
      live: to.live,
      schedule: found.name,
      ...(await read(to.api.schedules[":agent"][":id"].run.$post(toParam(found)))),
    };
  });
  if (options.json) return printJson(io, answer);
  io.out(`${schedule}  fired${answer.fired?.runId ? `: ${answer.fired.runId}` : ""}\n`);
  if (!live) io.out("no gateway runs just now: the work begins with the next `rouse start`\n");
}

async function setPaused(
  name: string,
  paused: boolean,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const routes = to.api.schedules[":agent"][":id"];
    return read((paused ? routes.pause : routes.resume).$post(toParam(await find(to, name))));
  });
  if (options.json) return printJson(io, answer);
  const { name: full, next } = answer.schedule;
  const zone = getZone(answer.schedule);
  io.out(
    paused
      ? `${full}  paused: times that come are skipped\n`
      : `${full}  goes on${next[0] ? `: next ${zonedTime(next[0], zone)} ${zone}` : ""}\n`,
  );
}

async function remove(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const removed = await connected(options, io, async (to) => {
    const found = await find(to, name);
    await read(to.api.schedules[":agent"][":id"].$delete(toParam(found)));
    return found.name;
  });
  if (options.json) printJson(io, { removed });
  else io.out(`${removed}  removed\n`);
}

export function register(program: Command, io: CliIo): void {
  const schedules = program
    .command("schedules")
    .description("when agents start by themselves, heartbeats included");
  reading(
    schedules
      .command("list")
      .description("schedules of all agents, when they fire next, and how they ended last"),
    "rouse schedules list",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    schedules
      .command("show <schedule>")
      .description("one schedule: its next times, its last firing, and what was skipped"),
    "rouse schedules show main/morning",
  ).action((name: string, options: CommonOptions) => show(name, options, io));
  reading(
    schedules
      .command("run <schedule>")
      .description("fire a schedule immediately; its next times stay as they are"),
    "rouse schedules run morning",
  ).action((name: string, options: CommonOptions) => run(name, options, io));
  reading(
    schedules
      .command("pause <schedule>")
      .description("skip the times that come, until it is resumed"),
    "rouse schedules pause morning",
  ).action((name: string, options: CommonOptions) => setPaused(name, true, options, io));
  reading(
    schedules.command("resume <schedule>").description("let a paused schedule go on"),
    "rouse schedules resume morning",
  ).action((name: string, options: CommonOptions) => setPaused(name, false, options, io));
  reading(
    schedules
      .command("remove <schedule>")
      .description("delete a schedule that an agent has proposed"),
    "rouse schedules remove main/sch_…",
  ).action((name: string, options: CommonOptions) => remove(name, options, io));
}
