import { z } from "zod";
import { QUERY_TOKEN } from "../../core/http/deprecation.ts";
import {
  duration,
  durationOr,
  switchField,
  list,
  optionalField,
  optionalSection,
  positive,
  secretSchema,
  section,
  summary,
  text,
  withDefault,
} from "./common.ts";
import { limitsSchema } from "./limits.ts";
import { mappingSchema } from "./mapping.ts";
import { presetsSchema } from "./preset.ts";

export const transformPermissionsSchema = section("Further permissions of transform modules.", {
  read: list(text, "Further folders and files that modules may read."),
  write: list(text, "Folders and files that modules may write."),
  childProcess: switchField("Let modules start child processes, without these limits."),
  worker: switchField("Let modules start worker threads, which can send signals."),
  addons: switchField("Let modules load native addons, without these limits."),
});

const fields = {
  enabled: optionalField(z.boolean(), "Default: true if there is no config file, else false."),
  token: optionalField(
    z.union([secretSchema, z.array(secretSchema).min(1)]),
    "The hook token, or several during a rotation.",
  ),
  path: withDefault(z.string(), "/hooks", "Base path of the hooks."),
  presets: presetsSchema,
  mappings: list(mappingSchema, "Mappings, tried in order."),
  mappingsDir: withDefault(z.string(), "mappings", "Folder of further mapping files."),
  testsDir: withDefault(z.string(), "tests", "Folder of fixtures for `rouse test`."),
  transformsDir: withDefault(z.string(), "transforms", "Folder of transform modules."),
  maxBodyBytes: withDefault(positive, 262_144, "The largest body."),
  bodyTimeoutSeconds: withDefault(z.number().positive(), 30, "How long a body may take to arrive."),
  allowQueryToken: switchField(
    `Accept \`?token=\`, with a warning. Deprecated: it goes on ${QUERY_TOKEN.until}.`,
    true,
  ),
  allowRequestSessionKey: switchField("Accept `sessionKey` in a request.", true),
  allowRequestRecipient: switchField("Accept `to` and `channel` in a request.", true),
  allowedSessionKeyPrefixes: optionalField(
    z
      .array(text.max(100))
      .min(1, "name at least one prefix, or leave the key out to allow every session key"),
    "Session keys must start with one of these, those of mappings and presets too.",
  ),
  sharedSessions: list(
    text.max(100),
    "Session keys that start with one of these name one session for all paths and credentials. Any other key is separate for each.",
  ),
  allowedAgentIds: z
    .array(z.string())
    .optional()
    .transform((ids) => (ids?.includes("*") ? undefined : ids))
    .describe('Agents that hooks may use; `["*"]` means all. Default: all.'),
  defaultSessionKey: optionalField(
    z.string(),
    "The session key if the event has none. Default: a new one, `hook:<uuid>`, or the first allowed prefix and a UUID.",
  ),
  dedupe: section("How duplicates are recognised.", {
    ttl: durationOr("24h").describe(
      "How long a duplicate key is remembered. Signed ids may be kept longer.",
    ),
  }),
  retention: duration
    .prefault("3d")
    .describe(
      "How long raw bodies are kept for replay. With 0, nothing that hooks said is kept once the work is done, not in the history either, and of steps only names and times. Answers of the platform API are kept as their caller wishes (`store`).",
    ),
  limits: optionalField(limitsSchema, "Limits of all hooks together."),
  rateLimit: optionalSection(
    "A caller that sends more is answered 429 with Retry-After; nothing of it is kept.",
    {
      requests: positive.describe("Requests of one caller (credential and address)."),
      per: durationOr("1m").describe("Within so long."),
    },
  ),
  callbackHosts: list(
    text,
    "Hosts that callbacks may go to: `example.com`, `*.example.com`; private addresses and ranges only if listed, as `10.0.0.0/8`.",
  ),
  receipts: withDefault(
    z.enum(["full", "status"]),
    "full",
    "`status` leaves reply and recipient out of receipts.",
  ),
  summary: withDefault(
    summary,
    "heartbeat",
    "`heartbeat`: a run's summary starts a heartbeat, a second model call, if `wakeMode` is `now`. `quiet`: it waits for the next one.",
  ),
  tools: list(
    z.string(),
    "The agent's own tools that hook runs and heartbeats may use, as patterns (`agents.list[].tools`). No tool is added.",
  ),
  allowedLinkHosts: optionalField(
    z.array(z.string()),
    "Links to other hosts are removed from replies.",
  ),
  maxMessageChars: withDefault(positive, 32_000, "Longer messages are cut, with a mark."),
  maxActions: withDefault(positive, 1000, "The most actions of one event."),
  transformTimeoutSeconds: withDefault(z.number().positive(), 5, "Time for one transform."),
  transformLoadSeconds: withDefault(
    z.number().positive(),
    30,
    "Time for loading a transform module.",
  ),
  transformPermissions: transformPermissionsSchema,
};

/** The names of the section's own fields; other members belong to plugins. */
export const hooksKeys = fields;

export const hooksSchema = z
  .looseObject(fields)
  .prefault({})
  .describe("Hooks: who may call, and what they become.");
