import type { Clock } from "../../core/clock.ts";
import { RouseError } from "../../core/errors.ts";
import type { ActionContext } from "../types.ts";
import type { Heartbeat } from "../../queue/heartbeat.ts";
import { LEASE_LOST, type Store } from "../../store/types.ts";
import { planFiring } from "./fire.ts";
import { collectSchedules } from "./list.ts";
import { getScheduleName } from "./plan.ts";
import type { ApprovedSchedule, ApprovedSchedules } from "./proposals.ts";
import { manualKey, readLastFiring, readScheduleState } from "./state.ts";
import type { Firing, Schedule, ScheduleState } from "./types.ts";

export interface SchedulesDeps {
  store: Store;
  clock: Clock;
  heartbeat: Heartbeat;
  approved: ApprovedSchedules;
  snapshot(): ActionContext;
}

/** A schedule with what is known of it. */
export interface KnownSchedule {
  schedule: Schedule;
  state: ScheduleState | undefined;
  last: Firing | undefined;
  /** Set if an agent has proposed it. */
  approved: ApprovedSchedule | undefined;
}

/** The operations of people on schedules. All of them count for every gateway of the store. */
export type Schedules = ReturnType<typeof createSchedules>;

/** Creates what people do with schedules. */
export function createSchedules({ store, clock, heartbeat, approved, snapshot }: SchedulesDeps) {
  return {
    async list(): Promise<KnownSchedule[]> {
      const made = await approved.list();
      return Promise.all(
        collectSchedules(snapshot(), made).map(async (schedule) => {
          const state = await readScheduleState(schedule, store);
          return {
            schedule,
            state,
            last: await readLastFiring(schedule, state, store),
            approved: made.find(
              ({ agentId, id }) => agentId === schedule.agentId && id === schedule.id,
            ),
          };
        }),
      );
    },
    /** Fires a schedule immediately; its due times stay as they are. */
    async run(schedule: Schedule): Promise<Firing> {
      const now = clock.now();
      const { firing, write } = planFiring(
        schedule,
        { dueAt: now, at: now, manual: true },
        heartbeat,
      );
      const isDone = await store.commit((tx) => {
        write(tx);
        tx.values.set(manualKey(getScheduleName(schedule)), firing);
      });
      if (!isDone) throw new RouseError(LEASE_LOST);
      return firing;
    },
    /** Deletes a schedule that an agent has proposed. False if it is none of them. */
    remove: (schedule: Schedule) => approved.remove(schedule.agentId, schedule.id),
  };
}
