import { z } from "zod";
import { agentsSchema, modelsSchema } from "./agents.ts";
import { durationOr, idText, secretSchema } from "./common.ts";
import {
  deliverySchema,
  gatewaySchema,
  logSchema,
  mcpSchema,
  platformSchema,
  storeSchema,
} from "./gateway.ts";
import { hooksSchema } from "./hooks.ts";
import { pluginEntrySchema } from "./plugin-entry.ts";
import { bindingsSchema, ownerSchema, peopleSchema, sessionsSchema } from "./rooms.ts";
import { toolsSchema } from "./tools.ts";
import { LANGUAGES } from "../../vocabulary/phrases.ts";
import { callbackSchema } from "./limits.ts";

const alertsSchema = z
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

const telemetrySchema = z
  .strictObject({
    otlp: z
      .strictObject({
        url: z
          .url({ protocol: /^https?$/ })
          .describe("Address of the collector, such as `http://localhost:4318`."),
        headers: z
          .record(z.string(), secretSchema)
          .default({})
          .describe("Headers of each request, such as a key."),
        serviceName: z.string().min(1).default("rouse").describe("`service.name` of the spans."),
        sampleRatio: z
          .number()
          .min(0)
          .max(1)
          .default(1)
          .describe(
            "The share of traces that is kept. A sender's `traceparent` decides for its own trace.",
          ),
      })
      .optional()
      .describe("Export over OTLP/HTTP, with packages that Rouse does not bring. Read at start."),
  })
  .prefault({})
  .describe("Traces by OpenTelemetry.");

/** Limits for the files of one message. */
const attachmentsSchema = z
  .strictObject({
    maxBytes: z.int().positive().default(20_000_000).describe("The largest file, in bytes."),
    timeout: durationOr("60s").describe("Time for fetching one file, with retries."),
  })
  .prefault({})
  .describe("Files that people send on channels.");

const languageSchema = z
  .enum(LANGUAGES)
  .optional()
  .describe(
    "The language of Rouse's own messages if the channel does not tell it. Default: English.",
  );

const threadsSchema = z
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

const transcriptionSchema = z
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

const runsSchema = z
  .strictObject({
    maxAge: durationOr("24h").describe(
      "How long a run of a hook or a heartbeat is retried while its model gives no answer, before it is `failed`. Waits for a person or a limit do not count.",
    ),
    messageMaxAge: durationOr("15m").describe(
      "The same for a message of a channel, whose sender then gets an apology.",
    ),
  })
  .prefault({})
  .describe("How long runs are retried while a model gives no answer.");

const pluginNames = z.array(pluginEntrySchema);
const pluginsSchema = z
  .union([
    pluginNames,
    z.strictObject({
      load: pluginNames.default([]).describe("Further plugins: paths or package names."),
      settings: z
        .record(z.string(), z.unknown())
        .default({})
        .describe("Sections of plugins without a channel, by the plugin's id."),
    }),
  ])
  .default([])
  .describe(
    "Further plugins: paths, package names, or packages with version and integrity as `rouse plugins add` writes them. Or `{ load, settings }`.",
  );

/**
 * The whole config file. The one source of its types, defaults and documentation.
 * `channels.<id>`, `plugins.settings.<id>` and unknown members of `hooks` belong to plugins, which check them with their own schemas.
 */
export const configSchema = z.strictObject({
  $schema: z.string().optional().describe("For editors."),
  gateway: gatewaySchema,
  hooks: hooksSchema,
  agents: agentsSchema,
  models: modelsSchema,
  channels: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Channel plugins by id, each with its own section."),
  owner: ownerSchema,
  people: peopleSchema,
  sessions: sessionsSchema.describe(
    "Which conversation a direct message joins, and which messages are answered together.",
  ),
  bindings: bindingsSchema,
  language: languageSchema,
  attachments: attachmentsSchema,
  threads: threadsSchema,
  transcription: transcriptionSchema,
  platform: platformSchema,
  mcp: mcpSchema,
  tools: toolsSchema,
  plugins: pluginsSchema,
  store: storeSchema,
  runs: runsSchema,
  delivery: deliverySchema,
  alerts: alertsSchema,
  stateDir: z
    .string()
    .optional()
    .describe("Folder of everything Rouse keeps. Default: `.rouse` beside the config."),
  log: logSchema,
  telemetry: telemetrySchema,
});

/** A config with all defaults filled in; durations are milliseconds. */
export type Config = z.output<typeof configSchema>;
/** A config as it is written in the file. */
export type ConfigInput = z.input<typeof configSchema>;
export type AgentConfig = Config["agents"]["list"][number];
