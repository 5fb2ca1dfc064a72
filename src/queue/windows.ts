import {
  DAY_WINDOW,
  HOUR_WINDOW,
  MICRO,
  type Counted,
  type Ms,
  type Window,
} from "../store/types.ts";
import type { BudgetStatus } from "./types.ts";

/** When a bucket counts no more. */
const getEnd = ({ lengthMs, widthMs }: Window, at: Ms): Ms => at + widthMs + lengthMs;

/** Starts within the last hour: a bucket counts until its last moment is an hour old. */
export const sumStarts = (hour: Counted["hour"], now: Ms): number =>
  hour.reduce((sum, { at, starts }) => (getEnd(HOUR_WINDOW, at) > now ? sum + starts : sum), 0);

/** Tokens, or millionths of a dollar, within the last day. */
export const sumDay = (day: Counted["day"], name: "tokens" | "micros", now: Ms): number =>
  day.reduce((sum, bucket) => (getEnd(DAY_WINDOW, bucket.at) > now ? sum + bucket[name] : sum), 0);

/**
 * Forecasts when one more run may start, if `ahead` others start as soon as they may and at most `limit` within an hour;
 * undefined: now.
 */
export function forecastStart(
  hour: Counted["hour"],
  limit: number,
  ahead: number,
  now: Ms,
): Ms | undefined {
  const counted = hour.filter(({ at }) => getEnd(HOUR_WINDOW, at) > now);
  const total = counted.reduce((sum, { starts }) => sum + starts, 0);
  /** Of the starts that have to be out of the window first. */
  const nth = total + ahead - limit + 1;
  if (nth <= 0) return undefined;
  const rounds = nth <= total ? 0 : Math.floor((nth - 1) / limit);
  let left = nth <= total ? nth : ((nth - 1) % limit) + 1;
  for (const { at, starts } of counted) {
    left -= starts;
    if (left <= 0) return getEnd(HOUR_WINDOW, at) + rounds * HOUR_WINDOW.lengthMs;
  }
  // Those ahead take what is free now.
  return now + (rounds + 1) * HOUR_WINDOW.lengthMs;
}

/** When what was used within a day falls below `limit` again; undefined if nothing was used. */
export function findDayFree(
  day: Counted["day"],
  name: "tokens" | "micros",
  limit: number,
  now: Ms,
): Ms | undefined {
  let left = sumDay(day, name, now);
  for (const bucket of day) {
    const end = getEnd(DAY_WINDOW, bucket.at);
    if (end > now && (left -= bucket[name]) < limit) return end;
  }
  return undefined;
}

/** The counts of a budget that is not counted yet. */
const NOTHING: Counted = { running: 0, waiting: 0, parked: 0, inLine: 0, hour: [], day: [] };

/** Adds up what is counted of a budget, for people to read. */
export function sumUp({ hour, day, running, waiting }: Counted = NOTHING, now: Ms): BudgetStatus {
  return {
    startedLastHour: sumStarts(hour, now),
    running,
    waiting,
    tokensLastDay: sumDay(day, "tokens", now),
    costLastDay: sumDay(day, "micros", now) / MICRO,
  };
}
