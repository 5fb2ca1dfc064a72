import { z } from "zod";
import { duration, durationOr, idText, secretSchema } from "./common.ts";
import { knowledgeSchema } from "./knowledge.ts";
import { LOG_LEVELS } from "../../core/log.ts";

/** Modes of the console: it is not served, it writes no file, or it changes mappings. */
export const CONSOLE_MODES = ["off", "read", "edit"] as const;

export const gatewaySchema = z
  .strictObject({
    host: z.string().min(1).default("127.0.0.1").describe("Address to listen on."),
    port: z
      .int()
      .min(0)
      .max(65535)
      .default(7420)
      .describe("Port to listen on; 0 takes a free one."),
    adminPort: z
      .int()
      .min(0)
      .max(65535)
      .optional()
      .describe("Serve /admin, /metrics and /console on this port alone."),
    token: secretSchema
      .optional()
      .describe("The operator's token. Default: generated in the state folder."),
    publicUrl: z.url().optional().describe("The address under which senders reach the gateway."),
    trustedProxies: z
      .array(z.string())
      .default([])
      .describe("Addresses or CIDR ranges whose X-Forwarded-For is used."),
    keepAliveSeconds: z
      .int()
      .min(1)
      .max(86_400)
      .default(75)
      .describe(
        "How long an idle connection is kept. Set a shorter time in a proxy in front, because a request on a closing connection gets no answer.",
      ),
    drainSeconds: z
      .number()
      .min(0)
      .default(20)
      .describe("How long running turns may go on after SIGTERM."),
    console: z
      .enum(CONSOLE_MODES)
      .optional()
      .describe(
        'The operator\'s page: not served, without changes of files, or with changes of mappings. Default: `"edit"` on a loopback address without `publicUrl`, else `"read"`.',
      ),
    docs: z.boolean().default(true).describe("Serve /openapi.json and /docs."),
  })
  .prefault({})
  .describe("The gateway's address and port, and the operator's access.");

export const storeSchema = z
  .strictObject({
    url: secretSchema
      .optional()
      .describe(
        'Where work is kept: "sqlite:<path>" or "postgres://user:password@host/database". Default: "sqlite:<stateDir>/rouse.db".',
      ),
    retention: z
      .strictObject({
        events: durationOr("30d").describe("Events."),
        runs: durationOr("30d").describe("Ended runs, with their steps, tool calls and approvals."),
        hookSessions: durationOr("30d").describe("Hook sessions, after their last use."),
        apiSessions: durationOr("90d").describe(
          "Sessions of the platform API, after their last use.",
        ),
        deliveries: durationOr("30d").describe("Ended deliveries."),
        sessionTurns: z
          .int()
          .min(1)
          .default(5_000)
          .describe("Turns of the main session and of each channel session."),
      })
      .prefault({})
      .describe("How long records are kept."),
  })
  .prefault({})
  .describe("The store of events and runs, and how long it keeps them.");

export const deliverySchema = z
  .strictObject({
    maxAge: durationOr("24h").describe("How long a delivery is tried."),
  })
  .prefault({})
  .describe("Messages on their way to a channel.");

export const logSchema = z
  .strictObject({
    level: z.enum(LOG_LEVELS).default("info").describe("The least level that is logged."),
  })
  .prefault({})
  .describe("The gateway's log, on standard error.");

/** Parts of an answer that are disarmed. */
export const CLEANING = ["images", "none"] as const;
export const SCOPES = ["chat", "agents:read", "knowledge:read", "knowledge:write"] as const;

