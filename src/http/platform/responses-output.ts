import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import type { StoredResponse } from "../../chat/history.ts";
import { approvalObject } from "./approvals.ts";
import { toAnnotations, toCitations } from "./citations.ts";
import { errorObject, streamProblem, turnProblem } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import type { SuccessfulEnd, TurnRenderer } from "./stream.ts";

/** The fields of a request that its response repeats. */
const ECHOED = [
  "instructions",
  "max_output_tokens",
  "parallel_tool_calls",
  "previous_response_id",
  "conversation",
  "reasoning",
  "store",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_p",
  "metadata",
] as const satisfies (keyof ResponsesBody)[];

export type ResponseEcho = Partial<Pick<ResponsesBody, (typeof ECHOED)[number]>>;

export const toEcho = (body: ResponsesBody): ResponseEcho =>
  withoutNullish(Object.fromEntries(ECHOED.map((name) => [name, body[name]])));

/** A response before its output. */
export interface ResponseHead extends Pick<ChatTurn, "runId" | "createdAt"> {
  /** The agent's id. */
  model: string;
  echo: ResponseEcho;
}

/** What a response says of a turn that has an answer. */
export type ResponseEnd = Pick<
  SuccessfulEnd,
  "text" | "reasoning" | "calls" | "finish" | "usage" | "citations"
>;

const toStatus = ({
  finish,
  calls,
}: Pick<ResponseEnd, "finish" | "calls">): "completed" | "incomplete" =>
  calls.length === 0 && (finish === "length" || finish === "content-filter")
    ? "incomplete"
    : "completed";

/** As the provider counted it; null if it did not. Clients read the details without asking whether they are there. */
function toUsage({
  inputTokens,
  outputTokens,
  totalTokens,
  cachedInputTokens = 0,
  reasoningTokens = 0,
}: ResponseEnd["usage"]) {
  if (inputTokens === undefined && outputTokens === undefined) return null;
  const [input, output] = [inputTokens ?? 0, outputTokens ?? 0];
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cachedInputTokens },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: totalTokens ?? input + output,
  };
}

function textPart(text: string, end?: ResponseEnd) {
  const annotations = toAnnotations(text, end?.citations ?? []);
  return { type: "output_text" as const, text, annotations, logprobs: [] };
}

const messageItem = ({ runId }: ResponseHead, status: string, content: readonly object[]) => ({
  type: "message" as const,
  id: `msg_${runId}`,
  status,
  role: "assistant" as const,
  content,
});

const callItem = (
  { id, tool, input, inputText }: ResponseEnd["calls"][number],
  status: string,
  withInput = true,
) => ({
  type: "function_call" as const,
  id: `fc_${id}`,
  call_id: id,
  name: tool,
  arguments: withInput ? (inputText ?? JSON.stringify(input ?? {})) : "",
  status,
});

const summaryPart = (text: string) => ({ type: "summary_text" as const, text });

const reasoningItem = ({ runId }: ResponseHead, summary: readonly object[]) => ({
  type: "reasoning" as const,
  id: `rs_${runId}`,
  summary,
});

/** Whether the request has asked for the model's reasoning. */
const wantsReasoning = ({ echo }: ResponseHead): boolean =>
  typeof echo.reasoning?.summary === "string";

function buildOutput(head: ResponseHead, end: ResponseEnd): object[] {
  const status = toStatus(end);
  const reasoning =
    wantsReasoning(head) && end.reasoning !== ""
      ? [reasoningItem(head, [summaryPart(end.reasoning)])]
      : [];
  const message =
    end.text === "" && end.calls.length > 0
      ? []
      : [messageItem(head, status, [textPart(end.text, end)])];
  return [...reasoning, ...message, ...end.calls.map((call) => callItem(call, "completed"))];
}

/** Why a response is incomplete; null if it is not. */
function getIncompleteDetails({ finish }: Pick<ResponseEnd, "finish">, status: string) {
  if (status !== "incomplete") return null;
  return { reason: finish === "content-filter" ? "content_filter" : "max_output_tokens" };
}

const toConversation = (conversation: ResponseEcho["conversation"]) =>
  conversation ? { id: typeof conversation === "string" ? conversation : conversation.id } : null;

/** The response object, as far as it is known: without an end it is under way. */
export function responseObject(head: ResponseHead, end?: ResponseEnd) {
  const { runId, createdAt, model, echo } = head;
  const status = end ? toStatus(end) : "in_progress";
  const citations = end ? toCitations(end.text, end.citations) : [];
  return {
    id: `resp_${runId}`,
    object: "response" as const,
    created_at: Math.floor(createdAt / 1000),
    status,
    error: null,
    incomplete_details: end ? getIncompleteDetails(end, status) : null,
    conversation: toConversation(echo.conversation),
    instructions: echo.instructions ?? null,
    max_output_tokens: echo.max_output_tokens ?? null,
    model,
    output: end ? buildOutput(head, end) : [],
    parallel_tool_calls: echo.parallel_tool_calls ?? true,
    previous_response_id: echo.previous_response_id ?? null,
    store: echo.store ?? true,
    temperature: echo.temperature ?? null,
    text: { format: echo.text?.format ?? { type: "text" as const } },
    tool_choice: echo.tool_choice ?? ("auto" as const),
    tools: echo.tools ?? [],
    top_p: echo.top_p ?? null,
    usage: end ? toUsage(end.usage) : null,
    metadata: echo.metadata ?? {},
    ...(citations.length > 0 ? { citations } : {}),
  };
}

const STATES: Partial<Record<StoredResponse["status"], string>> = {
  queued: "queued",
  failed: "failed",
  timed_out: "failed",
  cancelled: "cancelled",
};

