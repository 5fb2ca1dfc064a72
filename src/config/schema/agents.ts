import { z } from "zod";
import {
  duration,
  durationOr,
  switchField,
  idText,
  list,
  optionalField,
  positive,
  secretSchema,
  section,
  thinking,
  withDefault,
} from "./common.ts";
import { scheduleSchema } from "./schedules.ts";
import { approve } from "./tools.ts";

/** A model by its name, or with the models that are asked in turn if it gives no answer. */
const modelChoice = z.union([
  z.string(),
  z.strictObject({
    primary: z.string().describe("The model that is asked first."),
    fallbacks: withDefault(
      z.array(z.string()).max(8),
      [],
      "Models that are asked next if one gives no answer.",
    ),
  }),
]);
export type ModelChoice = z.output<typeof modelChoice>;

const heartbeatFields = {
  channel: z.string().describe("Where a heartbeat's reply goes."),
  to: optionalField(z.string(), "The recipient on that channel."),
  model: optionalField(z.string(), "The model of heartbeats; default the agent's."),
  instructions: optionalField(z.string(), "Added to the agent's instructions in a heartbeat."),
};
const EVERY = "Time between periodic heartbeats; 0 stops them, wakes still work.";

const heartbeatSchema = section("Turns of a main session about its system events.", {
  ...heartbeatFields,
  every: durationOr("30m").describe(EVERY),
  ackMaxChars: withDefault(
    z.int().min(0),
    300,
    "A reply with HEARTBEAT_OK and at most so much other text is dropped.",
  ),
  channel: heartbeatFields.channel.default("last"),
});

/** The heartbeat of one agent: what it leaves out is that of the defaults. */
const ownHeartbeatSchema = z
  .strictObject({
    ...heartbeatFields,
    every: optionalField(duration, EVERY),
    channel: heartbeatFields.channel.optional(),
  })
  .describe("Changes `agents.defaults.heartbeat` for this agent.");

export const agentSchema = z.strictObject({
  id: idText.describe("The agent's id."),
  name: optionalField(z.string(), "The name people see."),
  description: optionalField(z.string(), "One line about what the agent does."),
  instructions: optionalField(z.string(), "The agent's own instructions."),
  model: optionalField(
    modelChoice,
    "`<provider>/<model>` or an alias, or `{ primary, fallbacks: [...] }`; default `agents.defaults.model`.",
  ),
  thinking: optionalField(thinking, "How much the model thinks before it answers."),
  tools: list(
    z.string(),
    "Tools the agent may use: `<server>.<tool>`, with the name of an MCP server or a plugin; `*` stands for any characters (`crm.*`), `!` takes away (`!crm.delete_*`). In hook runs and heartbeats only those that `hooks.tools` or the mapping names too.",
  ),
  approve: optionalField(
    approve,
    "Calls that wait for a person. Default: `agents.defaults.approve`.",
  ),
  knowledge: withDefault(
    z.enum(["off", "tool", "auto"]),
    "tool",
    "Documents in turns: by a search tool, with `auto` also as passages before the question.",
  ),
  heartbeat: ownHeartbeatSchema.optional(),
  schedules: list(scheduleSchema, "When the agent starts by itself."),
});

export const agentsSchema = section("Agents and their defaults.", {
  defaults: section("What holds for all agents.", {
    model: optionalField(
      modelChoice,
      "The model of agents without one. Default: by a key in the environment, else `builtin/echo`.",
    ),
    models: optionalField(
      z.array(z.string()),
      "Models that requests and mappings may choose. Not set: any configured; empty: none.",
    ),
    thinking: optionalField(thinking, "The thinking level of agents that name none."),
    approve: withDefault(
      approve,
      [],
      "Calls that wait for a person, for agents that name none: `bank.*`, `*:destructive`.",
    ),
    timeoutSeconds: withDefault(z.number().positive(), 600, "Time for one turn."),
    maxTimeoutSeconds: withDefault(
      z.number().positive(),
      3600,
      "The most that a request may ask for.",
    ),
    toolResultBytes: withDefault(
      z.int().min(1_000),
      20_000,
      "Bytes of a tool's result in one piece; the model reads the rest with `read_result`.",
    ),
    checkpoints: switchField(
      "Summarise older turns when the window of the model is full; else they are left out.",
      true,
    ),
    maxConcurrent: withDefault(z.int().min(1), 8, "Turns that run at the same time."),
    heartbeat: heartbeatSchema,
  }),
  list: list(agentSchema, "The agents; the first is the default one. None: an implicit `main`."),
});

export const modelsSchema = section("Model providers, short names and prices.", {
  providers: withDefault(
    z.record(
      idText,
      z.strictObject({
        type: z
          .string()
          .meta({ offers: "providerTypes" })
          .describe("Which API the provider speaks: the type of a plugin's provider."),
        baseUrl: optionalField(z.url(), "Base address; required for `openai-compatible`."),
        apiKey: optionalField(secretSchema, "The provider's API key."),
        headers: withDefault(z.record(z.string(), secretSchema), {}, "Headers of each request."),
        contextTokens: optionalField(
          z.union([positive, z.record(z.string(), positive)]),
          "The window of its models in tokens, or of each model by its name; default 128000.",
        ),
        images: withDefault(
          z.union([z.boolean(), z.array(z.string())]),
          true,
          "Whether its models read images, or the names of the models that do.",
        ),
      }),
    ),
    {},
    "Model providers by name.",
  ),
  aliases: withDefault(
    z.record(z.string(), modelChoice),
    {},
    "Short names for `<provider>/<model>`, or for a model with its fallbacks: a mapping or a request can name them too.",
  ),
  prices: withDefault(
    z.record(
      z.string(),
      z.strictObject({
        input: z.number().min(0).describe("A million input tokens."),
        cachedInput: optionalField(
          z.number().min(0),
          "A million input tokens that the provider had in its cache; default `input`.",
        ),
        cacheWrite: optionalField(
          z.number().min(0),
          "A million input tokens that the provider wrote to its cache; default `input`.",
        ),
        output: z.number().min(0).describe("A million output tokens."),
      }),
    ),
    {},
    "What models cost in US dollars, by `<provider>/<model>`; before the list prices that ship.",
  ),
});
