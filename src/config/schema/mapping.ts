import { z } from "zod";
import {
  switchField,
  idText,
  list,
  optionalField,
  positive,
  secretSchema,
  summary,
  text,
  thinking,
  wakeMode,
  withDefault,
} from "./common.ts";
import { callbackSchema, coalesceSchema, ignoreSelfSchema, limitsSchema } from "./limits.ts";
import { lintSchema } from "./lint.ts";
import { duplicateSchema, schemeSchema } from "./signature.ts";
import { approve } from "./tools.ts";

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const ordered = z.union([z.string(), z.number()]);

/** A condition on one field: a plain value means equal, a list any of, an object of operators all of them. */
export type Condition = z.infer<typeof scalar> | z.infer<typeof scalar>[] | ConditionObject;
export interface ConditionObject {
  $eq?: z.infer<typeof scalar>;
  $ne?: z.infer<typeof scalar>;
  $in?: z.infer<typeof scalar>[];
  $nin?: z.infer<typeof scalar>[];
  $exists?: boolean;
  $regex?: string;
  $prefix?: string;
  $suffix?: string;
  $contains?: z.infer<typeof scalar>;
  $gt?: string | number;
  $gte?: string | number;
  $lt?: string | number;
  $lte?: string | number;
  $and?: Condition[];
  $or?: Condition[];
  $not?: Condition;
}

export const condition: z.ZodType<Condition> = z
  .lazy(() =>
    z.union([
      scalar,
      z.array(scalar),
      z
        .strictObject({
          $eq: scalar.describe("Equal to this value."),
          $ne: scalar.describe("Not equal to this value."),
          $in: z.array(scalar).describe("One of these values."),
          $nin: z.array(scalar).describe("None of these values."),
          $exists: z.boolean().describe("Whether the field is there."),
          $regex: z.string().describe("Text in which this regular expression finds something."),
          $prefix: z.string().describe("Text that begins so."),
          $suffix: z.string().describe("Text that ends so."),
          $contains: scalar.describe(
            "Text that contains this text, or a list that contains this value.",
          ),
          $gt: ordered.describe("Greater than this."),
          $gte: ordered.describe("Greater than or equal to this."),
          $lt: ordered.describe("Less than this."),
          $lte: ordered.describe("Less than or equal to this."),
          $and: z.array(condition).describe("All of these hold."),
          $or: z.array(condition).describe("One of these holds."),
          $not: condition,
        })
        .partial(),
    ]),
  )
  .meta({ id: "condition" }) as z.ZodType<Condition>;

/** Fields and their conditions; `$and`, `$or` and `$not` may stand beside fields and hold such objects again. */
export type FieldConditions = { [field: string]: Condition | FieldConditions | FieldConditions[] };

/** Checked in depth when the mapping is compiled, since the path of a wrong operator is known then. */
const fieldConditions = (conditions: "flat" | "payload") =>
  z.record(z.string(), z.unknown()).meta({ conditions }) as unknown as z.ZodType<FieldConditions>;

export const PATH_PATTERN = /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/;
const hookPath = z
  .string()
  .regex(PATH_PATTERN, "use segments of letters, digits, `.`, `_` and `-`, joined by `/`");

export const matchSchema = z.strictObject({
  path: optionalField(
    z.union([hookPath, z.array(hookPath).min(1)]),
    "The hook's path below `hooks.path`, or a list of them.",
  ),
  source: optionalField(condition, "Condition on the body's `source` field."),
  headers: optionalField(fieldConditions("flat"), "Conditions on headers, by lower-case name."),
  query: optionalField(fieldConditions("flat"), "Conditions on query parameters."),
  payload: optionalField(
    fieldConditions("payload"),
    "Conditions on payload fields; keys are plain paths such as `pull_request.base.ref`.",
  ),
  when: optionalField(z.string(), "A JSONata expression that must give true."),
});

export const secrets = z.union([secretSchema, z.array(secretSchema).min(1)]);

