import type { Ms } from "../../store/types.ts";
import type { DueTimes } from "../../vocabulary/schedule-times.ts";
import type { Schedule, ScheduleState, SkippedTimes } from "./types.ts";

/** With `catchUp: "all"` the newest so many missed times are caught up. */
export const MAX_CAUGHT_UP = 100;
/** A firing that is late by so much at most counts as punctual. */
const PUNCTUAL_MS = 60_000;
/** Spans of skipped times that are kept. */
const MAX_SKIPS = 10;
/** A state that is ahead of the clock by more than this was written by a clock that was wrong. */
const MAX_AHEAD_MS = 86_400_000;

/** The next step of a schedule at this moment. */
export type ScheduleStep =
  /** Nothing until `at`; undefined if it is never due again. */
  | { do: "wait"; at: Ms | undefined }
  /** Writes `state`, which skips due times or starts again from now. */
  | { do: "note"; state: ScheduleState }
  /** Fires for `dueAt`, and writes `state` in the same commit. */
  | { do: "fire"; dueAt: Ms; state: ScheduleState };

/** The name of a schedule: `<agent>/<id>`. */
export const getScheduleName = ({ agentId, id }: Pick<Schedule, "agentId" | "id">): string =>
  `${agentId}/${id}`;

/** Makes the state of a schedule that starts now: what was due before is not. */
export function startState(
  { trigger, times }: Schedule,
  now: Ms,
  before?: ScheduleState,
): ScheduleState {
  const { fired = 0, skipped = 0, skips = [], last } = before ?? {};
  const started = {
    trigger: JSON.stringify(trigger),
    handledTo: now,
    fired,
    skipped,
    skips,
    ...(last && { last }),
  };
  const past = "at" in trigger && times.next(now) === undefined ? times.next(0) : undefined;
  if (past === undefined) return started;
  return skip(started, {
    from: past,
    to: past,
    count: 1,
    reason: "was over when the schedule was added",
    at: now,
  });
}

function skip(state: ScheduleState, skipped: SkippedTimes): ScheduleState {
  const { count, to } = skipped;
  return {
    ...state,
    handledTo: to,
    skipped: state.skipped + count,
    skips: [...state.skips, skipped].slice(-MAX_SKIPS),
  };
}

const MISSED: Record<Schedule["catchUp"], string> = {
  once: "missed while no gateway fired it; one firing caught up for all",
  all: `missed while no gateway fired it; only the newest ${MAX_CAUGHT_UP} are caught up`,
  none: 'missed while no gateway fired it; catchUp is "none"',
};

function planReady(
  schedule: Schedule,
  known: ScheduleState,
  { times, count, isMore }: DueTimes,
  now: Ms,
): ScheduleStep {
  const [first, last] = [times[0] ?? now, times.at(-1) ?? now];
  const skipTo = (to: Ms, skipped: number, reason: string): ScheduleState => {
    const from = schedule.times.next(known.handledTo) ?? to;
    return skip(known, {
      from,
      to,
      count: skipped,
      ...(isMore && { isMore: true }),
      reason,
      at: now,
    });
  };
  if (schedule.action.kind === "heartbeat") return fire(schedule, known, last, now);
  if (schedule.catchUp === "once") {
    const before = times.at(-2);
    const state = before === undefined ? known : skipTo(before, count - 1, MISSED.once);
    return fire(schedule, state, last, now);
  }
  const late = schedule.catchUp === "none" ? times.filter((time) => now - time > PUNCTUAL_MS) : [];
  const lastLate = late.at(-1);
  if (lastLate !== undefined)
    return {
      do: "note",
      state: skipTo(lastLate, count - (times.length - late.length), MISSED.none),
    };
  if (count > MAX_CAUGHT_UP)
    return {
      do: "note",
      state: skipTo(times.at(-MAX_CAUGHT_UP - 1) ?? first, count - MAX_CAUGHT_UP, MISSED.all),
    };
  return fire(schedule, known, first, now);
}

/** Decides about the next due times of a schedule. Called until it says to wait. */
export function planStep(
  schedule: Schedule,
  known: ScheduleState | undefined,
  now: Ms,
): ScheduleStep {
  const isOther = known?.trigger !== JSON.stringify(schedule.trigger);
  if (!known || isOther || known.handledTo > now + MAX_AHEAD_MS)
    return { do: "note", state: startState(schedule, now, known) };
  const due = schedule.times.between(known.handledTo, now, MAX_CAUGHT_UP + 1);
  if (due.times.length > 0) return planReady(schedule, known, due, now);
  return { do: "wait", at: schedule.times.next(known.handledTo) };
}

/** Heartbeats count their interval from the last one; every other schedule keeps to its times. */
function fire({ action }: Schedule, state: ScheduleState, dueAt: Ms, now: Ms): ScheduleStep {
  const handledTo = action.kind === "heartbeat" ? now : dueAt;
  return { do: "fire", dueAt, state: { ...state, handledTo, fired: state.fired + 1 } };
}
