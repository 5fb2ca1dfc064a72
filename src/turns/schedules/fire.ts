import { newId, seededId } from "../../core/ids.ts";
import { buildRunJob } from "../../store/sql/record-writes.ts";
import type { Heartbeat } from "../../queue/heartbeat.ts";
import {
  newRun,
  type Ms,
  type ScheduleRun,
  type ScheduleSpec,
  type SessionRef,
  type Writes,
} from "../../store/types.ts";
import { getScheduleName } from "./plan.ts";
import type { Firing, Schedule, ScheduleAction } from "./types.ts";

type Prompt = Extract<ScheduleAction, { text: string }>;

/** The session of a schedule: its turns are one conversation. */
export const getScheduleSession = ({
  agentId,
  id,
}: Pick<Schedule, "agentId" | "id">): SessionRef => ({
  agentId,
  origin: "schedule",
  key: `schedule:${id}`,
});

/** Renders a due time with the offset of the schedule's time zone: `2026-03-29T08:00:00+02:00`. */
function renderDue({ trigger }: Schedule, dueAt: Ms): string {
  const timeZone = "timezone" in trigger ? trigger.timezone : "UTC";
  const local = new Intl.DateTimeFormat("sv-SE", {
    timeZone,
    dateStyle: "short",
    timeStyle: "medium",
  }).format(dueAt);
  const offset = new Intl.DateTimeFormat("en", {
    timeZone,
    timeZoneName: "longOffset",
  }).formatToParts(dueAt);
  const zone =
    offset.find(({ type }) => type === "timeZoneName")?.value.replace("GMT", "") || "+00:00";
  return `${local.replace(" ", "T")}${zone}`;
}

function buildRun(
  schedule: Schedule,
  { text, outside }: Prompt,
  { dueAt, at, manual }: Firing,
  id: string,
): ScheduleRun {
  const { id: scheduleId, deliver, asked } = schedule;
  const spec: ScheduleSpec = {
    session: getScheduleSession(schedule),
    name: scheduleId,
    hook: `schedules/${scheduleId}`,
    input: [{ text, outside }],
    instructions: `${manual ? "A person has started the schedule" : "This turn was started by the schedule"} "${scheduleId}", due at ${renderDue(schedule, dueAt)}.`,
    schedule: { id: scheduleId, dueAt, ...(manual && { manual }), ...(asked && { asked }) },
    ...(deliver && { target: deliver }),
  };
  return newRun<ScheduleRun>({ id, kind: "schedule", spec, createdAt: at });
}

/**
 * Plans a firing, with its writes for one commit with the state of the schedule. The ids of one for a due time depend on the schedule and the due time alone, so that the store refuses a
 * second one; a person can start a schedule as often as they want.
 */
export function planFiring(
  schedule: Schedule,
  { dueAt, at, manual }: Firing,
  heartbeat: Pick<Heartbeat, "plan">,
) {
  const { agentId, action } = schedule;
  const firing: Firing = { dueAt, at, ...(manual && { manual }) };
  if (action.kind === "heartbeat")
    return { firing, write: (tx: Writes) => tx.jobs.add(heartbeat.plan(agentId)) };
  const seed = `schedule ${getScheduleName(schedule)} ${dueAt}`;
  const id = manual ? newId("run", at) : seededId("run", dueAt, seed);
  const run = buildRun(schedule, action, firing, id);
  const write = (tx: Writes): void => {
    tx.runs.add(run);
    tx.jobs.add(buildRunJob(run, at));
  };
  return { firing: { ...firing, runId: id }, write };
}
