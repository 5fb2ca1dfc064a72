import { z } from "zod";
import { alertsSchema } from "./alerts.ts";
import { agentsSchema, modelsSchema } from "./agents.ts";
import { durationOr } from "./common.ts";
import {
  deliverySchema,
  gatewaySchema,
  logSchema,
  mcpSchema,
  platformSchema,
  storeSchema,
} from "./gateway.ts";
import {
  attachmentsSchema,
  languageSchema,
  threadsSchema,
  transcriptionSchema,
} from "./messages.ts";
import { hooksSchema } from "./hooks.ts";
import { pluginEntrySchema } from "./plugin-entry.ts";
import { bindingsSchema, ownerSchema, peopleSchema, sessionsSchema } from "./rooms.ts";
import { telemetrySchema } from "./telemetry.ts";
import { toolsSchema } from "./tools.ts";

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