/** Fields of a path's authentication by a scheme, and of the use of a preset that has one. */
export const senderFields = {
  verifyToken: optionalField(secretSchema, "The token of the sender's handshake."),
  audience: optionalField(z.string(), "The audience of the sender's tokens (OpenID Connect)."),
  email: optionalField(z.string(), "The account that the tokens are for (OpenID Connect)."),
  duplicate: optionalField(duplicateSchema, "Recognition of repeats, instead of the scheme's."),
};

/** Fields of a mapping, and of the use of a preset for all of its mappings. */
export const runFields = {
  summary: optionalField(summary, "Default: `hooks.summary`."),
  approve: optionalField(approve, "Calls that wait for a person, besides the agent's `approve`."),
  coalesce: optionalField(coalesceSchema, "Collect events and run once for all of them."),
  callback: optionalField(callbackSchema, "Post the receipt of each ended run to an address."),
  lint: optionalField(lintSchema, "Which warnings are not wanted."),
};

/** Authentication of a path's callers. Signature schemes are named, or written out. */
export const authSchema = z.union([
  z.strictObject({
    token: secrets.describe("A token of this path, or several during a rotation."),
  }),
  z.strictObject({
    user: text.describe("The user of basic authentication."),
    password: secretSchema.describe("The password."),
  }),
  z.strictObject({
    scheme: z
      .union([z.string(), schemeSchema])
      .describe("The name of a signature scheme, or one of your own."),
    secret: optionalField(secrets, "The signing secret, or several during a rotation."),
    ...senderFields,
    jwks: optionalField(z.url(), "Another address of the issuer's keys (OpenID Connect)."),
    topicArn: optionalField(
      z.union([text, z.array(text).min(1)]),
      "The topic whose messages are accepted, or several (schemes with a certificate).",
    ),
  }),
]);
export type SchemeAuth = Extract<z.output<typeof authSchema>, { scheme: unknown }>;

const template = (what: string) => optionalField(z.string(), `${what} A template.`);
/** A template, or one for each line. */
const templateLines = (what: string) =>
  optionalField(
    z.union([z.string(), z.array(z.string()).min(1)]),
    `${what} A template, or a list with one for each line.`,
  );

