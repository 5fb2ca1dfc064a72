import { z } from "zod";
import { agentBody, wakeBody } from "../actions/fields.ts";
import {
  agentAnswer,
  errorAnswer,
  eventReceiptAnswer,
  failedAnswer,
  heldAnswer,
  repeatedAnswer,
  runReceiptAnswer,
  severalAnswer,
  shadowAnswer,
  unmatchedAnswer,
  wakeAnswer,
} from "./openapi-schemas.ts";
import { answer, body, problem, schemaOf } from "./openapi-parts.ts";
import { chatPaths, platformComponents } from "./platform/openapi.ts";
import { knowledgePaths } from "./platform/openapi-knowledge.ts";

const COMMON_ERRORS = {
  "400": problem("Something in the request is wrong; `issues` names each field."),
  "401": problem("The token is missing or wrong."),
  "403": problem("The caller's address is not allowed."),
  "404": problem("Hooks are off, or no mapping names the path."),
  "405": problem("Only POST."),
  "408": problem("The body took too long."),
  "409": problem("The idempotency key came with another body."),
  "413": problem("The body is too large."),
  "415": problem("The content type is not supported."),
  "429": problem("Too many failed attempts."),
  "500": problem("Something failed inside the gateway."),
  "503": problem("Nothing was accepted; try again later."),
};

const NULLS = "`null` for an optional field is treated as absent.";

const idParameter = [{ name: "id", in: "path", required: true, schema: { type: "string" } }];

/** The OpenAPI 3.1 document of the hooks interface and the platform API, from the same schemas that check the bodies. */
export function openApiDocument(base: string): object {
  return {
    openapi: "3.1.0",
    info: {
      title: "Rouse",
      version: "1",
      description: "Turns webhooks into work for AI agents, and lets programs talk to them.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    paths: {
      [`${base}/wake`]: {
        post: {
          operationId: "wake",
          summary: "Put an event into the main session's queue",
          requestBody: { description: NULLS, ...body(wakeBody) },
          responses: { "200": answer("Accepted and on disk.", wakeAnswer), ...COMMON_ERRORS },
        },
      },
      [`${base}/agent`]: {
        post: {
          operationId: "runAgent",
          summary: "Run an agent's turn in its own session",
          requestBody: { description: NULLS, ...body(agentBody) },
          responses: {
            "200": answer("The run has ended (Prefer: wait).", heldAnswer),
            "202": answer("Accepted and on disk.", agentAnswer),
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
            "200": answer(
              "A wake, several of them, a repeat, a mapping in shadow, no mapping that matched, or a mapping that failed.",
              z.union([wakeAnswer, severalAnswer, repeatedAnswer, shadowAnswer, unmatchedAnswer, failedAnswer]),
            ),
            "202": answer("At least one run.", z.union([agentAnswer, severalAnswer, repeatedAnswer])),
            "204": { description: "Skipped." },
            ...COMMON_ERRORS,
          },
        },
      },
      [`${base}/events/{id}`]: {
        get: {
          operationId: "eventReceipt",
          summary: "What became of an event",
          parameters: idParameter,
          responses: { "200": answer("The receipt.", eventReceiptAnswer), "404": problem("Not there, or not this caller's.") },
        },
      },
      [`${base}/runs/{id}`]: {
        get: {
          operationId: "runReceipt",
          summary: "What became of a run",
          parameters: idParameter,
          responses: { "200": answer("The receipt.", runReceiptAnswer), "404": problem("Not there, or not this caller's.") },
        },
      },
      ...chatPaths(),
      ...knowledgePaths(),
      "/livez": {
        get: {
          operationId: "livez",
          security: [],
          summary: "Alive",
          responses: { "200": { description: "ok" }, "404": problem("Another method than GET.") },
        },
      },
      "/readyz": {
        get: {
          operationId: "readyz",
          security: [],
          summary: "Ready for hooks; with `?detail`, which wants the gateway token, what the gateway is doing",
          parameters: [{ name: "detail", in: "query", schema: { type: "string" }, allowEmptyValue: true }],
          responses: {
            "200": { description: "ready" },
            "401": problem("Details are for the operator."),
            "503": { description: "unready" },
          },
        },
      },
    },
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" }, ...platformComponents.securitySchemes },
      schemas: { Error: schemaOf(errorAnswer, "output"), ...platformComponents.schemas },
    },
  };
}
