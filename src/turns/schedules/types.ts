import type { CATCH_UP } from "../../config/schema/schedules.ts";
import type { ScheduleTimes, Trigger } from "../../vocabulary/schedule-times.ts";
import type { AskedSchedule, Ms } from "../../store/types.ts";

/** The effect of a firing. `outside`: the text may carry words from outside. */
export type ScheduleAction =
  | { kind: "prompt"; text: string; outside: boolean }
  | { kind: "heartbeat" };

/** The target of the reply to a prompt; false if the reply is not sent. */
export type ScheduleDelivery = false | { channel: string; to?: string };

/** A schedule of an agent: of the config, one that an agent proposed and a person approved, or the agent's heartbeats. */
export interface Schedule {
  agentId: string;
  id: string;
  source: "config" | "agent" | "heartbeat";
  trigger: Trigger;
  times: ScheduleTimes;
  action: ScheduleAction;
  deliver: ScheduleDelivery;
  catchUp: (typeof CATCH_UP)[number];
  /** Set if somebody else than the owner has asked the agent for the schedule: in which conversation. */
  asked?: AskedSchedule;
}

/** Due times that were not fired, and why. */
export interface SkippedTimes {
  /** The first and the last of them. */
  from: Ms;
  to: Ms;
  count: number;
  /** There were more than `count`. */
  isMore?: true;
  reason: string;
  at: Ms;
}

/** A firing: a run. A heartbeat has none yet. */
export interface Firing {
  dueAt: Ms;
  at: Ms;
  runId?: string;
  /** A person has started it. */
  manual?: true;
}

/** The record of a schedule in the store. */
export interface ScheduleState {
  /** The trigger that `handledTo` is of: with another one the schedule starts again from now. */
  trigger: string;
  /** Due times up to this moment were fired or skipped. */
  handledTo: Ms;
  fired: number;
  last?: Firing;
  /** The number of due times that were skipped, and the newest spans of them, oldest first. */
  skipped: number;
  skips: SkippedTimes[];
}
