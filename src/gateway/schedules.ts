import type { TurnExtension } from "../agent/context.ts";
import { collectSchedules } from "../schedules/list.ts";
import { createApprovedSchedules, createPauses } from "../schedules/proposals.ts";
import { createScheduler, type Scheduler } from "../schedules/scheduler.ts";
import { createSchedules, type Schedules } from "../schedules/schedules.ts";
import { createScheduleTool } from "../schedules/tool.ts";
import { createHeartbeat, type Heartbeat } from "../sessions/heartbeat.ts";
import type { Resources } from "./resources.ts";

/** What starts heartbeats, what fires schedules, what people do with them, and the tool that proposes them. */
export interface ScheduleParts {
  heartbeat: Heartbeat;
  scheduler: Scheduler;
  schedules: Schedules;
  scheduleTool: TurnExtension;
}

/** Makes the parts that schedules need, and starts none of them. */
export function createScheduleParts({
  store,
  cluster,
  clock,
  log,
  snapshot,
}: Resources): ScheduleParts {
  const agentIds = (): string[] => snapshot().agents.list.map(({ id }) => id);
  const heartbeat = createHeartbeat({ store, cluster, clock, log, agentIds });
  const approved = createApprovedSchedules({ store, cluster, clock });
  const pauses = createPauses({ store, cluster, clock });
  const scheduler = createScheduler({
    store,
    cluster,
    clock,
    log,
    heartbeat,
    schedules: async () => collectSchedules(snapshot(), await approved.list()),
    paused: async () => new Set((await pauses.list()).map(({ name }) => name)),
  });
  const changed = (): void => scheduler.look();
  const schedules = createSchedules({
    store,
    clock,
    heartbeat,
    approved,
    pauses,
    context: snapshot,
    changed,
  });
  const add: typeof approved.add = async (schedule) => {
    const added = await approved.add(schedule);
    scheduler.look();
    return added;
  };
  return {
    heartbeat,
    scheduler,
    schedules,
    scheduleTool: createScheduleTool({ store, approved: { add } }),
  };
}
