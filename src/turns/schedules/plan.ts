import { createHash } from "node:crypto";
import type { Ms } from "../../store/types.ts";
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

/** Returns the time between a due time and the one after it. */
const getGap = ({ times }: Schedule, dueAt: Ms): Ms => (times.next(dueAt) ?? Infinity) - dueAt;

/** Returns the delay of a firing: the same at every gateway. It ends before the next due time, so that firings keep their order. */
function getDelay(schedule: Schedule, dueAt: Ms): Ms {
  if (schedule.jitterMs < 1) return 0;
  const digest = createHash("sha256")
    .update(`${getScheduleName(schedule)} ${dueAt}`)
    .digest();
  return Math.floor(
    (digest.readUInt32BE() / 2 ** 32) * Math.min(schedule.jitterMs, getGap(schedule, dueAt)),
  );
}

/** Returns when a schedule fires for a due time. */
export const getFireTime = (schedule: Schedule, dueAt: Ms): Ms => dueAt + getDelay(schedule, dueAt);

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

/** Due times that would fire by now, oldest first. `count` includes older ones, which are not listed. */
interface ReadyTimes {
  times: readonly Ms[];
  count: number;
  isMore: boolean;
}

/**
 * Returns the place of the time that fires for all missed ones before it: the last one, or the first that was not missed. Delays
 * bring firings close together; a time is missed only if its own firing is late.
 */
function findCaughtUp(schedule: Schedule, times: readonly Ms[], now: Ms): number {
  const isMissed = (time: Ms): boolean =>
    now - getFireTime(schedule, time) >= Math.min(PUNCTUAL_MS, getGap(schedule, time));
  return Math.min(times.findLastIndex(isMissed) + 1, times.length - 1);
}

function planReady(
  schedule: Schedule,
  known: ScheduleState,
  ready: ReadyTimes,
  now: Ms,
  isPaused: boolean,
): ScheduleStep {
  const { times, count, isMore } = ready;
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
  if (isPaused) return { do: "note", state: skipTo(last, count, "the schedule was paused") };
  if (schedule.action.kind === "heartbeat") return fire(schedule, known, last, now);
  if (schedule.catchUp === "once") {
    const caughtUp = findCaughtUp(schedule, times, now);
    const before = times[caughtUp - 1];
    const state =
      before === undefined ? known : skipTo(before, count - (times.length - caughtUp), MISSED.once);
    return fire(schedule, state, times[caughtUp] ?? last, now);
  }
  const late =
    schedule.catchUp === "none"
      ? times.filter((time) => now - getFireTime(schedule, time) > PUNCTUAL_MS)
      : [];
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
  isPaused: boolean,
): ScheduleStep {
  const isOther = known?.trigger !== JSON.stringify(schedule.trigger);
  if (!known || isOther || known.handledTo > now + MAX_AHEAD_MS)
    return { do: "note", state: startState(schedule, now, known) };
  const due = schedule.times.between(known.handledTo, now, MAX_CAUGHT_UP + 1);
  const waiting = due.times.findIndex((time) => getFireTime(schedule, time) > now);
  const times = waiting < 0 ? due.times : due.times.slice(0, waiting);
  if (times.length > 0)
    return planReady(
      schedule,
      known,
      { ...due, times, count: due.count - (due.times.length - times.length) },
      now,
      isPaused,
    );
  const next = due.times[0] ?? schedule.times.next(known.handledTo);
  return { do: "wait", at: next === undefined ? undefined : getFireTime(schedule, next) };
}

/** Heartbeats count their interval from the last one; every other schedule keeps to its times. */
function fire({ action }: Schedule, state: ScheduleState, dueAt: Ms, now: Ms): ScheduleStep {
  const handledTo = action.kind === "heartbeat" ? now : dueAt;
  return { do: "fire", dueAt, state: { ...state, handledTo, fired: state.fired + 1 } };
}
