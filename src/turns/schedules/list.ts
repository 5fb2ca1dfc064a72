import { HEARTBEAT_ID, toTrigger } from "../../config/schedule-checks.ts";
import type { ScheduleConfig } from "../../config/schema/schedules.ts";
import { parseTrigger, type Trigger } from "../../vocabulary/schedule-times.ts";
import type { ActionContext } from "../types.ts";
import type { ApprovedSchedule } from "./proposals.ts";
import type { Schedule, ScheduleAction, ScheduleDelivery } from "./types.ts";

type Context = Pick<ActionContext, "config" | "agents">;

const LAST: ScheduleDelivery = { channel: "last" };

/** Returns nothing for a trigger that is wrong: the config was checked, and what the store has may be of another version. */
function build(trigger: Trigger, rest: Omit<Schedule, "trigger" | "times">): Schedule[] {
  const parsed = parseTrigger(trigger);
  return parsed.ok ? [{ ...rest, trigger, times: parsed.times }] : [];
}

function fromConfig(agentId: string, schedule: ScheduleConfig): Schedule[] {
  const { id, prompt, deliver, catchUp } = schedule;
  const action: ScheduleAction = { kind: "prompt", text: prompt, outside: false };
  const target =
    deliver === undefined || deliver === false
      ? (deliver ?? LAST)
      : { channel: deliver.channel, ...(deliver.to !== undefined && { to: deliver.to }) };
  return build(toTrigger(schedule), {
    agentId,
    id,
    source: "config",
    action,
    deliver: target,
    catchUp,
  });
}

function fromHeartbeat(agentId: string, everyMs: number): Schedule[] {
  if (everyMs === 0) return [];
  const rest = {
    agentId,
    id: HEARTBEAT_ID,
    source: "heartbeat",
    action: { kind: "heartbeat" },
    deliver: LAST,
  } as const;
  return build({ everyMs }, { ...rest, catchUp: "once" });
}

function fromApproved(approved: ApprovedSchedule): Schedule[] {
  const { id, agentId, trigger, prompt, outside, deliver, asked } = approved;
  const route = asked?.route;
  const target = route ? { channel: route.channel, to: route.to } : LAST;
  const action: ScheduleAction = { kind: "prompt", text: prompt, outside };
  const rest = {
    agentId,
    id,
    source: "agent",
    action,
    catchUp: "once",
    ...(asked && { asked }),
  } as const;
  return build(trigger, { ...rest, deliver: deliver && target });
}

const listConfigured = ({ config, agents }: Context): Schedule[] =>
  agents.list.flatMap(({ id, heartbeat }) => {
    const { schedules = [] } = config.agents.list.find((agent) => agent.id === id) ?? {};
    return [
      ...schedules.flatMap((schedule) => fromConfig(id, schedule)),
      ...fromHeartbeat(id, heartbeat.every),
    ];
  });

/** Lists all schedules: those of the config with the heartbeats, and those that agents have proposed and people approved. */
export const collectSchedules = (
  context: Context,
  approved: readonly ApprovedSchedule[],
): Schedule[] => [
  ...listConfigured(context),
  ...approved.filter(({ agentId }) => context.agents.get(agentId)).flatMap(fromApproved),
];
