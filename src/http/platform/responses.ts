import type { ChatRequest, ChatSession, ChatEnd, ChatTurn } from "../../chat/types.ts";
import type { EarlierRuns, RunOwner } from "../../chat/earlier-runs.ts";
import { approvalObject } from "./approvals.ts";
import { callerTool, withoutNullish, jsonFormat, sessionFor, toThinking, toCitations } from "./chat.ts";
import type { ChatMessage } from "./chat-schema.ts";
import { type Conversation, imageLimits, readMessages } from "./messages.ts";
import { badRequest, type ApiProblem, ProblemError, errorObject, turnProblem } from "./problems.ts";
import { type ResponseItem, type ResponsesBody, responsesBody } from "./responses-schema.ts";
import type { StreamFormat, SuccessfulEnd } from "./stream.ts";
import type { Context } from "hono";
import { answerTurn, getSessionName } from "./turn.ts";
import { findAgent } from "./models.ts";
import { readCheckedBody } from "./read.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

type Message = Extract<ResponseItem, { role: string }>;
type InputItem = Exclude<ResponseItem, { type: "item_reference" }>;

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
  base: Pick<ChatRequest, "agent" | "caller" | "session">,
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

interface NamedResponse {
  turn: ChatTurn;
  model: string;
  body: ResponsesBody;
}

const toStatus = ({ finish, calls }: SuccessfulEnd): "completed" | "incomplete" =>
  calls.length === 0 && (finish === "length" || finish === "content-filter") ? "incomplete" : "completed";

function toUsage({ usage: { inputTokens, outputTokens, totalTokens } }: SuccessfulEnd) {
  if (inputTokens === undefined && outputTokens === undefined) return null;
  const [input, output] = [inputTokens ?? 0, outputTokens ?? 0];
  return { input_tokens: input, output_tokens: output, total_tokens: totalTokens ?? input + output };
}

function textPart(text: string, end?: SuccessfulEnd) {
  const annotations = (end?.citations ?? []).map(({ documentId, chunkId, filename, title }) => ({
    type: "url_citation" as const,
    start_index: 0,
    end_index: 0,
    url: `rouse:documents/${documentId}#${chunkId}`,
    title: title ?? filename,
  }));
  return { type: "output_text" as const, text, annotations, logprobs: [] };
}

const messageItem = ({ turn }: NamedResponse, status: string, content: readonly object[]) => ({
  type: "message" as const,
  id: `msg_${turn.runId}`,
  status,
  role: "assistant" as const,
  content,
});

const callItem = ({ id, tool, input }: SuccessfulEnd["calls"][number], status: string, withInput = true) => ({
  type: "function_call" as const,
  id: `fc_${id}`,
  call_id: id,
  name: tool,
  arguments: withInput ? JSON.stringify(input ?? {}) : "",
  status,
});

function buildOutput(named: NamedResponse, end: SuccessfulEnd): object[] {
  const status = toStatus(end);
  const message = end.text === "" && end.calls.length > 0 ? [] : [messageItem(named, status, [textPart(end.text, end)])];
  return [...message, ...end.calls.map((call) => callItem(call, "completed"))];
}

/** Why a response is incomplete; null if it is not. */
function getIncompleteDetails({ finish }: SuccessfulEnd, status: string) {
  if (status !== "incomplete") return null;
  return { reason: finish === "content-filter" ? "content_filter" : "max_output_tokens" };
}

