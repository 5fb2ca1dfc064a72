import { z } from "zod";
import { LANGUAGES } from "../../vocabulary/phrases.ts";
import { durationOr, idText } from "./common.ts";

/** Limits for the files of one message. */
export const attachmentsSchema = z
  .strictObject({
    maxBytes: z.int().positive().default(20_000_000).describe("The largest file, in bytes."),
    timeout: durationOr("60s").describe("Time for fetching one file, with retries."),
  })
  .prefault({})
  .describe("Files that people send on channels.");

export const languageSchema = z
  .enum(LANGUAGES)
  .optional()
  .describe(
    "The language of Rouse's own messages if the channel does not tell it. Default: English.",
  );

export const threadsSchema = z
  .strictObject({
    follow: z
      .boolean()
      .default(true)
      .describe("Continue a thread in which the agent has answered without a mention."),
    messages: z
      .int()
      .min(0)
      .max(100)
      .default(20)
      .describe("Earlier messages of a thread that the agent gets."),
  })
  .prefault({})
  .describe("Threads of groups and channels.");

export const transcriptionSchema = z
  .strictObject({
    provider: idText.describe(
      "One of `models.providers`, of type `openai` or `openai-compatible`.",
    ),
    model: z.string().min(1).describe("The provider's name of the model, such as `whisper-1`."),
    language: z
      .string()
      .regex(/^[a-z]{2,3}$/, "write a language as ISO 639 does, such as `en`")
      .optional()
      .describe("The spoken language. Default: the model finds out."),
  })
  .optional()
  .describe("The model that transcribes voice messages, by `POST /audio/transcriptions`.");
