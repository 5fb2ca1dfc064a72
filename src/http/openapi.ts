import { z } from "zod";
import { agentBody, wakeBody } from "../actions/fields.ts";
import { ERROR_CODES } from "../core/errors.ts";

const errorSchema = z.object({
  ok: z.literal(false),
  error: z.object({
    code: z.enum(ERROR_CODES),
    message: z.string(),
    issues: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
  requestId: z.string(),
});

const wakeAnswer = z.object({
  ok: z.literal(true),
  eventId: z.string(),
  mode: z.enum(["now", "next-heartbeat"]),
  mapping: z.string().optional(),
  warnings: z.array(z.string()).optional(),
});
const agentAnswer = z.object({
  ok: z.literal(true),
  eventId: z.string(),
  runId: z.string(),
  sessionKey: z.string(),
  status: z.enum(["queued", "parked", "collecting"]),
  mapping: z.string().optional(),
  warnings: z.array(z.string()).optional(),
});

const receipt = z.looseObject({ ok: z.literal(true) });

const schemaOf = (schema: z.ZodType, io: "input" | "output"): unknown => {
  const { $schema: _draft, ...json } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return json;
};
const json = (description: string, schema: unknown) => ({ description, content: { "application/json": { schema } } });
const problem = (description: string) => json(description, { $ref: "#/components/schemas/Error" });

const COMMON_ERRORS = {
  "400": problem("Something in the request is wrong; `issues` names each field."),
  "401": problem("The token is missing or wrong."),
  "403": problem("The caller's address is not allowed."),
  "405": problem("Only POST."),
  "408": problem("The body took too long."),
  "409": problem("The idempotency key came with another body."),
  "413": problem("The body is too large."),
  "415": problem("The content type is not supported."),
  "429": problem("Too many failed attempts."),
  "500": problem("Something failed inside the gateway."),
  "503": problem("Nothing was accepted; try again later."),
};

const idParameter = [{ name: "id", in: "path", required: true, schema: { type: "string" } }];

/** The OpenAPI 3.1 document of the hooks interface, from the same schemas that check the bodies. */
export function openApiDocument(base: string): object {
  const body = (schema: z.ZodType) => ({ required: true, content: { "application/json": { schema: schemaOf(schema, "input") } } });
  return {
    openapi: "3.1.0",
    info: {
      title: "Rouse",
      version: "1",
      description: "Turns webhooks into work for AI agents.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    paths: {
      [`${base}/wake`]: {
        post: {
          operationId: "wake",
          summary: "Put an event into the main session's queue",
          requestBody: body(wakeBody),
          responses: { "200": json("Accepted and on disk.", schemaOf(wakeAnswer, "output")), ...COMMON_ERRORS },
        },
      },
      [`${base}/agent`]: {
        post: {
          operationId: "runAgent",
          summary: "Run an agent's turn in its own session",
          requestBody: body(agentBody),
          responses: {
            "200": json("The run has ended (Prefer: wait).", schemaOf(receipt, "output")),
            "202": json("Accepted and on disk.", schemaOf(agentAnswer, "output")),
            ...COMMON_ERRORS,
          },
        },
      },
      [`${base}/{name}`]: {
        post: {
          operationId: "mappedHook",
          summary: "A hook that mappings resolve",
          parameters: [{ name: "name", in: "path", required: true, schema: { type: "string" } }],
          requestBody: { content: { "application/json": { schema: {} } } },
          responses: {
            "200": json("A wake, or nothing to do.", schemaOf(receipt, "output")),
            "202": json("At least one run.", schemaOf(receipt, "output")),
            "204": { description: "Skipped." },
            "404": problem("No mapping matched."),
            ...COMMON_ERRORS,
          },
        },
      },
      [`${base}/events/{id}`]: {
        get: {
          operationId: "eventReceipt",
          summary: "What became of an event",
          parameters: idParameter,
          responses: { "200": json("The receipt.", schemaOf(receipt, "output")), "404": problem("Not there, or not this caller's.") },
        },
      },
      [`${base}/runs/{id}`]: {
        get: {
          operationId: "runReceipt",
          summary: "What became of a run",
          parameters: idParameter,
          responses: { "200": json("The receipt.", schemaOf(receipt, "output")), "404": problem("Not there, or not this caller's.") },
        },
      },
      "/livez": { get: { operationId: "livez", security: [], summary: "Alive", responses: { "200": { description: "ok" } } } },
      "/readyz": {
        get: {
          operationId: "readyz",
          security: [],
          summary: "Ready for hooks",
          responses: { "200": { description: "ready" }, "503": { description: "unready" } },
        },
      },
    },
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: { Error: schemaOf(errorSchema, "output") },
    },
  };
}
