import { z } from "zod";
import { sends } from "../openapi/operation.ts";
import { APPROVAL_ROUTES } from "./approvals.ts";
import { agentsAnswer, chatAnswer, modelAnswer, modelsAnswer, responseAnswer } from "./answer-schemas.ts";
import { chatCompletions } from "./chat.ts";
import { chatBody } from "./chat-schema.ts";
import { KNOWLEDGE_ROUTES } from "./knowledge-routes.ts";
import { agentsQuery, listAgentModels, listModels, showModel } from "./models.ts";
import { createResponse } from "./responses.ts";
import { responsesBody } from "./responses-schema.ts";
import { defineRoute, problems } from "./route.ts";
import type { ApiRoute, ApiRoutes } from "./types.ts";

const TURN_ERRORS = problems({
  "400": "Something in the request is wrong; `param` names the field.",
  "404": "The model or the earlier response is not there for this key.",
  "408": "The body took too long.",
  "409": "The Idempotency-Key came with another body before.",
  "413": "The body is too large.",
  "415": "The content type is not JSON.",
  "502": "The model's provider failed.",
  "504": "The turn took too long.",
});
const turnHeaders = z.object({
  "x-session-id": z.string().optional().describe("Names the session: with one user message alone, the server keeps the history."),
  "Idempotency-Key": z.string().optional().describe("A repeat with the same key and body joins the first turn."),
});

/** A turn: one answer in JSON, or a stream of events. */
function defineTurn(handle: ApiRoute["handle"], sent: z.ZodType, answer: Parameters<typeof defineRoute>[2]): ApiRoute {
  const content = { "application/json": { schema: answer[2] }, "text/event-stream": { schema: { type: "string" as const } } };
  return defineRoute("chat", handle, answer, {
    requestParams: { header: turnHeaders },
    requestBody: sends(sent),
    responses: { "200": { description: "The answer; with `stream`, server-sent events.", content }, ...TURN_ERRORS },
  });
}

/** The routes of the platform API. */
export const ROUTES: ApiRoutes = {
  "/chat/completions": {
    POST: defineTurn(chatCompletions, chatBody, ["createChatCompletion", "Talk to an agent", chatAnswer]),
  },
  "/responses": {
    POST: defineTurn(createResponse, responsesBody, ["createResponse", "Talk to an agent, in the form of responses", responseAnswer]),
  },
  "/models": {
    GET: defineRoute("agents:read", listModels, ["listModels", "The agents that this key may use, as models", modelsAnswer]),
  },
  "/models/:id": {
    GET: defineRoute("agents:read", showModel, ["showModel", "One of them", modelAnswer], {
      requestParams: { path: z.object({ id: z.string() }) },
      responses: problems({ "404": "It is not there for this key." }),
    }),
  },
  "/agents": {
    GET: defineRoute("agents:read", listAgentModels, ["listAgents", "The agents that this key may use", agentsAnswer], {
      requestParams: { query: agentsQuery },
      responses: problems({ "400": "A parameter is wrong." }),
    }),
  },
  ...APPROVAL_ROUTES,
  ...KNOWLEDGE_ROUTES,
};