export const mappingSchema = z.strictObject({
  id: optionalField(
    idText,
    "The mapping's id in receipts and logs. Default: its first path, or `any`, with `#2`, `#3`, … if that is taken.",
  ),
  enabled: switchField(
    "`false`: takes no events. The path and its authentication stay; events are recorded as unmatched.",
    true,
  ),
  match: matchSchema.prefault({}).describe("Which hooks the mapping takes."),
  auth: optionalField(authSchema, "Authentication of this path; default the hook token."),
  methods: optionalField(
    z.array(z.enum(["POST", "GET"])).min(1),
    "`GET` makes the query the payload; needs `dedupeKey`.",
  ),
  allowIps: optionalField(
    z.array(z.string()).min(1),
    "Addresses or CIDR ranges that may call this path.",
  ),
  maxBodyBytes: optionalField(positive, "The largest body of this path."),
  body: optionalField(
    z.enum(["json", "text", "form"]),
    "The format of the bodies. Default: by their content type.",
  ),
  keepHeaders: list(text, "Headers to keep besides those that the mapping names, for its module."),
  keepQuery: list(text, "Further query parameters that are kept."),
  validate: optionalField(
    z.union([z.string(), z.record(z.string(), z.unknown())]),
    "JSON Schema of the payload, inline or the path of a file.",
  ),
  forEach: optionalField(z.string(), "JSONata that gives a list: one action for each item."),
  continue: switchField("Go on to the next mapping that matches as well."),
  action: withDefault(z.enum(["wake", "agent"]), "agent", "What the hook becomes."),
  event: template(
    "The event's name, such as `issue.opened`, by which a preset's `events` chooses.",
  ),
  name: template("The hook's name in summaries."),
  agentId: template("The agent that takes the turn."),
  sessionKey: template("Turns with the same key are one conversation, in order."),
  instructions: optionalField(
    z.string(),
    "The operator's own words for the agent, outside the boundary. Not a template.",
  ),
  messageTemplate: templateLines("The message to the agent."),
  textTemplate: templateLines("The text of a wake action."),
  wakeMode: optionalField(wakeMode, "`now` starts a heartbeat immediately."),
  deliver: optionalField(z.boolean(), "Send the reply to a channel (default true)."),
  channel: template("The channel, or `last`."),
  to: template("The recipient on that channel."),
  model: template("`<provider>/<model>` or an alias."),
  thinking: optionalField(z.union([thinking, z.string()]), "Thinking level. A template."),
  timeoutSeconds: optionalField(z.number().positive(), "Time for the turn."),
  allowUnsafeExternalContent: switchField("Take the boundary's markers away for this hook alone."),
  transform: optionalField(
    z.union([
      z.strictObject({
        module: text.describe(
          "A file in `hooks.transformsDir`, or `<plugin>/<name>` for a module that a plugin brings.",
        ),
        export: optionalField(text, "The function's name; default the module's default export."),
      }),
      z.strictObject({ jsonata: text.describe("A JSONata expression.") }),
    ]),
    "A module in `hooks.transformsDir`, or JSONata, that gives a partial action, a list of them, or null.",
  ),
  dedupeKey: template("Actions with the same key are done once."),
  tools: optionalField(
    z.array(z.string()),
    "The agent's own tools that runs may use, instead of `hooks.tools`, without being asked again. No tool is added.",
  ),
  limits: optionalField(limitsSchema, "Limits of its runs."),
  ignoreSelf: optionalField(ignoreSelfSchema, "Skip events that the agent itself has caused."),
  ...runFields,
  shadow: switchField("Record what would be done, and do nothing."),
  strict: switchField("Refuse the event when a template misses a field."),
});
export type MappingConfig = z.output<typeof mappingSchema>;

/** The setup at the sender, for a person and for a test that stands in for the sender. */
const setupSchema = z.strictObject({
  where: optionalField(z.string(), "Where webhooks are registered at the sender."),
  secret: optionalField(
    z.enum(["chosen", "shown", "sent"]),
    "Who makes the secret: `chosen` by you, `shown` by the sender, or `sent` by it in its first request.",
  ),
  eventHeaders: optionalField(
    z.record(z.string(), z.string()),
    "Headers that name the event: `{event}` is the whole name, `{kind}` what stands before its first dot.",
  ),
});

const sampleSchema = z.strictObject({
  event: optionalField(
    z.string(),
    "The event as the sender's headers name it. Default: the sample's name.",
  ),
  contentType: optionalField(z.string(), 'Default: "application/json".'),
  body: z.unknown().describe("The body: text as it is, anything else as JSON."),
});

/** A preset or a file of `mappingsDir`. */
export const mappingFileSchema = z.strictObject({
  $schema: optionalField(z.string(), "For editors."),
  id: idText.describe("Names the file."),
  version: withDefault(z.literal(1), 1, "The version of this format."),
  preset: switchField(
    "`true`: a preset, live only if `hooks.presets` names it. Else a file of `hooks.mappingsDir` is live by itself.",
  ),
  description: optionalField(z.string(), "What the mappings are for."),
  auth: optionalField(authSchema, "Authentication of all its paths; default the hook token."),
  maxBodyBytes: optionalField(positive, "The largest body of its paths."),
  setup: optionalField(
    setupSchema,
    "What a person, and a test that stands in for the sender, have to know of it.",
  ),
  samples: optionalField(
    z.record(z.string(), sampleSchema),
    "Bodies that `rouse hooks send --sample` posts, by name.",
  ),
  mappings: z.array(mappingSchema).min(1).describe("Mappings, tried in order."),
});
export type MappingFile = z.output<typeof mappingFileSchema>;
/** A preset as it is written. */
export type PresetDocument = z.input<typeof mappingFileSchema>;

export const PRESET_NAME = /^[a-z0-9][a-z0-9-]*$/;
