import type { TurnExtension } from "../../agent/types.ts";
import { Heartbeat } from "../../queue/heartbeat.ts";
import type { PartContext } from "../../store/context.ts";
import type { ActionContext } from "../types.ts";
import { collectSchedules } from "./list.ts";
import { createApprovedSchedules, createPauses } from "./proposals.ts";
import { Scheduler } from "./scheduler.ts";
import { createSchedules, type Schedules } from "./schedules.ts";
import { createScheduleTool } from "./tool.ts";

/** The parts that start heartbeats and fire schedules, what people do with schedules, and the tool that proposes them. */
export interface ScheduleParts {
  heartbeat: Heartbeat;
  scheduler: Scheduler;
  schedules: Schedules;
  /** The tool by which agents propose schedules; turns have it if their agents' `tools` name it. */
  scheduleTool: TurnExtension;
}

interface ScheduleContext extends PartContext {
  snapshot(): ActionContext;
}

/** Creates the parts that schedules need, and starts none of them. */
export function openSchedules(context: ScheduleContext): ScheduleParts {
  const { store, clock, snapshot } = context;
  const heartbeat = new Heartbeat({
    ...context,
    agentIds: () => snapshot().agents.list.map(({ id }) => id),
  });
  const changed = (): void => scheduler.look();
  const approved = createApprovedSchedules(context, changed);
  const pauses = createPauses(context, changed);
  const scheduler: Scheduler = new Scheduler({
    ...context,
    heartbeat,
    schedules: async () => collectSchedules(snapshot(), await approved.list()),
    paused: async () => new Set((await pauses.list()).map(({ name }) => name)),
  });
  return {
    heartbeat,
    scheduler,
    schedules: createSchedules({ ...context, heartbeat, approved, pauses }),
    scheduleTool: createScheduleTool({ store, approved, clock }),
  };
}