/** The response object of a turn that has ended, or has not yet. */
export function storedResponse({
  runId,
  createdAt,
  agentId,
  status,
  echo,
  end,
  error,
}: StoredResponse) {
  const response = responseObject({ runId, createdAt, model: agentId, echo }, end);
  const failed = error
    ? { code: error.code, message: turnProblem({ ok: false, ...error }, "input").message }
    : null;
  return { ...response, status: STATES[status] ?? response.status, error: failed };
}

/** An item of the output that comes in pieces. */
interface OpenItem {
  id: string;
  /** Its place among the items. */
  at: number;
  text: string;
}

/** Writes a turn as a response, or as its typed events. */
export class ResponseRenderer implements TurnRenderer {
  readonly #head: ResponseHead;
  #sequence = 0;
  #items = 0;
  #message: OpenItem | undefined;
  #reasoning: OpenItem | undefined;

  constructor(head: ResponseHead) {
    this.#head = head;
  }

  #event(type: string, fields: object): object {
    return { type, sequence_number: this.#sequence++, ...fields };
  }

  #itemEvent(state: "added" | "done", output_index: number, item: object): object {
    return this.#event(`response.output_item.${state}`, { output_index, item });
  }

  #openMessage(): object[] {
    const item = messageItem(this.#head, "in_progress", []);
    const open = { id: item.id, at: this.#items++, text: "" };
    this.#message = open;
    return [
      this.#itemEvent("added", open.at, item),
      this.#event("response.content_part.added", { ...inMessage(open), part: textPart("") }),
    ];
  }

  #closeMessage(open: OpenItem, end: ResponseEnd): object[] {
    const { text, at } = open;
    const part = textPart(text, end);
    return [
      this.#event("response.output_text.done", { ...inMessage(open), text, logprobs: [] }),
      this.#event("response.content_part.done", { ...inMessage(open), part }),
      this.#itemEvent("done", at, messageItem(this.#head, toStatus(end), [part])),
    ];
  }

  #openReasoning(): object[] {
    const item = reasoningItem(this.#head, []);
    const open = { id: item.id, at: this.#items++, text: "" };
    this.#reasoning = open;
    const part = summaryPart("");
    return [
      this.#itemEvent("added", open.at, item),
      this.#event("response.reasoning_summary_part.added", { ...inReasoning(open), part }),
    ];
  }

  #closeReasoning(open: OpenItem): object[] {
    const { text, at } = open;
    const part = summaryPart(text);
    return [
      this.#event("response.reasoning_summary_text.done", { ...inReasoning(open), text }),
      this.#event("response.reasoning_summary_part.done", { ...inReasoning(open), part }),
      this.#itemEvent("done", at, reasoningItem(this.#head, [part])),
    ];
  }

  #call(made: ResponseEnd["calls"][number]): object[] {
    const output_index = this.#items++;
    const item = callItem(made, "completed");
    const { id, name, arguments: input } = item;
    const at = { item_id: id, output_index };
    return [
      this.#itemEvent("added", output_index, callItem(made, "in_progress", false)),
      this.#event("response.function_call_arguments.delta", { ...at, delta: input }),
      this.#event("response.function_call_arguments.done", { ...at, name, arguments: input }),
      this.#itemEvent("done", output_index, item),
    ];
  }

  whole(end: SuccessfulEnd): object {
    return responseObject(this.#head, end);
  }

  begin(): object[] {
    const response = responseObject(this.#head);
    return [
      this.#event("response.created", { response }),
      this.#event("response.in_progress", { response }),
    ];
  }

  text(delta: string): object[] {
    const opened = this.#message ? [] : this.#openMessage();
    const open = this.#message as OpenItem;
    open.text += delta;
    const fields = { ...inMessage(open), delta, logprobs: [] };
    return [...opened, this.#event("response.output_text.delta", fields)];
  }

  /** A model that calls tools thinks again between its words: the item stays open to the end. */
  reasoning(delta: string): object[] {
    if (!wantsReasoning(this.#head)) return [];
    const opened = this.#reasoning ? [] : this.#openReasoning();
    const open = this.#reasoning as OpenItem;
    open.text += delta;
    const fields = { ...inReasoning(open), delta };
    return [...opened, this.#event("response.reasoning_summary_text.delta", fields)];
  }

  approval(approval: Parameters<TurnRenderer["approval"]>[0]): object[] {
    return [this.#event("approval.required", { approval: approvalObject(approval) })];
  }

  end(end: SuccessfulEnd): object[] {
    const reasoning = this.#reasoning ? this.#closeReasoning(this.#reasoning) : [];
    const opened = !this.#message && end.calls.length === 0 ? this.#openMessage() : [];
    const message = this.#message ? this.#closeMessage(this.#message, end) : [];
    const calls = end.calls.flatMap((made) => this.#call(made));
    const response = this.whole(end);
    return [
      ...reasoning,
      ...opened,
      ...message,
      ...calls,
      this.#event(`response.${toStatus(end)}`, { response }),
    ];
  }

  failed(end: Extract<ChatEnd, { ok: false }>): object[] {
    const { error } = errorObject(streamProblem(end, "input"));
    const { message, param, code } = error;
    // The published form, and the one that clients have been seen to read.
    return [this.#event("error", { message, param, code, error })];
  }
}

const inMessage = ({ id, at }: OpenItem) => ({ item_id: id, output_index: at, content_index: 0 });
const inReasoning = ({ id, at }: OpenItem) => ({ item_id: id, output_index: at, summary_index: 0 });
