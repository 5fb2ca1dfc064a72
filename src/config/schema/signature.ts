import { z } from "zod";

/** Where a value stands in a request: in a header, a query parameter or the JSON body (`data.id`, `value[].state`). */
const source = z
  .strictObject({
    header: z.string().min(1).optional(),
    query: z.string().min(1).optional(),
    body: z.string().min(1).optional(),
    split: z.string().min(1).optional().describe("The value is a list with this between its entries."),
    prefix: z.string().min(1).optional().describe("Only entries that begin so count; what follows is the value."),
  })
  .refine((value) => [value.header, value.query, value.body].filter((one) => one !== undefined).length === 1, {
    message: "name one of `header`, `query` and `body`",
  });
export type Source = z.output<typeof source>;

const algorithm = z.enum(["hmac-sha1", "hmac-sha256", "hmac-sha512", "ed25519", "ecdsa-p256", "equals", "oidc"]);
const encoding = z.enum(["hex", "base64"]);

/** Which requests a handshake answers: all fields that are given have to be so. */
const when = z.strictObject({
  method: z.enum(["GET", "POST"]),
  query: z.record(z.string(), z.string()).optional().describe("Parameters that have these values; `*` is any."),
  body: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .optional()
    .describe("Body fields that have these values; `*` is any."),
  verifyToken: z.string().optional().describe("The query parameter that holds the secret."),
  pendingSecret: z.boolean().optional().describe("Only while the secret is still the word `pending`."),
});

/** What a handshake answers. `echo` is a value of the request, `hmac` one that is signed with the secret. */
const respond = z.strictObject({
  status: z.int().default(200),
  type: z.enum(["text", "json", "none"]).default("text"),
  echo: source.optional().describe("Text: the value itself. JSON: `{{echo}}` in `json` stands for it."),
  hmac: z
    .strictObject({ of: source, algorithm: z.enum(["sha1", "sha256", "sha512"]).default("sha256"), encoding: encoding.default("hex") })
    .optional(),
  json: z.record(z.string(), z.unknown()).optional().describe('Members of a JSON answer; "{{echo}}" and "{{hmac}}" are put in.'),
  headers: z.record(z.string(), z.string()).optional().describe('Further headers; "{{echo}}" is put in.'),
});

export const handshakeSchema = z.strictObject({
  signed: z.boolean().describe("True: answered after the signature was checked."),
  when,
  respond: respond.prefault({}),
  note: source.optional().describe("A value that the operator has to be shown."),
});
export type Handshake = z.output<typeof handshakeSchema>;

const variant = z.strictObject({
  secretPrefix: z.string().min(1).describe("Secrets that begin so use this variant; the prefix is cut off."),
  signaturePrefix: z.string().min(1).describe("Signatures of this variant begin so."),
  algorithm,
  key: z.enum(["utf8", "base64", "hex"]),
});

/** How a sender signs its requests: data for the one verifier. */
export const schemeSchema = z.strictObject({
  $schema: z.string().optional(),
  description: z.string().optional(),
  docs: z.url().optional().describe("Where the sender describes it."),
  algorithm,
  signature: source,
  encoding: encoding.default("hex"),
  key: z.enum(["utf8", "base64", "hex", "pem"]).default("utf8").describe("How the secret is written."),
  secretPrefix: z.string().optional().describe("Cut off the secret before it is decoded."),
  variants: z.array(variant).optional().describe("Other kinds of secret under the same headers."),
  minSecret: z.int().min(1).default(16).describe("The fewest characters of a secret."),
  signed: z
    .string()
    .default("{raw}")
    .describe("The text that is signed: `{raw} {timestamp} {id} {method} {path} {url} {decodedUrl} {sortedForm}`, `{header:name}`."),
  timestamp: z
    .strictObject({
      at: source,
      unit: z.enum(["s", "ms"]).default("s"),
      toleranceSeconds: z.number().positive().default(300),
    })
    .optional(),
  id: source.optional().describe("`{id}` of the signed text."),
  bodyHash: source.optional().describe("A SHA-256 of the body in hex, inside what is signed; compared where the body is no form."),
  duplicate: source.optional().describe("The sender's id of the event. Only one that the signature covers."),
  oidc: z
    .strictObject({
      issuers: z.array(z.string()).min(1),
      jwks: z.url(),
      emailVerified: z.boolean().default(false),
      privateIssuer: z
        .boolean()
        .default(false)
        .describe("The issuer signs tokens only for the operator's own senders: `email` is not required then."),
    })
    .optional(),
  handshakes: z.array(handshakeSchema).default([]),
});
export type Scheme = z.output<typeof schemeSchema>;
