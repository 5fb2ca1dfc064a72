import { z } from "zod";
import { duration, durationOr, idText, secretSchema, thinking } from "./common.ts";
import { scheduleSchema } from "./schedules.ts";
import { approve } from "./tools.ts";

/** A model by its name, or with the models that are asked in turn if it gives no answer. */
const modelChoice = z.union([
  z.string(),
  z.strictObject({
    primary: z.string().describe("The model that is asked first."),
    fallbacks: z
      .array(z.string())
      .max(8)
      .default([])
      .describe("Models that are asked next if one gives no answer."),
  }),
]);
export type ModelChoice = z.output<typeof modelChoice>;

const heartbeatFields = {
  channel: z.string().describe("Where a heartbeat's reply goes."),
  to: z.string().optional().describe("The recipient on that channel."),
  model: z.string().optional().describe("The model of heartbeats; default the agent's."),
  instructions: z.string().optional().describe("Added to the agent's instructions in a heartbeat."),
};
const EVERY = "Time between periodic heartbeats; 0 stops them, wakes still work.";

const heartbeatSchema = z
  .strictObject({
    ...heartbeatFields,
    every: durationOr("30m").describe(EVERY),
    ackMaxChars: z
      .int()
      .min(0)
      .default(300)
      .describe("A reply with HEARTBEAT_OK and at most so much other text is dropped."),
    channel: heartbeatFields.channel.default("last"),
  })
  .prefault({})
  .describe("Turns of a main session about its system events.");

/** The heartbeat of one agent: what it leaves out is that of the defaults. */
const ownHeartbeatSchema = z
  .strictObject({
    ...heartbeatFields,
    every: duration.optional().describe(EVERY),
    channel: heartbeatFields.channel.optional(),
  })
  .describe("Changes `agents.defaults.heartbeat` for this agent.");

export const agentSchema = z.strictObject({
  id: idText.describe("The agent's id."),
  name: z.string().optional().describe("The name people see."),
  description: z.string().optional().describe("One line about what the agent does."),
  instructions: z.string().optional().describe("The agent's own instructions."),
  model: modelChoice
    .optional()
    .describe(
      "`<provider>/<model>` or an alias, or `{ primary, fallbacks: [...] }`; default `agents.defaults.model`.",
    ),
  thinking: thinking.optional().describe("How much the model thinks before it answers."),
  tools: z
    .array(z.string())
    .default([])
    .describe(
      "Tools the agent may use: `<server>.<tool>`, with the name of an MCP server or a plugin; `*` stands for any characters (`crm.*`), `!` takes away (`!crm.delete_*`). In hook runs and heartbeats only those that `hooks.tools` or the mapping names too.",
    ),
  approve: approve
    .optional()
    .describe("Calls that wait for a person. Default: `agents.defaults.approve`."),
  knowledge: z
    .enum(["off", "tool", "auto"])
    .default("tool")
    .describe(
      "Documents in turns: by a search tool, with `auto` also as passages before the question.",
    ),
  heartbeat: ownHeartbeatSchema.optional(),
  schedules: z.array(scheduleSchema).default([]).describe("When the agent starts by itself."),
});

export const agentsSchema = z
  .strictObject({
    defaults: z
      .strictObject({
        model: modelChoice
          .optional()
          .describe(
            "The model of agents without one. Default: by a key in the environment, else `builtin/echo`.",
          ),
        models: z
          .array(z.string())
          .optional()
          .describe(
            "Models that requests and mappings may choose. Not set: any configured; empty: none.",
          ),
        thinking: thinking.optional().describe("The thinking level of agents that name none."),
        approve: approve
          .default([])
          .describe(
            "Calls that wait for a person, for agents that name none: `bank.*`, `*:destructive`.",
          ),
        timeoutSeconds: z.number().positive().default(600).describe("Time for one turn."),
        maxTimeoutSeconds: z
          .number()
          .positive()
          .default(3600)
          .describe("The most that a request may ask for."),
        toolResultBytes: z
          .int()
          .min(1_000)
          .default(20_000)
          .describe(
            "Bytes of a tool's result in one piece; the model reads the rest with `read_result`.",
          ),
        checkpoints: z
          .boolean()
          .default(true)
          .describe(
            "Summarise older turns when the window of the model is full; else they are left out.",
          ),
        maxConcurrent: z.int().min(1).default(8).describe("Turns that run at the same time."),
        heartbeat: heartbeatSchema,
      })
      .prefault({})
      .describe("What holds for all agents."),
    list: z
      .array(agentSchema)
      .default([])
      .describe("The agents; the first is the default one. None: an implicit `main`."),
  })
  .prefault({})
  .describe("Agents and their defaults.");

export const modelsSchema = z
  .strictObject({
    providers: z
      .record(
        idText,
        z.strictObject({
          type: z
            .string()
            .meta({ providerType: true })
            .describe("Which API the provider speaks: the type of a plugin's provider."),
          baseUrl: z.url().optional().describe("Base address; required for `openai-compatible`."),
          apiKey: secretSchema.optional().describe("The provider's API key."),
          headers: z
            .record(z.string(), secretSchema)
            .default({})
            .describe("Headers of each request."),
          contextTokens: z
            .union([z.int().positive(), z.record(z.string(), z.int().positive())])
            .optional()
            .describe(
              "The window of its models in tokens, or of each model by its name; default 128000.",
            ),
          images: z
            .union([z.boolean(), z.array(z.string())])
            .default(true)
            .describe("Whether its models read images, or the names of the models that do."),
        }),
      )
      .default({})
      .describe("Model providers by name."),
    aliases: z
      .record(z.string(), modelChoice)
      .default({})
      .describe(
        "Short names for `<provider>/<model>`, or for a model with its fallbacks: a mapping or a request can name them too.",
      ),
    prices: z
      .record(
        z.string(),
        z.strictObject({
          input: z.number().min(0).describe("A million input tokens."),
          cachedInput: z
            .number()
            .min(0)
            .optional()
            .describe(
              "A million input tokens that the provider had in its cache; default `input`.",
            ),
          cacheWrite: z
            .number()
            .min(0)
            .optional()
            .describe(
              "A million input tokens that the provider wrote to its cache; default `input`.",
            ),
          output: z.number().min(0).describe("A million output tokens."),
        }),
      )
      .default({})
      .describe(
        "What models cost in US dollars, by `<provider>/<model>`; before the list prices that ship.",
      ),
  })
  .prefault({})
  .describe("Model providers, short names and prices.");
