import { resolve } from "node:path";
import { z } from "zod";

const text = z.string().min(1);
const optional = <T extends z.ZodType>(schema: T, description: string) =>
  schema.optional().describe(description);
const url = (value: string, what: string) => z.url().default(value).describe(what);
const name = z
  .string()
  .regex(
    /^[A-Za-z][\w.~+%-]{2,254}$/,
    "must be 3 to 255 letters, digits or -._~+% and start with a letter, without `projects/…` before it",
  );

/** The config section `hooks.gmail`. */
export const gmailConfig = z.strictObject({
  account: z.email().optional().describe("The mailbox. Without it nothing is watched."),
  credentials: optional(
    text,
    "Path of the JSON file from Google Cloud: an OAuth client for a desktop app, or a service account's key.",
  ),
  project: optional(text, "The Google Cloud project. Default: the one that the credentials name."),
  topic: name.default("rouse-gmail").describe("Name of the Pub/Sub topic."),
  subscription: name.default("rouse-gmail").describe("Name of the Pub/Sub subscription."),
  label: text.default("INBOX").describe("The label whose new mail counts, by name or id."),
  labels: optional(z.array(text).min(1), "Several labels, in place of `label`."),
  includeBody: z
    .boolean()
    .default(true)
    .describe("Give the text of the mail; else only headers and snippet."),
  maxBytes: z
    .int()
    .positive()
    .max(100_000)
    .default(20_000)
    .describe("Longer texts are cut, with a mark. Bytes of UTF-8."),
  renewEveryMinutes: z
    .number()
    .positive()
    .max(8640)
    .default(720)
    .describe("How often the watch is renewed. Google ends it after 7 days."),
  pushEndpoint: optional(
    z.url(),
    "The public address of `/channels/gmail/push`. With it Pub/Sub pushes; else Rouse pulls.",
  ),
  pushAccount: z.email().optional().describe("The service account that signs pushes."),
  hook: text.default("gmail").describe("The hook that new mail is given to, below `hooks.path`."),
  model: z.string().optional().describe("The model of the preset's turns."),
  thinking: optional(
    z.enum(["off", "minimal", "low", "medium", "high", "xhigh", "max"]),
    "The thinking level of the preset's turns.",
  ),
  allowUnsafeExternalContent: optional(
    z.boolean(),
    "Take the boundary's markers away for the preset.",
  ),
  endpoints: z
    .strictObject({
      gmail: url("https://gmail.googleapis.com", "Gmail."),
      pubsub: url("https://pubsub.googleapis.com", "Pub/Sub."),
      oauthAuth: url("https://accounts.google.com/o/oauth2/v2/auth", "The consent page."),
      oauthToken: url("https://oauth2.googleapis.com/token", "Where tokens are made."),
      certs: url(
        "https://www.googleapis.com/oauth2/v1/certs",
        "Certificates that pushes are verified by, as PEM by key id.",
      ),
    })
    .prefault({})
    .describe("Other addresses of Google's services, for private endpoints."),
});

export type GmailConfig = z.output<typeof gmailConfig>;

/** The config with the path of its credentials from the config file's folder. */
export function withPaths<C extends GmailConfig>(config: C, baseDir: string): C {
  return config.credentials === undefined
    ? config
    : { ...config, credentials: resolve(baseDir, config.credentials) };
}

/** The labels to watch, as the config names them. */
export const getLabels = (config: GmailConfig): readonly string[] =>
  config.labels ?? [config.label];
