import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import { approvalObject } from "./approvals.ts";
import { toCitations, type SuccessfulEnd } from "./chat-answer.ts";
import { errorObject, turnProblem } from "./problems.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import type { StreamFormat } from "./stream.ts";

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
