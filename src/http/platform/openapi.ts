import type { z } from "zod";
import { answer, body, problem, schemaOf } from "../openapi-parts.ts";
import { agentsAnswer, chatAnswer, errorAnswer, modelAnswer, modelsAnswer, responseAnswer } from "./answer-schemas.ts";
import { chatBody } from "./chat-schema.ts";
import { responsesBody } from "./responses-schema.ts";

export const failure = (description: string) => problem(description, "PlatformError");

export const ALWAYS = {
  "401": failure("The API key is missing, wrong or revoked."),
  "403": failure("The key has not the scope."),
  "429": failure("More requests than the key's rate limit; `retry-after` says when."),
  "500": failure("Something failed inside the gateway."),
  "503": failure("Too much at once, or the gateway is stopping; `retry-after` says when."),
};

const TURN_ERRORS = {
  ...ALWAYS,
  "400": failure("Something in the request is wrong; `param` names the field."),
  "404": failure("The model or the earlier response is not there for this key."),
  "408": failure("The body took too long."),
  "409": failure("The Idempotency-Key came with another body before."),
  "413": failure("The body is too large."),
  "415": failure("The content type is not JSON."),
  "502": failure("The model's provider failed."),
  "504": failure("The turn took too long."),
};

const header = (name: string, description: string) => ({ name, in: "header", required: false, schema: { type: "string" }, description });
const TURN_HEADERS = [
  header("x-session-id", "Names the session: with one user message alone, the server keeps the history."),
  header("Idempotency-Key", "A repeat with the same key and body joins the first turn."),
];
const STREAM = { "text/event-stream": { schema: { type: "string" } } };

function turn(operationId: string, summary: string, sent: z.ZodType, answered: z.ZodType): object {
  const whole = answer("The answer; with `stream`, server-sent events.", answered);
  return {
    operationId,
    summary,
    security: [{ apiKey: [] }],
    parameters: TURN_HEADERS,
    requestBody: body(sent),
    responses: { "200": { ...whole, content: { ...whole.content, ...STREAM } }, ...TURN_ERRORS },
  };
}

export function list(operationId: string, summary: string, answered: z.ZodType, more: object = {}, errors: object = {}): object {
  const responses = { "200": answer(summary, answered), ...ALWAYS, ...errors };
  return { operationId, summary, security: [{ apiKey: [] }], responses, ...more };
}

export const query = (name: string, type: string, description: string) => ({ name, in: "query", schema: { type }, description });

/** The paths of chats and agents, from the schemas that check its bodies. */
export function chatPaths(): Record<string, object> {
  return {
    "/v1/chat/completions": { post: turn("createChatCompletion", "Talk to an agent", chatBody, chatAnswer) },
    "/v1/responses": { post: turn("createResponse", "Talk to an agent, in the form of responses", responsesBody, responseAnswer) },
    "/v1/models": { get: list("listModels", "The agents that this key may use, as models", modelsAnswer) },
    "/v1/models/{id}": {
      get: list(
        "showModel",
        "One of them",
        modelAnswer,
        { parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }] },
        { "404": failure("It is not there for this key.") },
      ),
    },
    "/v1/agents": {
      get: list(
        "listAgents",
        "The agents that this key may use",
        agentsAnswer,
        {
          parameters: [
            query("limit", "integer", "How many, at most 100; default 20."),
            query("after", "string", "The id after which to go on."),
          ],
        },
        { "400": failure("A parameter is wrong.") },
      ),
    },
  };
}

export const platformComponents = {
  securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "A key of the platform API (`rouse keys create`)." } },
  schemas: { PlatformError: schemaOf(errorAnswer, "output") },
};
