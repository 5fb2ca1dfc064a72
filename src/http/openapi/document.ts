import { z } from "zod";
import { createDocument, type ZodOpenApiOverride, type ZodOpenApiPathsObject } from "zod-openapi";
import { agentBody, wakeBody } from "../../turns/validate.ts";
import { platformPaths } from "../platform/routes.ts";
import { answers, failures, sends } from "./operation.ts";
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
} from "./schemas.ts";

const HOOK_ERRORS = failures(errorAnswer);
const NULLS = "`null` for an optional field is treated as absent.";
const id = z.object({ id: z.string() });

const receipt = (operationId: string, summary: string, schema: z.ZodType) => ({
  operationId,
  summary,
  requestParams: { path: id },
  responses: {
    "200": answers("The receipt.", schema),
    ...HOOK_ERRORS,
  },
});

const hookPaths = (base: string): ZodOpenApiPathsObject => ({
  [`${base}/wake`]: {
    post: {
      operationId: "wake",
      summary: "Put an event into the main session's queue",
      requestBody: { description: NULLS, ...sends(wakeBody) },
      responses: { "200": answers("Accepted and on disk.", wakeAnswer), ...HOOK_ERRORS },
    },
  },
  [`${base}/agent`]: {
    post: {
      operationId: "runAgent",
      summary: "Run an agent's turn in its own session",
      requestBody: { description: NULLS, ...sends(agentBody) },
      responses: {
        "200": answers("The run has ended (Prefer: wait).", heldAnswer),
        "202": answers("Accepted and on disk.", agentAnswer),
        ...HOOK_ERRORS,
      },
    },
  },
  [`${base}/{name}`]: {
    post: {
      operationId: "mappedHook",
      summary: "A hook that mappings resolve",
      requestParams: { path: z.object({ name: z.string() }) },
      requestBody: { content: { "application/json": { schema: {} } } },
      responses: {
        "200": answers(
          "A wake, several of them, a repeat, a mapping in shadow, no mapping that matched, or a mapping that failed.",
          z.union([
            wakeAnswer,
            severalAnswer,
            repeatedAnswer,
            shadowAnswer,
            unmatchedAnswer,
            failedAnswer,
          ]),
        ),
        "202": answers("At least one run.", z.union([agentAnswer, severalAnswer, repeatedAnswer])),
        "204": { description: "Skipped." },
        ...HOOK_ERRORS,
      },
    },
  },
  [`${base}/events/{id}`]: {
    get: receipt("eventReceipt", "What became of an event", eventReceiptAnswer),
  },
  [`${base}/runs/{id}`]: { get: receipt("runReceipt", "What became of a run", runReceiptAnswer) },
});

const PROBE_PATHS: ZodOpenApiPathsObject = {
  "/livez": {
    get: {
      operationId: "livez",
      security: [],
      summary: "Alive",
      responses: {
        "200": { description: "ok" },
        ...HOOK_ERRORS,
      },
    },
  },
  "/readyz": {
    get: {
      operationId: "readyz",
      security: [],
      summary:
        "Ready for hooks; with `?detail`, which wants the gateway token, what the gateway is doing",
      parameters: [
        { name: "detail", in: "query", schema: { type: "string" }, allowEmptyValue: true },
      ],
      responses: {
        "200": { description: "ready" },
        ...HOOK_ERRORS,
        "503": { description: "unready" },
      },
    },
  },
};

/** Takes a choice of one for what it is. */
const unwrapChoice: ZodOpenApiOverride = ({ jsonSchema }) => {
  const [only, ...others] = jsonSchema.oneOf ?? [];
  if (only === undefined || others.length > 0) return;
  delete jsonSchema.oneOf;
  Object.assign(jsonSchema, only);
};

/**
 * Creates the OpenAPI 3.1 document of the hooks interface and the platform API, from the schemas that check the bodies.
 * @param base `hooks.path`
 */
export function openApiDocument(base: string): object {
  const paths = { ...hookPaths(base), ...platformPaths(), ...PROBE_PATHS };
  const info = {
    title: "Rouse",
    version: "1",
    description: "Turns webhooks into work for AI agents, and lets programs talk to them.",
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  };
  const securitySchemes = {
    token: { type: "http" as const, scheme: "bearer" },
    apiKey: {
      type: "http" as const,
      scheme: "bearer",
      description: "A key of the platform API (`rouse keys create`).",
    },
  };
  return createDocument(
    {
      openapi: "3.1.0",
      info,
      servers: [{ url: "/" }],
      security: [{ token: [] }],
      paths,
      components: { securitySchemes },
    },
    { override: unwrapChoice },
  );
}
