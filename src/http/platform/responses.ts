import type { ChatRequest, ChatSession } from "../../chat/types.ts";
import { restoreServerSteps } from "../../chat/history.ts";
import {
  type ChatRequestBase,
  callerTool,
  withoutNullish,
  jsonFormat,
  sessionFor,
  toThinking,
} from "./chat.ts";
import { createFileReader } from "./files.ts";
import { type Conversation, imageLimits, readMessages } from "./messages.ts";
import { badRequest, type ApiProblem, ProblemError } from "./problems.ts";
import { responseEvents, responseObject, storedResponse, toEcho } from "./responses-output.ts";
import { type Earlier, hasInput, resolveInput, toMessages } from "./responses-input.ts";
import { type ResponsesBody, responsesBody } from "./responses-schema.ts";
import { UNSUPPORTED } from "./unsupported.ts";
import type { Context } from "hono";
import { getCorrelation, getSessionName, toSessionWarnings } from "./session-name.ts";
import { answerTurn } from "./turn.ts";
import { findAgent } from "./models.ts";
import { readCheckedBody } from "./read.ts";
import { jsonResponse, type PlatformEnv, type PlatformParts } from "./types.ts";

const notFound: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "previous_response_not_found",
  param: "previous_response_id",
  message: "there is no such response of this key and model that was kept",
};

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
export async function responseSession(
  body: ResponsesBody,
  named: string | undefined,
  { runs, owner }: Earlier,
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

/** The turn that the request asks for. */
export function responseRequest(
  body: ResponsesBody,
  { instructions, messages: said, hasHistory }: Conversation,
  base: ChatRequestBase,
): ChatRequest {
  const { tool_choice: choice } = body;
  const format = body.text?.format;
  const thinking = toThinking(body.reasoning?.effort);
  const all = [hasInput(body) ? body.instructions : undefined, instructions]
    .filter(Boolean)
    .join("\n\n");
  return {
    ...base,
    callerKeepsHistory: base.session.kind === "named" && hasHistory,
    messages: said,
    stream: body.stream ?? false,
    sampling: {
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
    },
    tools: (body.tools ?? []).map(callerTool),
    ...(all === "" ? {} : { instructions: all }),
    ...(thinking === undefined ? {} : { thinking }),
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
export async function createResponse(
  c: Context<PlatformEnv>,
  deps: PlatformParts,
): Promise<Response> {
  const { key } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, responsesBody);
  const agent = findAgent(body.model, key, snapshot);
  const name = getSessionName(c, body, key);
  const earlier = { runs: deps.earlierRuns, owner: { keyId: key.id, agentId: agent.id } };
  const session = await responseSession(body, name?.id, earlier);
  const { items, leftOut } = await resolveInput(body, earlier);
  const images = imageLimits(snapshot, deps.fetch, c.req.raw.signal);
  const conversation = await readMessages(toMessages(items), {
    images,
    readFile: createFileReader(c, deps),
    field: "input",
    continues: session.kind === "after",
  });
  const canAsk = body.stream === true && snapshot.approvers.includes(`api:${key.id}`);
  const caller = { id: key.id, tenant: key.tenant, ...withoutNullish({ clean: key.clean }) };
  const base = {
    agent,
    caller,
    session,
    correlation: getCorrelation(c),
    warnings: [...toSessionWarnings(name), ...leftOut],
  };
  const echo = toEcho(body);
  const kept = body.store === false ? {} : { response: echo };
  const messages = await restoreServerSteps(conversation.messages, earlier.runs, earlier.owner);
  const request = {
    ...responseRequest(body, { ...conversation, messages }, base),
    ...kept,
    canAsk,
  };
  return answerTurn(
    c,
    {
      request,
      bytes,
      session: name,
      route: "responses",
      field: "input",
      body: (turn, end) => responseObject({ ...turn, model: agent.id, echo }, end),
      format: (turn) => responseEvents({ ...turn, model: agent.id, echo }),
    },
    deps,
  );
}
