import type { Sampling } from "../../agent/types.ts";
import type { ChatSession } from "../../chat/types.ts";
import { callerTool, commonSampling, jsonFormat, sessionFor, toThinking } from "./chat.ts";
import { responseAnswer } from "./answer-schemas.ts";
import { UNSUPPORTED } from "./chat-schema.ts";
import { badRequest, notThere } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import { hasInput, resolveInput, toMessages } from "./responses-input.ts";
import { renderResponse, storedResponse, toEcho } from "./responses-output.ts";
import { type ResponsesBody, responsesBody } from "./responses-schema.ts";
import { type FormContext, serveTurn } from "./turn.ts";
import { defineRoute } from "./types.ts";

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
async function responseSession(
  body: ResponsesBody,
  named: string | undefined,
  { runs, owner }: Pick<FormContext, "runs" | "owner">,
): Promise<ChatSession> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string" && conversation)
    throw badRequest("conversation", "conversation: send either this or previous_response_id");
  if (typeof previous === "string") {
    const run = await runs.findKept(previous.replace(/^resp_/, ""), owner);
    if (!run)
      throw notThere(
        "previous_response_not_found",
        "previous_response_id",
        "there is no such response of this key and model that was kept",
      );
    return { kind: "after", run, keep: body.store !== false };
  }
  const name = named ?? (typeof conversation === "string" ? conversation : conversation?.id);
  if (name !== undefined || body.store === false) return sessionFor(name);
  return { kind: "new" };
}

function toSampling(body: ResponsesBody): Sampling {
  const { tool_choice: choice } = body;
  const format = body.text?.format;
  return {
    ...withoutNullish({
      ...commonSampling(body),
      maxOutputTokens: body.max_output_tokens,
      toolChoice: typeof choice === "object" && choice ? { tool: choice.name } : choice,
    }),
    ...jsonFormat(
      format?.type === "json_schema" ? { type: "json_schema", json_schema: format } : format,
    ),
  };
}

/** `GET /v1/responses/{id}` */
export const showResponse = defineRoute({
  scope: "chat",
  operationId: "showResponse",
  summary: "A response that was kept",
  answer: responseAnswer,
  errors: { "400": "`stream` is not supported here." },
  async handle({ c, key, id }, { earlierRuns }) {
    if (c.req.query("stream") === "true")
      throw badRequest(
        "stream",
        "stream: a response that is kept is not streamed again; leave it out",
        UNSUPPORTED,
      );
    const found = await earlierRuns.findResponse(id.replace(/^resp_/, ""), key.id);
    if (found && (key.agents?.includes(found.agentId) ?? true)) return storedResponse(found);
    throw notThere(
      "response_not_found",
      "response_id",
      "there is no such response of this key that was kept",
    );
  },
});

/** `POST /v1/responses`: another form of the same turn. */
export const createResponse = serveTurn<ResponsesBody>({
  route: "responses",
  field: "input",
  schema: responsesBody,
  async read(body, context) {
    const session = await responseSession(body, context.session, context);
    const { items, leftOut } = await resolveInput(body, context);
    const approver = `api:${context.caller.key.id}`;
    return {
      session,
      messages: toMessages(items),
      ...(hasInput(body) && withoutNullish({ instructions: body.instructions })),
      sampling: toSampling(body),
      tools: (body.tools ?? []).map(callerTool),
      ...withoutNullish({ thinking: toThinking(body.reasoning?.effort) }),
      warnings: leftOut,
      ...(body.store !== false && { response: toEcho(body) }),
      canAsk: body.stream === true && context.snapshot.approvers.includes(approver),
    };
  },
  render: (body, { runId, createdAt }, model) =>
    renderResponse({ runId, createdAt, model, echo: toEcho(body) }),
});
