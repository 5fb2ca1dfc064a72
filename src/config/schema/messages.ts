import { z } from "zod";
import { LANGUAGES } from "../../core/phrases.ts";
import { durationOr, idText } from "./common.ts";

/** What the files of one message may take. */
export const attachmentsSchema = z
  .strictObject({
    maxFiles: z
      .int()
      .min(0)
      .max(50)
      .default(8)
      .describe("Files of one message whose content the agent gets; the rest is only named."),
    maxBytes: z.int().positive().default(20_000_000).describe("The largest file, in bytes."),
    maxImageBytes: z.int().positive().default(8_000_000).describe("The largest image, in bytes."),
    maxPages: z.int().positive().default(200).describe("Pages, slides or sheets of one document."),
    maxChars: z
      .int()
      .positive()
      .default(60_000)
      .describe("Characters of text that one file adds to the message; a longer text is cut."),
    timeout: durationOr("60s").describe(
      "How long the fetching of one file may take, further tries included.",
    ),
    outgoing: z
      .strictObject({
        maxFiles: z
          .int()
          .min(0)
          .max(20)
          .default(5)
          .describe("Files that an agent may attach to one reply with `rouse.send_file`."),
        maxBytes: z
          .int()
          .positive()
          .max(20_000_000)
          .default(5_000_000)
          .describe("The largest file that an agent may send, in bytes."),
      })
      .prefault({})
      .describe("Files that agents send."),
  })
  .prefault({})
  .describe("Files that people send on channels, and files that agents send.");

export const languageSchema = z
  .enum(LANGUAGES)
  .optional()
  .describe(
    "The language of what Rouse itself says to people whose channel does not tell their language, such as questions about approvals. Default: English.",
  );

export const threadsSchema = z
  .strictObject({
    follow: z
      .boolean()
      .default(true)
      .describe("Whether a thread in which the agent has answered goes on without a mention."),
    messages: z
      .int()
      .min(0)
      .max(100)
      .default(20)
      .describe(
        "Earlier messages of a thread that the agent gets when it is called into it. 0: none.",
      ),
  })
  .prefault({})
  .describe("Threads of groups and channels.");

export const transcriptionSchema = z
  .strictObject({
    provider: idText.describe(
      "One of `models.providers`, of type `openai` or `openai-compatible`.",
    ),
    model: z
      .string()
      .min(1)
      .describe("The provider's name of the model that transcribes, such as `whisper-1`."),
    language: z
      .string()
      .regex(/^[a-z]{2,3}$/, "write a language as ISO 639 does, such as `en`")
      .optional()
      .describe("The language that people speak. Default: the model finds out."),
  })
  .optional()
  .describe(
    "What transcribes voice messages, by `POST /audio/transcriptions`. Not set: the agent gets a note in place of the words.",
  );
