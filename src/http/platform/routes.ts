import { z } from "zod";
import { sends } from "../openapi/operation.ts";
import { APPROVAL_ROUTES } from "./approvals.ts";
import {
  agentsAnswer,
  chatAnswer,
  modelAnswer,
  modelsAnswer,
  responseAnswer,
} from "./answer-schemas.ts";
import { chatCompletions } from "./chat.ts";
import { chatBody } from "./chat-schema.ts";
import { KNOWLEDGE_ROUTES } from "./knowledge-routes.ts";
import { agentsQuery, listAgentModels, listModels, showModel } from "./models.ts";
import { createResponse, showResponse } from "./responses.ts";
import { responsesBody } from "./responses-schema.ts";
import { defineRoute, problems, type ApiRoute, type ApiRoutes } from "./types.ts";
import type { ZodOpenApiPathsObject } from "zod-openapi";

const TURN_ERRORS = problems({
  "400": "Something in the request is wrong; `param` names the field.",
  "404": "The model or the earlier response is not there for this key.",
  "408": "The body took too long.",
  "409": "The Idempotency-Key came with another body before.",
  "413": "The body is too large.",
  "415": "The content type is not JSON.",
  "502": "The model's provider rejected the request, or its answer could not be used.",
  "504": "The turn took too long.",
});
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
function defineTurn(
  handle: ApiRoute["handle"],
  sent: z.ZodType,
  answer: Parameters<typeof defineRoute>[2],
): ApiRoute {
  const content = {
    "application/json": { schema: answer[2] },
    "text/event-stream": { schema: { type: "string" as const } },
  };
  return defineRoute("chat", handle, answer, {
    requestParams: { header: turnHeaders },
    requestBody: sends(sent),
    responses: {
      "200": { description: "The answer; with `stream`, server-sent events.", content },
      ...TURN_ERRORS,
    },
  });
}

/** The routes of the platform API. */
export const ROUTES: ApiRoutes = {
  "/chat/completions": {
    POST: defineTurn(chatCompletions, chatBody, [
      "createChatCompletion",
      "Talk to an agent",
      chatAnswer,
    ]),
  },
  "/responses": {
    POST: defineTurn(createResponse, responsesBody, [
      "createResponse",
      "Talk to an agent, in the form of responses",
      responseAnswer,
    ]),
  },
  "/responses/:id": {
    GET: defineRoute(
      "chat",
      showResponse,
      ["showResponse", "A response that was kept", responseAnswer],
      {
        requestParams: { path: z.object({ id: z.string() }) },
        responses: problems({
          "400": "`stream` is not supported here.",
          "404": "It is not there for this key.",
        }),
      },
    ),
  },
  "/models": {
    GET: defineRoute("agents:read", listModels, [
      "listModels",
      "The agents that this key may use, as models",
      modelsAnswer,
    ]),
  },
  "/models/:id": {
    GET: defineRoute("agents:read", showModel, ["showModel", "One of them", modelAnswer], {
      requestParams: { path: z.object({ id: z.string() }) },
      responses: problems({ "404": "It is not there for this key." }),
    }),
  },
  "/agents": {
    GET: defineRoute(
      "agents:read",
      listAgentModels,
      ["listAgents", "The agents that this key may use", agentsAnswer],
      {
        requestParams: { query: agentsQuery },
        responses: problems({ "400": "A parameter is wrong." }),
      },
    ),
  },
  ...APPROVAL_ROUTES,
  ...KNOWLEDGE_ROUTES,
};

/** What every route may answer. */
const COMMON_ERRORS = problems({
  "401": "The API key is missing, wrong or revoked.",
  "403": "The key does not have the scope, or is not in `tools.approvers`.",
  "429":
    "More requests than the key's rate limit, or the model's provider limits its callers; `retry-after` says when.",
  "500": "Something failed inside the gateway.",
  "503":
    "Too many requests at the same time, the model's provider is away, or the gateway is stopping; `retry-after` says when.",
});

/** The paths of the platform API for the published document. */
export function platformPaths(): ZodOpenApiPathsObject {
  const paths = Object.entries(ROUTES).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, { doc }]) => [
      method.toLowerCase(),
      { ...doc, security: [{ apiKey: [] }], responses: { ...doc.responses, ...COMMON_ERRORS } },
    ]);
    return [`/v1${path.replaceAll(/:(\w+)/g, "{$1}")}`, Object.fromEntries(operations)];
  });
  return Object.fromEntries(paths) as ZodOpenApiPathsObject;
}