/** The response object, as far as it is known: without an end it is under way. */
export function responseObject(named: NamedResponse, end?: SuccessfulEnd) {
  const { turn, model, body } = named;
  const status = end ? toStatus(end) : "in_progress";
  return {
    id: `resp_${turn.runId}`,
    object: "response" as const,
    created_at: Math.floor(turn.createdAt / 1000),
    status,
    error: null,
    incomplete_details: end ? getIncompleteDetails(end, status) : null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model,
    output: end ? buildOutput(named, end) : [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    store: body.store ?? true,
    temperature: body.temperature ?? null,
    text: { format: body.text?.format ?? { type: "text" as const } },
    tool_choice: body.tool_choice ?? ("auto" as const),
    tools: body.tools ?? [],
    top_p: body.top_p ?? null,
    usage: end ? toUsage(end) : null,
    metadata: body.metadata ?? {},
    ...(end && end.citations.length > 0 ? { citations: toCitations(end.citations) } : {}),
  };
}

/** The typed events of a streamed response. */
export function responseEvents(named: NamedResponse): StreamFormat {
  let sequence = 0;
  let text = "";
  let items = 0;
  const event = (type: string, fields: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`;
  const inPart = { item_id: `msg_${named.turn.runId}`, output_index: 0, content_index: 0 };
  const openMessage = (): string => {
    items++;
    const item = event("response.output_item.added", { output_index: 0, item: messageItem(named, "in_progress", []) });
    return item + event("response.content_part.added", { ...inPart, part: textPart("") });
  };
  const closeMessage = (end: SuccessfulEnd): string => {
    const part = textPart(text, end);
    return [
      event("response.output_text.done", { ...inPart, text, logprobs: [] }),
      event("response.content_part.done", { ...inPart, part }),
      event("response.output_item.done", { output_index: 0, item: messageItem(named, toStatus(end), [part]) }),
    ].join("");
  };
  const call = (made: SuccessfulEnd["calls"][number]): string => {
    const output_index = items++;
    const item = callItem(made, "completed");
    const at = { item_id: item.id, output_index };
    return [
      event("response.output_item.added", { output_index, item: callItem(made, "in_progress", false) }),
      event("response.function_call_arguments.delta", { ...at, delta: item.arguments }),
      event("response.function_call_arguments.done", { ...at, name: item.name, arguments: item.arguments }),
      event("response.output_item.done", { output_index, item }),
    ].join("");
  };
  return {
    begin() {
      const response = responseObject(named);
      return event("response.created", { response }) + event("response.in_progress", { response });
    },
    text(delta) {
      const opened = items === 0 ? openMessage() : "";
      text += delta;
      return opened + event("response.output_text.delta", { ...inPart, delta, logprobs: [] });
    },
    approval: (approval) => event("approval.required", { approval: approvalObject(approval) }),
    end(end) {
      const opened = items === 0 && end.calls.length === 0 ? openMessage() : "";
      const message = items > 0 ? opened + closeMessage(end) : "";
      const calls = end.calls.map(call).join("");
      return message + calls + event(`response.${toStatus(end)}`, { response: responseObject(named, end) });
    },
    failed(end: Extract<ChatEnd, { ok: false }>) {
      const { error } = errorObject(turnProblem(end));
      const { message, param, code } = error;
      // The published form, and the one that clients have been seen to read.
      return event("error", { message, param, code, error });
    },
  };
}

/** `POST /v1/responses`: another form of the same turn. */
export async function createResponse(c: Context<PlatformEnv>, deps: PlatformParts): Promise<Response> {
  const { key } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, responsesBody);
  const agent = findAgent(body.model, key, snapshot);
  const name = getSessionName(c, body, key);
  const earlier = { runs: deps.earlierRuns, owner: { keyId: key.id, agentId: agent.id } };
  const session = await responseSession(body, name, earlier);
  const input = await withReferences(body.input, earlier);
  const images = imageLimits(snapshot, deps.fetch, c.req.raw.signal);
  const conversation = await readMessages(toMessages(input), { images, field: "input", continues: session.kind === "after" });
  const canAsk = body.stream === true && snapshot.approvers.includes(`api:${key.id}`);
  const request = { ...responseRequest(body, conversation, { agent, caller: { id: key.id, tenant: key.tenant }, session }), canAsk };
  return answerTurn(
    c,
    {
      request,
      bytes,
      session: name,
      route: "responses",
      body: (turn, end) => responseObject({ turn, model: agent.id, body }, end),
      format: (turn) => responseEvents({ turn, model: agent.id, body }),
    },
    deps,
  );
}
