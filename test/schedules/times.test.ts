import { describe, expect, it } from "vitest";
import { parseTrigger, type Trigger } from "../../src/vocabulary/schedule-times.ts";

/** The first due times after a moment. */
function list(trigger: Trigger, after: string, count: number): string[] {
  const parsed = parseTrigger(trigger);
  if (!parsed.ok) throw new Error(`${parsed.field}: ${parsed.message}`);
  const times: string[] = [];
  for (
    let at = parsed.times.next(Date.parse(after));
    at !== undefined && times.length < count;
    at = parsed.times.next(at)
  )
    times.push(new Date(at).toISOString().slice(0, 16));
  return times;
}

const BERLIN = "Europe/Berlin";
const NEW_YORK = "America/New_York";
const LORD_HOWE = "Australia/Lord_Howe";

describe("local times that clocks skip", () => {
  it.each([
    ["30 2 * * *", BERLIN, "2026-03-28T12:00Z", ["2026-03-29T01:00", "2026-03-30T00:30"]],
    [
      "0,30 2 * * *",
      BERLIN,
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T00:30"],
    ],
    [
      "*/30 2 * * *",
      BERLIN,
      "2026-03-28T12:00Z",
      ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T00:30"],
    ],
    [
      "15 1-3 * * *",
      BERLIN,
      "2026-03-28T12:00Z",
      ["2026-03-29T00:15", "2026-03-29T01:00", "2026-03-29T01:15", "2026-03-29T23:15"],
    ],
    [
      "0 */2 * * *",
      BERLIN,
      "2026-03-28T22:30Z",
      ["2026-03-28T23:00", "2026-03-29T01:00", "2026-03-29T02:00"],
    ],
    ["45 2 * * *", NEW_YORK, "2026-03-07T12:00Z", ["2026-03-08T07:00", "2026-03-09T06:45"]],
    ["15 2 * * *", LORD_HOWE, "2026-10-03T12:00Z", ["2026-10-03T15:30", "2026-10-04T15:15"]],
  ])(
    "%s in %s are due once, at the first moment after the gap",
    (cron, timezone, after, expected) => {
      expect(list({ cron, timezone }, after, expected.length)).toEqual(expected);
    },
  );
});

describe("local times that clocks repeat", () => {
  it.each([
    ["30 2 * * *", BERLIN, "2026-10-24T12:00Z", ["2026-10-25T00:30", "2026-10-26T01:30"]],
    [
      "*/30 2 * * *",
      BERLIN,
      "2026-10-24T12:00Z",
      ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-26T01:00"],
    ],
    ["30 1 * * *", NEW_YORK, "2026-10-31T12:00Z", ["2026-11-01T05:30", "2026-11-02T06:30"]],
    ["45 1 * * *", LORD_HOWE, "2026-04-04T12:00Z", ["2026-04-04T14:45", "2026-04-05T15:15"]],
  ])("%s in %s are due once, the first time", (cron, timezone, after, expected) => {
    expect(list({ cron, timezone }, after, expected.length)).toEqual(expected);
  });
});

describe("an hour that is `*`", () => {
  it.each([
    [
      "0 * * * *",
      BERLIN,
      "2026-10-24T23:30Z",
      ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"],
    ],
    ["0 * * * *", BERLIN, "2026-03-29T00:30Z", ["2026-03-29T01:00", "2026-03-29T02:00"]],
    [
      "*/15 * * * *",
      LORD_HOWE,
      "2026-04-04T14:40Z",
      ["2026-04-04T14:45", "2026-04-04T15:00", "2026-04-04T15:15"],
    ],
  ])("%s in %s is due by the time that passes", (cron, timezone, after, expected) => {
    expect(list({ cron, timezone }, after, expected.length)).toEqual(expected);
  });
});

describe("`at`", () => {
  it.each([
    ["2026-03-29T02:30", BERLIN, "2026-03-29T01:00"],
    ["2026-10-25T02:30", BERLIN, "2026-10-25T00:30"],
    ["2026-01-31T08:00", NEW_YORK, "2026-01-31T13:00"],
    ["2026-01-31T08:00:00+09:00", BERLIN, "2026-01-30T23:00"],
    ["2026-01-31", "UTC", "2026-01-31T00:00"],
  ])("%s in %s is one moment", (at, timezone, expected) => {
    expect(list({ at, timezone }, "2025-01-01T00:00Z", 2)).toEqual([expected]);
  });
});

describe("what is no time", () => {
  it.each([
    [
      { cron: "61 * * * *", timezone: "UTC" },
      "cron",
      "a value of the field `minute` is out of its range",
    ],
    [
      { cron: "0 12 32 * *", timezone: "UTC" },
      "cron",
      "a value of the field `day` is out of its range",
    ],
    [{ cron: "0 12 31 2 *", timezone: "UTC" }, "cron", "is never due: no day has this date"],
    [{ cron: "* * * *", timezone: "UTC" }, "cron", "must have five fields"],
    [{ cron: "@daily", timezone: "UTC" }, "cron", "must have five fields"],
    [{ cron: "0 0 * * ?", timezone: "UTC" }, "cron", "must have five fields"],
    [{ cron: "x 0 * * *", timezone: "UTC" }, "cron", "illegal characters"],
    [{ cron: "0 8 * * *", timezone: "Mars/Olympus" }, "timezone", "is no time zone"],
    [{ at: "2026-04-31T08:00", timezone: "UTC" }, "at", "must be a time such as"],
    [{ at: "2026-02-30T08:00:00Z", timezone: "UTC" }, "at", "must be a time such as"],
    [{ at: "tomorrow", timezone: "UTC" }, "at", "must be a time such as"],
  ] as const)("%j is refused with its field and the reason", (trigger, field, message) => {
    expect(parseTrigger(trigger)).toEqual({
      ok: false,
      field,
      message: expect.stringContaining(message),
    });
  });
});

it("schedules: the times of a long span are counted without a look at each of them", () => {
  const parsed = parseTrigger({ cron: "* * * * *", timezone: BERLIN });
  if (!parsed.ok) throw new Error(parsed.message);
  const due = parsed.times.between(Date.UTC(2025, 0, 1), Date.UTC(2026, 0, 1), 2);
  expect(due).toMatchObject({
    times: [Date.UTC(2025, 11, 31, 23, 59), Date.UTC(2026, 0, 1)],
    isMore: true,
  });
});