const corsSchema = z
  .strictObject({
    origins: z
      .array(
        z
          .string()
          .regex(
            /^(?:\*|[A-Za-z][A-Za-z\d+.-]*:\/\/[^\s/?#@,]+)$/,
            'write an origin such as "https://chat.example.com", or "*"',
          )
          .toLowerCase(),
      )
      .default([])
      .describe('Origins that may use the API; `"*"` is every origin.'),
    credentials: z
      .boolean()
      .default(false)
      .describe('Let browsers send cookies along. Not together with `"*"`.'),
  })
  .refine(({ origins, credentials }) => !credentials || !origins.includes("*"), {
    path: ["credentials"],
    message: 'must be false if origins has "*": write the origins that may send cookies',
  })
  .prefault({})
  .describe("Access for pages of other origins. Whoever opens a page can read its API key.");

export const platformSchema = z
  .strictObject({
    apiKeys: z
      .array(
        z.strictObject({
          id: idText.describe("Names the key; sessions belong to it."),
          key: secretSchema.optional().describe("The key itself, at least 16 characters."),
          hash: z
            .string()
            .regex(/^(?:sha256:)?[0-9a-f]{64}$/, "write the SHA-256 of the key in hex")
            .optional()
            .describe("Its SHA-256 in hex, in place of the key."),
          tenant: idText.optional().describe("The tenant of its documents. Default: the key's id."),
          agents: z.array(z.string()).optional().describe("The agents it may use; default all."),
          scopes: z
            .array(z.enum(SCOPES))
            .default(["chat", "agents:read"])
            .describe("What it may do."),
          rateLimit: z
            .strictObject({
              requests: z.int().positive().describe("How many requests."),
              per: duration.describe("Within this time."),
            })
            .optional()
            .describe("Requests within a time; more are answered 429."),
          userAsSession: z
            .boolean()
            .default(false)
            .describe("Take the field `user` for the session's id."),
          clean: z
            .enum(CLEANING)
            .default("images")
            .describe(
              "`images`: disarm images, and links as hooks.allowedLinkHosts says, in answers that are plain text. `none`: for programs that show no answer to a person.",
            ),
        }),
      )
      .default([])
      .describe("Keys of the platform API; `rouse keys` makes more."),
    knowledge: knowledgeSchema,
    maxBodyBytes: z.int().positive().default(20_000_000).describe("The largest body."),
    maxImageBytes: z.int().positive().default(8_000_000).describe("The largest image."),
    imageHosts: z
      .array(
        z
          .string()
          .regex(
            /^(?:https?:\/\/)?(?:\*\.)?[\w.-]+(?::\d+)?$/,
            "write a host, `*.<host>`, or an origin",
          ),
      )
      .default([])
      .describe(
        "Hosts that images may be fetched from, over HTTPS unless the entry says `http://`.",
      ),
    cors: corsSchema,
    maxConcurrent: z
      .int()
      .positive()
      .default(64)
      .describe("Turns of the API at the same time; more are answered 503."),
    maxWaitSeconds: z
      .number()
      .min(0)
      .max(600)
      .default(20)
      .describe(
        "How long a turn of the API waits for a model that does not answer, before the answer is 503 or 429.",
      ),
  })
  .prefault({})
  .describe("The API for programs that talk to agents.");

const callTimeout = durationOr("60s").describe(
  "How long one call of a tool may take. After that it is repeated if the tool allows it; otherwise a person decides.",
);

export const mcpSchema = z
  .strictObject({
    servers: z
      .record(
        z.string().regex(/^[a-z0-9][a-z0-9_-]*$/, "use lower-case letters, digits, `_` and `-`"),
        z.union([
          z.strictObject({
            url: z.url().describe("The server's address."),
            type: z.enum(["http", "sse"]).default("http").describe("The transport."),
            headers: z
              .record(z.string(), secretSchema)
              .default({})
              .describe("Headers of each request."),
            callTimeout,
          }),
          z.strictObject({
            command: z.string().min(1).describe("The program to start."),
            args: z.array(z.string()).default([]).describe("Its arguments."),
            env: z.record(z.string(), secretSchema).default({}).describe("Its environment."),
            callTimeout,
          }),
        ]),
      )
      .default({})
      .describe(
        "MCP servers whose tools agents may be given, as `<server>.<tool>` or `<server>.*`.",
      ),
  })
  .prefault({})
  .describe("Tools from MCP servers.");
