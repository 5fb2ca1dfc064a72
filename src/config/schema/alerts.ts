import { z } from "zod";
import { callbackSchema } from "./limits.ts";

export const alertsSchema = z
  .strictObject({
    failures: z
      .strictObject({
        channel: z.string().min(1).optional().describe("The channel that gets a message."),
        to: z
          .string()
          .min(1)
          .optional()
          .describe("Who gets it there. Default: the channel's `defaultTo`."),
        callback: callbackSchema
          .extend({
            url: callbackSchema.shape.url.describe(
              "The address; its host must be in hooks.callbackHosts.",
            ),
          })
          .optional()
          .describe("Post the group to an address, signed as receipts are."),
      })
      .prefault({})
      .describe(
        "Reports failures: once for each group, again if a resolved one comes back, and once a day for each path whose requests are rejected and not sent again.",
      ),
  })
  .prefault({})
  .describe("What is reported without being asked for.");
