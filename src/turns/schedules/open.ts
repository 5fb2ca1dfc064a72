import { Heartbeat } from "../../queue/heartbeat.ts";
import type { PartContext } from "../../store/context.ts";
import type { ActionContext } from "../types.ts";
import { collectSchedules } from "./list.ts";
import { createApprovedSchedules } from "./proposals.ts";
import { Scheduler } from "./scheduler.ts";
import { createSchedules } from "./schedules.ts";
import { createScheduleTool } from "./tool.ts";

/** The parts that start heartbeats and fire schedules, what people do with schedules, and the tool that proposes them. */
export type ScheduleParts = ReturnType<typeof openSchedules>;

/** Creates the parts that schedules need, and starts none of them. */
export function openSchedules(context: PartContext & { snapshot(): ActionContext }) {
  const { store, clock, snapshot } = context;
  const heartbeat = new Heartbeat({
    ...context,
    agentIds: () => snapshot().agents.list.map(({ id }) => id),
  });
  const approved = createApprovedSchedules(context, () => scheduler.look());
  const scheduler: Scheduler = new Scheduler({
    ...context,
    heartbeat,
    schedules: async () => collectSchedules(snapshot(), await approved.list()),
  });
  return {
    heartbeat,
    scheduler,
    schedules: createSchedules({ ...context, heartbeat, approved }),
    /** Turns have it if their agents' `tools` name it. */
    scheduleTool: createScheduleTool({ store, approved, clock }),
  };
}
