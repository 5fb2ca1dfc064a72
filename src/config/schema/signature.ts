import { z } from "zod";
import {
  duration,
  switchField,
  list,
  optionalField,
  optionalSection,
  positive,
  text,
  withDefault,
} from "./common.ts";

/** The place of a value in a request: in a header, a query parameter or the JSON body (`data.id`, `value[].state`). */
const source = z
  .strictObject({
    header: optionalField(text, "A header."),
    query: optionalField(text, "A query parameter."),
    body: optionalField(text, "A path in the JSON body."),
    split: optionalField(text, "The value is a list with this between its entries."),
    prefix: optionalField(text, "Only entries that begin so count; what follows is the value."),
  })
  .refine(
    (value) =>
      [value.header, value.query, value.body].filter((one) => one !== undefined).length === 1,
    {
      message: "name one of `header`, `query` and `body`",
    },
  )
  .refine(({ body, split, prefix }) => body === undefined || (split ?? prefix) === undefined, {
    message: "a field of the body is read whole: `split` and `prefix` go with `header` or `query`",
  });
export type SignatureSource = z.output<typeof source>;

const algorithm = z.enum([
  "hmac-sha1",
  "hmac-sha256",
  "hmac-sha512",
  "ed25519",
  "ecdsa-p256",
  "equals",
  "jwt-hs256",
  "oidc",
  "x509",
]);
const encoding = z.enum(["hex", "base64"]);

/** Which requests a handshake answers: all fields that are given have to be so. */
const when = z.strictObject({
  method: z.enum(["GET", "POST", "HEAD", "OPTIONS"]).describe("The request's method."),
  headers: optionalField(
    z.record(z.string(), z.string()),
    "Headers that have these values; `*` is any.",
  ),
  query: optionalField(
    z.record(z.string(), z.string()),
    "Parameters that have these values; `*` is any.",
  ),
  body: optionalField(
    z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    "Body fields that have these values; `*` is any.",
  ),
  bodyOnly: optionalField(z.boolean(), "The body has no other fields than those of `body`."),
  verifyToken: optionalField(z.string(), "The query parameter that holds the secret."),
  pendingSecret: optionalField(z.boolean(), "Only while the secret is still the word `pending`."),
});

/** The answer to a handshake. `echo` is a value of the request, `hmac` one that is signed with the secret. */
const respond = z.strictObject({
  status: withDefault(z.int(), 200, "The answer's status."),
  type: withDefault(z.enum(["text", "json", "none"]), "text", "The answer's body."),
  echo: optionalField(source, "Text: the value itself. JSON: `{{echo}}` in `json` stands for it."),
  hmac: optionalSection(
    "A value of the request, signed with the secret; without a signature only letters, digits, `_` and `-`, and not for POST.",
    {
      of: source.describe("The value that is signed."),
      algorithm: withDefault(z.enum(["sha1", "sha256", "sha512"]), "sha256", "The hash."),
      encoding: withDefault(encoding, "hex", "How the result is written."),
    },
  ),
  json: optionalField(
    z.record(z.string(), z.unknown()),
    'Members of a JSON answer; "{{echo}}" and "{{hmac}}" are put in.',
  ),
  headers: optionalField(
    z.record(z.string(), z.string()),
    'Further headers; "{{echo}}" is put in.',
  ),
});

export const handshakeSchema = z.strictObject({
  signed: z
    .boolean()
    .describe("True: answered after the signature was checked. Else anyone is answered."),
  when: when.describe("Which requests it answers."),
  respond: respond.prefault({}).describe("What it answers."),
  note: optionalField(source, "A value that the operator has to be shown."),
  confirm: optionalField(
    source,
    "The place of the address that is fetched to confirm, before the answer. Only on `certificate.hosts`, only signed.",
  ),
});
export type HandshakeConfig = z.output<typeof handshakeSchema>;

const variant = z.strictObject({
  secretPrefix: text.describe("Secrets that begin so use this variant; the prefix is cut off."),
  signaturePrefix: text.describe("Signatures of this variant begin so."),
  algorithm: algorithm.describe("How it signs."),
  key: z.enum(["utf8", "base64", "hex"]).describe("How the secret is written."),
});

/** A signature over fields of the JSON body, by the key of a certificate whose address is in the body (`x509`). */
const certificate = z.strictObject({
  url: source.describe("Where the certificate's address stands."),
  hosts: z
    .array(text)
    .min(1)
    .describe(
      "The hosts that certificates and confirmations are fetched from; `{region}` stands for a region such as `us-east-1`.",
    ),
  digest: z
    .strictObject({
      at: source.describe("Where the version stands."),
      values: z
        .record(z.string(), z.enum(["sha1", "sha256"]))
        .describe("The digest of each version."),
    })
    .describe("The place of the signature's version, and the digest of each version."),
  fields: z
    .strictObject({
      at: source.describe("Where the kind stands."),
      values: z
        .record(z.string(), z.array(text).min(1))
        .describe("The signed fields of each kind."),
    })
    .describe(
      "The place of the kind of message, and for each kind the signed fields in order; those that a message lacks are left out.",
    ),
  topic: source.describe(
    "The place of the topic, which must be one of the config's `topicArn`: the certificate signs for every topic.",
  ),
});

