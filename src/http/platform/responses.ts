import type { Context } from "hono";
import type { Sampling } from "../../agent/types.ts";
import type { ChatSession } from "../../chat/types.ts";
import { callerTool, jsonFormat, sessionFor, toThinking } from "./chat.ts";
import { type ApiProblem, badRequest, ProblemError } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import { hasInput, resolveInput, toMessages } from "./responses-input.ts";
import { renderResponse, storedResponse, toEcho } from "./responses-output.ts";
import { type ResponsesBody, responsesBody } from "./responses-schema.ts";
import { type FormContext, serveTurn } from "./turn.ts";
import { jsonResponse, type PlatformEnv, type PlatformParts } from "./types.ts";
import { UNSUPPORTED } from "./unsupported.ts";

const notFound: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "previous_response_not_found",
  param: "previous_response_id",
  message: "there is no such response of this key and model that was kept",
};

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
async function responseSession(
  body: ResponsesBody,
  named: string | undefined,
  { runs, owner }: Pick<FormContext, "runs" | "owner">,
): Promise<ChatSession> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string" && conversation)
    throw new ProblemError(
      badRequest("conversation", "conversation: send either this or previous_response_id"),
    );
  if (typeof previous === "string") {
    const run = await runs.findKept(previous.replace(/^resp_/, ""), owner);
    if (!run) throw new ProblemError(notFound);
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
      temperature: body.temperature,
      topP: body.top_p,
      maxOutputTokens: body.max_output_tokens,
      toolChoice: typeof choice === "object" && choice ? { tool: choice.name } : choice,
      parallelToolCalls: body.parallel_tool_calls,
    }),
    ...jsonFormat(
      format?.type === "json_schema" ? { type: "json_schema", json_schema: format } : format,
    ),
  };
}

const RESPONSE_NOT_FOUND: ApiProblem = {
  ...notFound,
  code: "response_not_found",
  param: "response_id",
  message: "there is no such response of this key that was kept",
};

/** `GET /v1/responses/{id}` */
export async function showResponse(
  c: Context<PlatformEnv>,
  deps: PlatformParts,
): Promise<Response> {
  const { key } = c.get("caller");
  if (c.req.query("stream") === "true")
    throw new ProblemError(
      badRequest(
        "stream",
        "stream: a response that is kept is not streamed again; leave it out",
        UNSUPPORTED,
      ),
    );
  const found = await deps.earlierRuns.findResponse(
    (c.req.param("id") ?? "").replace(/^resp_/, ""),
    key.id,
  );
  const isAllowed = found && (key.agents?.includes(found.agentId) ?? true);
  if (!isAllowed) throw new ProblemError(RESPONSE_NOT_FOUND);
  return jsonResponse(c, storedResponse(found));
}

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
