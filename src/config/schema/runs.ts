import { z } from "zod";
import { durationOr } from "./common.ts";

export const runsSchema = z
  .strictObject({
    maxAge: durationOr("24h").describe(
      "A run of a hook or a heartbeat whose model gives no answer is retried for so long after it was made, then it ends as `failed`. Time in which it waits for a person or for a limit does not count.",
    ),
    messageMaxAge: durationOr("15m").describe(
      "The same for a message of a channel, whose sender then gets an apology.",
    ),
  })
  .prefault({})
  .describe("How long runs are retried while a model gives no answer.");
