import { Cron, type CronOptions } from "croner";
import { isImpossibleDay } from "../core/clock.ts";

/** When a schedule fires. `timezone` is an IANA name. */
export type Trigger =
  | { cron: string; timezone: string }
  | { everyMs: number }
  | { at: string; timezone: string };

/** Due times: the newest of a span, oldest first, and how many the span has. */
export interface DueTimes {
  times: number[];
  count: number;
  /** True if the span has more than `count`: counting ended early. */
  isMore: boolean;
}

/** The due times of a trigger, in milliseconds since the epoch. */
export interface ScheduleTimes {
  /** Returns the first due time after `after`. With `every` that is one interval later. Undefined if there is none. */
  next(after: number): number | undefined;
  /** Returns the newest `limit` due times after `after` and up to `upTo`. */
  between(after: number, upTo: number, limit: number): DueTimes;
}

export type ParsedTrigger =
  | { ok: true; times: ScheduleTimes }
  | { ok: false; field: "cron" | "at" | "timezone"; message: string };

const OPTIONS = { mode: "5-part", fixedTimeRule: "no-wildcard" } as const satisfies CronOptions;
/** Due times that one call counts: a schedule of every minute has 525,600 a year. */
const MAX_COUNTED = 500;
/** A schedule that is not due within this time is never due: the rarest day, 29 February, comes within eight years. */
const HORIZON_MS = 10 * 366 * 86_400_000;

/** Lists the values of a field without its wildcards and steps; undefined if it has something else, such as `L`. */
function expandField(field: string, last: number): string | undefined {
  const values: number[] = [];
  for (const part of field.split(",")) {
    const found = /^(?:(\*)|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/.exec(part);
    if (!found) return undefined;
    const [, star, from = "0", to, step = "1"] = found;
    const end = star ? last : Number(to ?? from);
    for (let value = Number(from); value <= end; value += Number(step)) values.push(value);
  }
  return [...new Set(values)].toSorted((a, b) => a - b).join(",");
}

/**
 * Writes out minutes and hours unless the hour is `*`: the library treats lists as fixed local times, which are skipped or
 * repeated by no change of the clock, and steps as intervals.
 */
function toFixedTimes(cron: string): string {
  const [minute = "", hour = "", ...days] = cron.trim().split(/\s+/);
  if (days.length !== 3 || hour === "*" || hour === "*/1") return cron;
  return [expandField(minute, 59) ?? minute, expandField(hour, 23) ?? hour, ...days].join(" ");
}

function findTimezoneProblem(timezone: string): string | undefined {
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
    return undefined;
  } catch {
    return 'is no time zone: use a name of the IANA database such as "Europe/Berlin", or "UTC"';
  }
}

/** Counts due times by their `next`. A span with too many is cut to its end. */
function countTimes(
  next: ScheduleTimes["next"],
  after: number,
  upTo: number,
  limit: number,
): DueTimes {
  const times: number[] = [];
  for (let time = next(after); time !== undefined && time <= upTo; time = next(time)) {
    times.push(time);
    if (times.length > MAX_COUNTED) {
      const later = countTimes(next, after + Math.ceil((upTo - after) / 2), upTo, limit);
      return { ...later, count: Math.max(later.count, MAX_COUNTED), isMore: true };
    }
  }
  return { times: times.slice(-limit), count: times.length, isMore: false };
}

function toTimes(next: ScheduleTimes["next"]): { ok: true; times: ScheduleTimes } {
  return {
    ok: true,
    times: { next, between: (after, upTo, limit) => countTimes(next, after, upTo, limit) },
  };
}

function parseEvery(everyMs: number): { ok: true; times: ScheduleTimes } {
  return {
    ok: true,
    times: {
      next: (after) => after + everyMs,
      between(after, upTo, limit) {
        const count = Math.max(0, Math.floor((upTo - after) / everyMs));
        const first = Math.max(0, count - limit);
        return {
          times: Array.from({ length: count - first }, (_, n) => after + (first + n + 1) * everyMs),
          count,
          isMore: false,
        };
      },
    },
  };
}

/** Returns the message of the library's error without its name: `CronPattern: …`. It counts days and months from 0. */
const explain = (error: unknown): string =>
  (error as Error).message
    .replace(/^Cron\w+: /, "")
    .replace(/^Invalid value for (\w+): .*/, "a value of the field `$1` is out of its range");

function parseCron(cron: string, timezone: string): ParsedTrigger {
  const wrong = (message: string): ParsedTrigger => ({ ok: false, field: "cron", message });
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== 5 || cron.includes("?"))
    return wrong(
      'must have five fields: minute, hour, day of the month, month and day of the week, such as "30 8 * * MON-FRI"',
    );
  try {
    // The expression as it is written: what is written out below must not hide what is wrong with it.
    new Cron(cron, { ...OPTIONS, timezone });
    const job = new Cron(toFixedTimes(cron), { ...OPTIONS, timezone });
    const next = (after: number): number | undefined => job.nextRun(new Date(after))?.getTime();
    const first = next(Date.UTC(2024, 0, 1));
    if (first === undefined || first > Date.UTC(2024, 0, 1) + HORIZON_MS)
      return wrong("is never due: no day has this date");
    return toTimes(next);
  } catch (error) {
    return wrong(`is no cron expression: ${explain(error)}`);
  }
}

const LOCAL = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?$/;
const ZONED = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/;
const AT = 'must be a time such as "2026-01-31T08:00" or "2026-01-31T08:00:00+01:00"';

/** Reads a time without a zone as one of the time zone, by the rules of a cron expression. */
function parseLocal(at: string, timezone: string): number | undefined {
  const [, year = "", month = "", day = "", hour = "00", minute = "00", second = "00"] =
    LOCAL.exec(at) ?? [];
  // Dates that no calendar has, such as 31 April.
  const written = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(written.getTime()) || written.getUTCDate() !== Number(day)) return undefined;
  const pattern = [second, minute, hour, day, month, "*", year]
    .map((part) => (part === "*" ? part : String(Number(part))))
    .join(" ");
  const job = new Cron(pattern, { ...OPTIONS, mode: "7-part", timezone });
  return job.nextRun(new Date(written.getTime() - 2 * 86_400_000))?.getTime();
}

function parseAt(at: string, timezone: string): ParsedTrigger {
  const time = ZONED.test(at) ? Date.parse(at) : parseLocal(at, timezone);
  if (time === undefined || Number.isNaN(time) || isImpossibleDay(at))
    return { ok: false, field: "at", message: AT };
  return toTimes((after) => (time > after ? time : undefined));
}

/**
 * Parses when a schedule fires. A local time that is skipped when clocks are set forward is due at the first moment after the
 * gap, and one that is repeated when clocks are set back is due the first time. Only a cron expression whose hour is `*` is
 * due by the time that passes.
 */
export function parseTrigger(trigger: Trigger): ParsedTrigger {
  if ("everyMs" in trigger) return parseEvery(trigger.everyMs);
  const problem = findTimezoneProblem(trigger.timezone);
  if (problem !== undefined) return { ok: false, field: "timezone", message: problem };
  return "cron" in trigger
    ? parseCron(trigger.cron, trigger.timezone)
    : parseAt(trigger.at, trigger.timezone);
}
