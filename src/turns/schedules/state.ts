import type { Reads } from "../../store/types.ts";
import { getScheduleName } from "./plan.ts";
import type { Firing, Schedule, ScheduleState } from "./types.ts";

/** The value with the names of the schedules that have states. */
export const STATES_KEY = "schedules.known";

/** The value that is the state of a schedule, by its name. */
export const stateKey = (name: string): string => `schedule:${name}`;
/** The value with the last firing that a person has started. */
export const manualKey = (name: string): string => `schedule.manual:${name}`;

/** Reads the state of a schedule; undefined if it has never been looked at. */
export async function readScheduleState(
  schedule: Schedule,
  store: Reads,
): Promise<ScheduleState | undefined> {
  return (await store.values.get(stateKey(getScheduleName(schedule)))) as ScheduleState | undefined;
}

/** Reads the newest firing of a schedule, whoever has started it. */
export async function readLastFiring(
  schedule: Schedule,
  state: ScheduleState | undefined,
  store: Reads,
): Promise<Firing | undefined> {
  const manual = (await store.values.get(manualKey(getScheduleName(schedule)))) as
    | Firing
    | undefined;
  const last = state?.last;
  return manual && manual.at >= (last?.at ?? 0) ? manual : (last ?? manual);
}