/** When a sender stops sending: after failures in a row, above a share of failures, or after hours of nothing but failures. */
const disablesAfter = z.union([
  z.strictObject({ failures: positive.describe("Failed deliveries in a row.") }),
  z.strictObject({
    failedShare: z
      .number()
      .gt(0)
      .lte(1)
      .describe("More than this share of deliveries failed, of 1"),
    withinMinutes: z.number().positive().describe("within so many minutes."),
  }),
  z.strictObject({
    failingHours: z.number().positive().describe("Every delivery failed for so many hours."),
  }),
]);

/** Recognition of repeats: by the sender's id of the event, by an equal body within a time, or not at all. */
export const duplicateSchema = z.union([
  z.enum(["id", "none"]),
  z.strictObject({
    by: z.literal("body").describe("A request with the same body is a repeat."),
    for: duration.describe("How long after the first one."),
  }),
]);
export type DuplicateRule = z.output<typeof duplicateSchema>;

/** The sender's behaviour after answers that are errors, as it documents it. What it does not document is left out. */
const senderSchema = z.strictObject({
  name: text.describe("The sender's name, as it writes it."),
  timeoutSeconds: optionalField(z.number().positive(), "How long it waits for an answer."),
  retries: optionalField(
    z.int().nonnegative(),
    "How often it repeats a delivery that failed; 0: never.",
  ),
  retryWindow: optionalField(
    duration,
    "How long after the event it repeats a delivery. If an id protects against copies, a signed time may be this old.",
  ),
  maxBodyBytes: optionalField(
    positive,
    "The largest body that it sends. Its paths take it, unless they say less.",
  ),
  disablesAfter: optionalField(
    disablesAfter,
    "When it disables or deletes a hook that answers with errors.",
  ),
  redelivery: optionalField(
    z.enum(["manual", "api", "automatic"]),
    "How a delivery that failed comes again: by hand, by a call of its API, or by itself.",
  ),
  docs: optionalField(z.url(), "Where the sender describes it."),
});
export type Sender = z.output<typeof senderSchema>;

/** A sender's way of signing requests: data for the one verifier. */
export const schemeSchema = z.strictObject({
  $schema: optionalField(z.string(), "For editors."),
  description: optionalField(z.string(), "What signs so."),
  docs: optionalField(z.url(), "Where the sender describes it."),
  sender: optionalField(senderSchema, "What the sender does about errors."),
  algorithm: algorithm.describe("How requests are signed."),
  signature: source.describe("Where the signature stands."),
  encoding: withDefault(encoding, "hex", "How the signature is written."),
  key: withDefault(z.enum(["utf8", "base64", "hex", "pem"]), "utf8", "How the secret is written."),
  secretPrefix: optionalField(z.string(), "Cut off the secret before it is decoded."),
  variants: optionalField(z.array(variant), "Other kinds of secret under the same headers."),
  also: optionalField(
    z.string(),
    "Another scheme that checks the requests with its signature header, by the secrets that its `variants` name.",
  ),
  minSecret: withDefault(z.int().min(1), 16, "The fewest characters of a secret."),
  signed: withDefault(
    z.string(),
    "{raw}",
    "The text that is signed: `{raw} {timestamp} {id} {method} {path} {url} {decodedUrl} {sortedForm}`, `{header:name}`.",
  ),
  timestamp: optionalSection("When the request was signed.", {
    at: source.describe("Where it stands."),
    unit: withDefault(z.enum(["s", "ms", "iso8601"]), "s", "Its unit."),
    toleranceSeconds: withDefault(
      z.number().positive(),
      300,
      "How far it may be from the gateway's clock.",
    ),
  }),
  id: optionalField(
    z.union([source, z.array(source).min(1)]).transform((given) => [given].flat()),
    "The sender's id of the event, and `{id}` of the signed text if that has it; of several places the first that a request has.",
  ),
  bodyHash: optionalField(
    source,
    "A SHA-256 of the body in hex, inside what is signed; compared where the body is no form.",
  ),
  duplicate: optionalField(
    duplicateSchema,
    'How repeats are recognised: `"id"`, `"none"`, or `{ by: "body", for: "10m" }`. Default: by `id` if there is one, else not at all.',
  ),
  keepHeaders: optionalField(
    z.array(text),
    "Headers that describe the event, such as its name: they are kept with it. None that carries a credential.",
  ),
  oidc: optionalSection("Tokens of an OpenID Connect issuer.", {
    issuers: z.array(z.string()).min(1).describe("Who may issue the tokens."),
    jwks: z.url().describe("The address of the issuer's keys."),
    emailVerified: switchField("Whether the token must say that its e-mail address is verified."),
    privateIssuer: switchField(
      "The issuer signs tokens only for the operator's own senders: `email` is not required then.",
    ),
  }),
  certificate: optionalField(
    certificate,
    "A signature over fields of the body, by the key of a certificate.",
  ),
  handshakes: list(handshakeSchema, "Requests of the sender that are answered and start no work."),
});
export type Scheme = z.output<typeof schemeSchema>;
/** A scheme as it is written. */
export type SchemeDocument = z.input<typeof schemeSchema>;
