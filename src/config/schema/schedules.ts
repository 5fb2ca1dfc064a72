import { z } from "zod";
import { duration, idText } from "./common.ts";

export const CATCH_UP = ["once", "all", "none"] as const;

export const scheduleSchema = z.strictObject({
  id: idText.describe("The schedule's id. A schedule with another id is a new one."),
  cron: z
    .string()
    .optional()
    .describe("Five fields, such as `30 8 * * MON-FRI`. Either this, `every` or `at`."),
  every: duration.optional().describe("The time between two firings, at least a second."),
  at: z
    .string()
    .optional()
    .describe("One time, such as `2026-01-31T08:00` or `2026-01-31T08:00:00+01:00`."),
  timezone: z
    .string()
    .default("UTC")
    .describe(
      "The time zone of `cron`, and of an `at` without an offset, such as `Europe/Berlin`.",
    ),
  prompt: z.string().describe("What the agent is asked, in the schedule's own session."),
  deliver: z
    .union([
      z.literal(false),
      z.strictObject({
        channel: z.string().default("last").describe("The reply's channel."),
        to: z.string().optional().describe("The recipient on that channel."),
      }),
    ])
    .optional()
    .describe('The place of the reply; `false`: nowhere. Default: `{ channel: "last" }`.'),
  catchUp: z
    .enum(CATCH_UP)
    .default("once")
    .describe(
      "After times were missed: one firing for all of them, `all` in order (the newest 100), or `none`.",
    ),
});
export type ScheduleConfig = z.output<typeof scheduleSchema>;
