import { z } from "zod";
import {
  duration,
  durationOr,
  switchField,
  idText,
  list,
  optionalField,
  optionalSection,
  positive,
  secretSchema,
  section,
  text,
  withDefault,
} from "./common.ts";
import { knowledgeSchema } from "./knowledge.ts";
import { LOG_LEVELS } from "../../core/log.ts";

/** Modes of the console: it is not served, it writes no file, or it changes mappings. */
export const CONSOLE_MODES = ["off", "read", "edit"] as const;

export const gatewaySchema = section("The gateway's address and port, and the operator's access.", {
  host: withDefault(
    text.regex(/^[^/[\]]+$/, 'must be a name or an address alone, such as "0.0.0.0" or "::"'),
    "127.0.0.1",
    "Address to listen on.",
  ),
  port: withDefault(z.int().min(0).max(65535), 7420, "Port to listen on; 0 takes a free one."),
  adminPort: optionalField(
    z.int().min(0).max(65535),
    "Serve /admin, /metrics and /console on this port alone.",
  ),
  token: optionalField(
    secretSchema,
    "The operator's token. Default: generated in the state folder.",
  ),
  publicUrl: optionalField(z.url(), "The address under which senders reach the gateway."),
  trustedProxies: list(z.string(), "Addresses or CIDR ranges whose X-Forwarded-For is used."),
  keepAliveSeconds: withDefault(
    z.int().min(1).max(86_400),
    75,
    "How long an idle connection is kept. Set a shorter time in a proxy in front, because a request on a closing connection gets no answer.",
  ),
  drainSeconds: withDefault(
    z.number().min(0),
    20,
    "How long running turns may go on after SIGTERM.",
  ),
  console: optionalField(
    z.enum(CONSOLE_MODES),
    'The operator\'s page: not served, without changes of files, or with changes of mappings. Default: `"edit"` on a loopback address without `publicUrl`, else `"read"`.',
  ),
  docs: switchField("Serve /openapi.json and /docs.", true),
});

export const storeSchema = section("The store of events and runs, and how long it keeps them.", {
  url: optionalField(
    secretSchema,
    'Where work is kept: "sqlite:<path>" or "postgres://user:password@host/database". Default: "sqlite:<stateDir>/rouse.db".',
  ),
  retention: section("How long records are kept.", {
    events: durationOr("30d").describe("Events."),
    runs: durationOr("30d").describe("Ended runs, with their steps, tool calls and approvals."),
    hookSessions: durationOr("30d").describe("Hook sessions, after their last use."),
    apiSessions: durationOr("90d").describe("Sessions of the platform API, after their last use."),
    deliveries: durationOr("30d").describe("Ended deliveries."),
    sessionTurns: withDefault(
      z.int().min(1),
      5_000,
      "Turns of the main session and of each channel session.",
    ),
  }),
});

export const deliverySchema = section("Messages on their way to a channel.", {
  maxAge: durationOr("24h").describe("How long a delivery is tried."),
});

export const logSchema = section("The gateway's log, on standard error.", {
  level: withDefault(z.enum(LOG_LEVELS), "info", "The least level that is logged."),
});

/** Parts of an answer that are disarmed. */
export const CLEANING = ["images", "none"] as const;
export const SCOPES = ["chat", "agents:read", "knowledge:read", "knowledge:write"] as const;

const corsSchema = z
  .strictObject({
    origins: list(
      z
        .string()
        .regex(
          /^(?:\*|[A-Za-z][A-Za-z\d+.-]*:\/\/[^\s/?#@,]+)$/,
          'write an origin such as "https://chat.example.com", or "*"',
        )
        .toLowerCase(),
      'Origins that may use the API; `"*"` is every origin.',
    ),
    credentials: switchField('Let browsers send cookies along. Not together with `"*"`.'),
  })
  .refine(({ origins, credentials }) => !credentials || !origins.includes("*"), {
    path: ["credentials"],
    message: 'must be false if origins has "*": write the origins that may send cookies',
  })
  .prefault({})
  .describe("Access for pages of other origins. Whoever opens a page can read its API key.");

export const platformSchema = section("The API for programs that talk to agents.", {
  apiKeys: list(
    z.strictObject({
      id: idText.describe("Names the key; sessions belong to it."),
      key: optionalField(secretSchema, "The key itself, at least 16 characters."),
      hash: optionalField(
        z.string().regex(/^(?:sha256:)?[0-9a-f]{64}$/, "write the SHA-256 of the key in hex"),
        "Its SHA-256 in hex, in place of the key.",
      ),
      tenant: optionalField(idText, "The tenant of its documents. Default: the key's id."),
      agents: optionalField(z.array(z.string()), "The agents it may use; default all."),
      scopes: withDefault(z.array(z.enum(SCOPES)), ["chat", "agents:read"], "What it may do."),
      rateLimit: optionalSection("Requests within a time; more are answered 429.", {
        requests: positive.describe("How many requests."),
        per: duration.describe("Within this time."),
      }),
      userAsSession: switchField("Take the field `user` for the session's id."),
      clean: withDefault(
        z.enum(CLEANING),
        "images",
        "`images`: disarm images, and links as hooks.allowedLinkHosts says, in answers that are plain text. `none`: for programs that show no answer to a person.",
      ),
    }),
    "Keys of the platform API; `rouse keys` makes more.",
  ),
  knowledge: knowledgeSchema,
  maxBodyBytes: withDefault(positive, 20_000_000, "The largest body."),
  maxImageBytes: withDefault(positive, 8_000_000, "The largest image."),
  imageHosts: list(
    z
      .string()
      .regex(
        /^(?:https?:\/\/)?(?:\*\.)?[\w.-]+(?::\d+)?$/,
        "write a host, `*.<host>`, or an origin",
      ),
    "Hosts that images may be fetched from, over HTTPS unless the entry says `http://`.",
  ),
  cors: corsSchema,
  maxConcurrent: withDefault(
    positive,
    64,
    "Turns of the API at the same time; more are answered 503.",
  ),
  maxWaitSeconds: withDefault(
    z.number().min(0).max(600),
    20,
    "How long a turn of the API waits for a model that does not answer, before the answer is 503 or 429.",
  ),
});

const callTimeout = durationOr("60s").describe(
  "How long one call of a tool may take. After that it is repeated if the tool allows it; otherwise a person decides.",
);

export const mcpSchema = section("Tools from MCP servers.", {
  servers: withDefault(
    z.record(
      z.string().regex(/^[a-z0-9][a-z0-9_-]*$/, "use lower-case letters, digits, `_` and `-`"),
      z.union([
        z.strictObject({
          url: z.url().describe("The server's address."),
          type: withDefault(z.enum(["http", "sse"]), "http", "The transport."),
          headers: withDefault(z.record(z.string(), secretSchema), {}, "Headers of each request."),
          callTimeout,
        }),
        z.strictObject({
          command: text.describe("The program to start."),
          args: list(z.string(), "Its arguments."),
          env: withDefault(z.record(z.string(), secretSchema), {}, "Its environment."),
          callTimeout,
        }),
      ]),
    ),
    {},
    "MCP servers whose tools agents may be given, as `<server>.<tool>` or `<server>.*`.",
  ),
});
