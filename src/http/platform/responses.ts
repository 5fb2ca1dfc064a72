import type { ChatRequest, ChatSession } from "../../chat/types.ts";
import { restoreServerSteps } from "../../chat/server-steps.ts";
import type { EarlierRuns, RunOwner } from "../../chat/earlier-runs.ts";
import { type ChatRequestBase, callerTool, withoutNullish, jsonFormat, sessionFor, toThinking } from "./chat.ts";
import type { ChatMessage } from "./chat-schema.ts";
import { createFileReader } from "./files.ts";
import { type Conversation, imageLimits, readMessages } from "./messages.ts";
import { badRequest, type ApiProblem, ProblemError } from "./problems.ts";
import { responseEvents, responseObject, storedResponse, toEcho } from "./responses-output.ts";
import { type ResponseItem, type ResponsesBody, responsesBody } from "./responses-schema.ts";
import type { Context } from "hono";
import { getCorrelation, getSessionName, toSessionWarnings } from "./session-name.ts";
import { answerTurn } from "./turn.ts";
import { findAgent } from "./models.ts";
import { readCheckedBody } from "./read.ts";
import { jsonResponse, type PlatformEnv, type PlatformParts } from "./types.ts";

type Message = Extract<ResponseItem, { role: string }>;
type InputItem = Exclude<ResponseItem, { type: "item_reference" | "reasoning" }>;

/** What earlier turns the request may refer to. */
export interface Earlier {
  runs: EarlierRuns;
  owner: RunOwner;
}

/** The input with what it only refers to: a client sends an earlier answer as its id alone. */
export async function withReferences(input: ResponsesBody["input"], { runs, owner }: Earlier): Promise<string | readonly InputItem[]> {
  if (typeof input === "string") return input;
  const items: InputItem[] = [];
  for (const [index, item] of input.entries()) {
    // What a model thought is part of the answer that it led to.
    if (item.type === "reasoning" || (item.type === "item_reference" && item.id.startsWith("rs_"))) continue;
    if (item.type !== "item_reference") {
      items.push(item);
      continue;
    }
    const reply = item.id.startsWith("msg_") ? await runs.getReply(item.id.slice(4), owner) : undefined;
    if (reply === undefined)
      throw new ProblemError(badRequest(`input[${index}].id`, "there is no such answer; send it whole", "item_not_found"));
    items.push({ role: "assistant", content: reply });
  }
  return items;
}

type Part = Exclude<Message["content"], string>[number];

const getText = (part: Part): string => (part.type === "refusal" ? part.refusal : "text" in part ? part.text : "");

function userPart(part: Part): Exclude<Extract<ChatMessage, { role: "user" }>["content"], string>[number] {
  if (part.type === "input_image") return { type: "image_url", image_url: { url: part.image_url } };
  if (part.type === "input_file") return { type: "file", file: part };
  return { type: "text", text: getText(part) };
}

function toMessage({ role, content }: Message): ChatMessage {
  if (role === "user") return { role, content: typeof content === "string" ? content : content.map(userPart) };
  return { role, content: typeof content === "string" ? content : content.map(getText).join("") };
}

/** The items of an input as chat messages: one after the other, calls that belong together in one. */
export function toMessages(input: string | readonly InputItem[]): ChatMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const messages: ChatMessage[] = [];
  for (const item of input) {
    if (item.type === "function_call") {
      const call = { id: item.call_id, type: "function" as const, function: { name: item.name, arguments: item.arguments } };
      const last = messages.at(-1);
      if (last?.role === "assistant") last.tool_calls = [...(last.tool_calls ?? []), call];
      else messages.push({ role: "assistant", content: null, tool_calls: [call] });
    } else if (item.type === "function_call_output") {
      const output = typeof item.output === "string" ? item.output : item.output.map(({ text }) => text).join("");
      messages.push({ role: "tool", tool_call_id: item.call_id, content: output });
    } else messages.push(toMessage(item));
  }
  return messages;
}

const notFound: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "previous_response_not_found",
  param: "previous_response_id",
  message: "there is no such response of this key and model that was kept",
};

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
export async function responseSession(body: ResponsesBody, named: string | undefined, { runs, owner }: Earlier): Promise<ChatSession> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string" && conversation)
    throw new ProblemError(badRequest("conversation", "conversation: send either this or previous_response_id"));
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
  const all = [body.instructions, instructions].filter(Boolean).join("\n\n");
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
      ...jsonFormat(format?.type === "json_schema" ? { type: "json_schema", json_schema: format } : format),
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
export async function showResponse(c: Context<PlatformEnv>, deps: PlatformParts): Promise<Response> {
  const { key } = c.get("caller");
  const found = await deps.earlierRuns.findResponse((c.req.param("id") ?? "").replace(/^resp_/, ""), key.id);
  const isAllowed = found && (key.agents?.includes(found.agentId) ?? true);
  if (!isAllowed) throw new ProblemError(RESPONSE_NOT_FOUND);
  return jsonResponse(c, storedResponse(found));
}

/** `POST /v1/responses`: another form of the same turn. */
export async function createResponse(c: Context<PlatformEnv>, deps: PlatformParts): Promise<Response> {
  const { key } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, responsesBody);
  const agent = findAgent(body.model, key, snapshot);
  const name = getSessionName(c, body, key);
  const earlier = { runs: deps.earlierRuns, owner: { keyId: key.id, agentId: agent.id } };
  const session = await responseSession(body, name?.id, earlier);
  const input = await withReferences(body.input, earlier);
  const images = imageLimits(snapshot, deps.fetch, c.req.raw.signal);
  const conversation = await readMessages(toMessages(input), {
    images,
    readFile: createFileReader(c, deps),
    field: "input",
    continues: session.kind === "after",
  });
  const canAsk = body.stream === true && snapshot.approvers.includes(`api:${key.id}`);
  const caller = { id: key.id, tenant: key.tenant };
  const base = { agent, caller, session, correlation: getCorrelation(c), warnings: toSessionWarnings(name) };
  const echo = toEcho(body);
  const kept = body.store === false ? {} : { response: echo };
  const messages = await restoreServerSteps(conversation.messages, earlier.runs, earlier.owner);
  const request = { ...responseRequest(body, { ...conversation, messages }, base), ...kept, canAsk };
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
