import { z } from "zod";
import { QUERY_TOKEN } from "../../core/http/deprecation.ts";
import { duration, durationOr, secretSchema, summary } from "./common.ts";
import { limitsSchema } from "./limits.ts";
import { mappingSchema } from "./mapping.ts";
import { presetsSchema } from "./preset.ts";

export const transformPermissionsSchema = z
  .strictObject({
    read: z
      .array(z.string().min(1))
      .default([])
      .describe("Further folders and files that modules may read."),
    write: z
      .array(z.string().min(1))
      .default([])
      .describe("Folders and files that modules may write."),
    childProcess: z
      .boolean()
      .default(false)
      .describe("Let modules start child processes, without these limits."),
    worker: z
      .boolean()
      .default(false)
      .describe("Let modules start worker threads, which can send signals."),
    addons: z
      .boolean()
      .default(false)
      .describe("Let modules load native addons, without these limits."),
  })
  .prefault({})
  .describe("Further permissions of transform modules.");

const fields = {
  enabled: z.boolean().optional().describe("Default: true if there is no config file, else false."),
  token: z
    .union([secretSchema, z.array(secretSchema).min(1)])
    .optional()
    .describe("The hook token, or several during a rotation."),
  path: z.string().default("/hooks").describe("Base path of the hooks."),
  presets: presetsSchema,
  mappings: z.array(mappingSchema).default([]).describe("Mappings, tried in order."),
  mappingsDir: z.string().default("mappings").describe("Folder of further mapping files."),
  testsDir: z.string().default("tests").describe("Folder of fixtures for `rouse test`."),
  transformsDir: z.string().default("transforms").describe("Folder of transform modules."),
  maxBodyBytes: z.int().positive().default(262_144).describe("The largest body."),
  bodyTimeoutSeconds: z
    .number()
    .positive()
    .default(30)
    .describe("How long a body may take to arrive."),
  allowQueryToken: z
    .boolean()
    .default(true)
    .describe(`Accept \`?token=\`, with a warning. Deprecated: it goes on ${QUERY_TOKEN.until}.`),
  allowRequestSessionKey: z.boolean().default(true).describe("Accept `sessionKey` in a request."),
  allowRequestRecipient: z
    .boolean()
    .default(true)
    .describe("Accept `to` and `channel` in a request."),
  allowedSessionKeyPrefixes: z
    .array(z.string().min(1).max(100))
    .min(1, "name at least one prefix, or leave the key out to allow every session key")
    .optional()
    .describe("Session keys must start with one of these, those of mappings and presets too."),
  sharedSessions: z
    .array(z.string().min(1).max(100))
    .default([])
    .describe(
      "Session keys that start with one of these name one session for all paths and credentials. Any other key is separate for each.",
    ),
  allowedAgentIds: z
    .array(z.string())
    .optional()
    .transform((ids) => (ids?.includes("*") ? undefined : ids))
    .describe('Agents that hooks may use; `["*"]` means all. Default: all.'),
  defaultSessionKey: z
    .string()
    .optional()
    .describe(
      "The session key if the event has none. Default: a new one, `hook:<uuid>`, or the first allowed prefix and a UUID.",
    ),
  dedupe: z
    .strictObject({
      ttl: durationOr("24h").describe(
        "How long a duplicate key is remembered. Signed ids may be kept longer.",
      ),
    })
    .prefault({})
    .describe("How duplicates are recognised."),
  retention: duration
    .prefault("3d")
    .describe(
      "How long raw bodies are kept for replay. With 0, nothing that hooks said is kept once the work is done, not in the history either, and of steps only names and times. Answers of the platform API are kept as their caller wishes (`store`).",
    ),
  limits: limitsSchema.optional().describe("Limits of all hooks together."),
  rateLimit: z
    .strictObject({
      requests: z.int().positive().describe("Requests of one caller (credential and address)."),
      per: durationOr("1m").describe("Within so long."),
    })
    .optional()
    .describe("A caller that sends more is answered 429 with Retry-After; nothing of it is kept."),
  callbackHosts: z
    .array(z.string().min(1))
    .default([])
    .describe(
      "Hosts that callbacks may go to: `example.com`, `*.example.com`; private addresses and ranges only if listed, as `10.0.0.0/8`.",
    ),
  receipts: z
    .enum(["full", "status"])
    .default("full")
    .describe("`status` leaves reply and recipient out of receipts."),
  summary: summary
    .default("heartbeat")
    .describe(
      "`heartbeat`: a run's summary starts a heartbeat, a second model call, if `wakeMode` is `now`. `quiet`: it waits for the next one.",
    ),
  tools: z
    .array(z.string())
    .default([])
    .describe(
      "The agent's own tools that hook runs and heartbeats may use, as patterns (`agents.list[].tools`). No tool is added.",
    ),
  allowedLinkHosts: z
    .array(z.string())
    .optional()
    .describe("Links to other hosts are removed from replies."),
  maxMessageChars: z
    .int()
    .positive()
    .default(32_000)
    .describe("Longer messages are cut, with a mark."),
  maxActions: z.int().positive().default(1000).describe("The most actions of one event."),
  transformTimeoutSeconds: z.number().positive().default(5).describe("Time for one transform."),
  transformLoadSeconds: z
    .number()
    .positive()
    .default(30)
    .describe("Time for loading a transform module."),
  transformPermissions: transformPermissionsSchema,
};

/** The names of the section's own fields; other members belong to plugins. */
export const hooksKeys = fields;

export const hooksSchema = z
  .looseObject(fields)
  .prefault({})
  .describe("Hooks: who may call, and what they become.");
