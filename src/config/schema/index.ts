import { z } from "zod";
import { agentsSchema, modelsSchema } from "./agents.ts";
import {
  durationOr,
  switchField,
  idText,
  optionalField,
  optionalSection,
  positive,
  secretSchema,
  section,
  text,
  withDefault,
} from "./common.ts";
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

const alertsSchema = section("What is reported without being asked for.", {
  failures: section(
    "Reports failures: once for each group, again if a resolved one comes back, and once a day for each path whose requests are rejected and not sent again.",
    {
      channel: optionalField(text, "The channel that gets a message."),
      to: optionalField(text, "Who gets it there. Default: the channel's `defaultTo`."),
      callback: optionalField(
        callbackSchema,
        "Post the group to an address, signed as receipts are.",
      ),
    },
  ),
});

const telemetrySchema = section("Traces by OpenTelemetry.", {
  otlp: optionalSection(
    "Export over OTLP/HTTP, with packages that Rouse does not bring. Read at start.",
    {
      url: z
        .url({ protocol: /^https?$/ })
        .describe("Address of the collector, such as `http://localhost:4318`."),
      headers: withDefault(
        z.record(z.string(), secretSchema),
        {},
        "Headers of each request, such as a key.",
      ),
      serviceName: withDefault(text, "rouse", "`service.name` of the spans."),
      sampleRatio: withDefault(
        z.number().min(0).max(1),
        1,
        "The share of traces that is kept. A sender's `traceparent` decides for its own trace.",
      ),
    },
  ),
});

/** Limits for the files of one message. */
const attachmentsSchema = section("Files that people send on channels.", {
  maxBytes: withDefault(positive, 20_000_000, "The largest file, in bytes."),
  timeout: durationOr("60s").describe("Time for fetching one file, with retries."),
});

const languageSchema = optionalField(
  z.enum(LANGUAGES),
  "The language of Rouse's own messages if the channel does not tell it. Default: English.",
);

const threadsSchema = section("Threads of groups and channels.", {
  follow: switchField("Continue a thread in which the agent has answered without a mention.", true),
  messages: withDefault(
    z.int().min(0).max(100),
    20,
    "Earlier messages of a thread that the agent gets.",
  ),
});

const transcriptionSchema = optionalSection(
  "The model that transcribes voice messages, by `POST /audio/transcriptions`.",
  {
    provider: idText.describe(
      "One of `models.providers`, of type `openai` or `openai-compatible`.",
    ),
    model: text.describe("The provider's name of the model, such as `whisper-1`."),
    language: optionalField(
      z.string().regex(/^[a-z]{2,3}$/, "write a language as ISO 639 does, such as `en`"),
      "The spoken language. Default: the model finds out.",
    ),
  },
);

const runsSchema = section("How long runs are retried while a model gives no answer.", {
  maxAge: durationOr("24h").describe(
    "How long a run of a hook or a heartbeat is retried while its model gives no answer, before it is `failed`. Waits for a person or a limit do not count.",
  ),
  messageMaxAge: durationOr("15m").describe(
    "The same for a message of a channel, whose sender then gets an apology.",
  ),
});

const pluginNames = z.array(pluginEntrySchema);
const pluginsSchema = withDefault(
  z.union([
    pluginNames,
    z.strictObject({
      load: withDefault(pluginNames, [], "Further plugins: paths or package names."),
      settings: withDefault(
        z.record(z.string(), z.unknown()),
        {},
        "Sections of plugins without a channel, by the plugin's id.",
      ),
    }),
  ]),
  [],
  "Further plugins: paths, package names, or packages with version and integrity as `rouse plugins add` writes them. Or `{ load, settings }`.",
);

/**
 * The whole config file. The one source of its types, defaults and documentation.
 * `channels.<id>`, `plugins.settings.<id>` and unknown members of `hooks` belong to plugins, which check them with their own schemas.
 */
export const configSchema = z.strictObject({
  $schema: optionalField(z.string(), "For editors."),
  gateway: gatewaySchema,
  hooks: hooksSchema,
  agents: agentsSchema,
  models: modelsSchema,
  channels: withDefault(
    z.record(z.string(), z.unknown()),
    {},
    "Channel plugins by id, each with its own section.",
  ),
  owner: ownerSchema,
  people: peopleSchema,
  sessions: sessionsSchema,
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
  stateDir: optionalField(
    z.string(),
    "Folder of everything Rouse keeps. Default: `.rouse` beside the config.",
  ),
  log: logSchema,
  telemetry: telemetrySchema,
});

/** A config with all defaults filled in; durations are milliseconds. */
export type Config = z.output<typeof configSchema>;
/** A config as it is written in the file. */
export type ConfigInput = z.input<typeof configSchema>;
export type AgentConfig = Config["agents"]["list"][number];
