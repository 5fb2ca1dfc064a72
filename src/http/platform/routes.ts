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
import { describeRoute, type ApiRoute, type ApiRoutes } from "./types.ts";

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

/** Describes one method of an address for the published document. */
function describe(path: string, { doc }: ApiRoute): Operation {
  const ofId = path.includes("/:id");
  return {
    ...doc,
    security: [{ apiKey: [] }],
    ...(ofId && { requestParams: { path: z.object({ id: z.string() }), ...doc.requestParams } }),
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
