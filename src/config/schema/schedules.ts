import { z } from "zod";
import { duration, idText, optionalField, withDefault } from "./common.ts";

export const CATCH_UP = ["once", "all", "none"] as const;

export const scheduleSchema = z.strictObject({
  id: idText.describe("The schedule's id. A schedule with another id is a new one."),
  cron: optionalField(
    z.string(),
    "Five fields, such as `30 8 * * MON-FRI`. Either this, `every` or `at`.",
  ),
  every: optionalField(duration, "The time between two firings, at least a second."),
  at: optionalField(
    z.string(),
    "One time, such as `2026-01-31T08:00` or `2026-01-31T08:00:00+01:00`.",
  ),
  timezone: withDefault(
    z.string(),
    "UTC",
    "The time zone of `cron`, and of an `at` without an offset, such as `Europe/Berlin`.",
  ),
  prompt: z.string().describe("What the agent is asked, in the schedule's own session."),
  deliver: optionalField(
    z.union([
      z.literal(false),
      z.strictObject({
        channel: withDefault(z.string(), "last", "The reply's channel."),
        to: optionalField(z.string(), "The recipient on that channel."),
      }),
    ]),
    'The place of the reply; `false`: nowhere. Default: `{ channel: "last" }`.',
  ),
  catchUp: withDefault(
    z.enum(CATCH_UP),
    "once",
    "After times were missed: one firing for all of them, `all` in order (the newest 100), or `none`.",
  ),
});
export type ScheduleConfig = z.output<typeof scheduleSchema>;
