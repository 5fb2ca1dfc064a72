import { z } from "zod";
import type { ZodOpenApiPathsObject } from "zod-openapi";
import { type Operation, sends } from "../openapi/operation.ts";
import { chatAnswer, responseAnswer } from "./answer-schemas.ts";
import { APPROVAL_ROUTES } from "./approvals.ts";
import { chatCompletions } from "./chat.ts";
import { chatBody } from "./chat-schema.ts";
import { KNOWLEDGE_ROUTES } from "./knowledge-documents.ts";
import { AGENT_ROUTES } from "./models.ts";
import { createResponse, showResponse } from "./responses.ts";
import { responsesBody } from "./responses-schema.ts";
import { BODY_ERRORS, describeRoute, problems, type ApiRoute, type ApiRoutes } from "./types.ts";

const turnHeaders = z.object({
  "x-session-id": z
    .string()
    .optional()
    .describe("Names the session: with one user message alone, the server keeps the history."),
  "Idempotency-Key": z
    .string()
    .optional()
    .describe("A repeat with the same key and body joins the first turn."),
});

/** A turn: one answer in JSON, or a stream of events. */
const defineTurn = (
  operationId: string,
  summary: string,
  [sent, answer]: readonly [sent: z.ZodType, answer: z.ZodType],
  handle: ApiRoute["handle"],
): ApiRoute => ({
  scope: "chat",
  handle,
  doc: describeRoute({
    operationId,
    summary,
    answer,
    errors: {
      ...BODY_ERRORS,
      "404": "The model or the earlier response is not there for this key.",
      "409": "The Idempotency-Key came with another body before.",
      "502": "The model's provider rejected the request, or its answer could not be used.",
      "504": "The turn took too long.",
    },
    details: {
      requestParams: { header: turnHeaders },
      requestBody: sends(sent),
      responses: {
        "200": {
          description: "The answer; with `stream`, server-sent events.",
          content: {
            "application/json": { schema: answer },
            "text/event-stream": { schema: { type: "string" } },
          },
        },
      },
    },
  }),
});

/** The routes of the platform API. */
export const ROUTES: ApiRoutes = {
  "/chat/completions": {
    POST: defineTurn(
      "createChatCompletion",
      "Talk to an agent",
      [chatBody, chatAnswer],
      chatCompletions,
    ),
  },
  "/responses": {
    POST: defineTurn(
      "createResponse",
      "Talk to an agent, in the form of responses",
      [responsesBody, responseAnswer],
      createResponse,
    ),
  },
  "/responses/:id": { GET: showResponse },
  ...AGENT_ROUTES,
  ...APPROVAL_ROUTES,
  ...KNOWLEDGE_ROUTES,
};

/** Failures that every route may answer. */
const COMMON_ERRORS = problems({
  "401": "The API key is missing, wrong or revoked.",
  "403": "The key does not have the scope, or is not in `tools.approvers`.",
  "429":
    "More requests than the key's rate limit, or the model's provider limits its callers; `retry-after` says when.",
  "500": "Something failed inside the gateway.",
  "503":
    "Too many requests at the same time, the model's provider is away, or the gateway is stopping; `retry-after` says when.",
});

const NOT_THERE = problems({ "404": "It is not there for this key." });

/** Describes one method of an address for the published document. */
function describe(path: string, { doc }: ApiRoute): Operation {
  const ofId = path.includes("/:id");
  return {
    ...doc,
    security: [{ apiKey: [] }],
    ...(ofId && { requestParams: { path: z.object({ id: z.string() }), ...doc.requestParams } }),
    responses: { ...(ofId && NOT_THERE), ...doc.responses, ...COMMON_ERRORS },
  };
}

/** The paths of the platform API for the published document. */
export function platformPaths(): ZodOpenApiPathsObject {
  const paths = Object.entries(ROUTES).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, route]) => [
      method.toLowerCase(),
      describe(path, route),
    ]);
    return [`/v1${path.replaceAll(/:(\w+)/g, "{$1}")}`, Object.fromEntries(operations)];
  });
  return Object.fromEntries(paths) as ZodOpenApiPathsObject;
}
