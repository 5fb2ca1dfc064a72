import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import type { StoredResponse } from "../../chat/history.ts";
import { approvalObject } from "./approvals.ts";
import { withoutNullish } from "./chat.ts";
import { toAnnotations, toCitations } from "./citations.ts";
import { errorObject, streamProblem, turnProblem } from "./problems.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import type { StreamFormat, SuccessfulEnd } from "./stream.ts";

/** The fields of a request that its response repeats. */
export type ResponseEcho = Partial<
  Pick<
    ResponsesBody,
    | "instructions"
    | "max_output_tokens"
    | "parallel_tool_calls"
    | "previous_response_id"
    | "conversation"
    | "reasoning"
    | "store"
    | "temperature"
    | "text"
    | "tool_choice"
    | "tools"
    | "top_p"
    | "metadata"
  >
>;

/** Returns the fields of a request that its response repeats. */
export function toEcho(body: ResponsesBody): ResponseEcho {
  const {
    instructions,
    max_output_tokens,
    parallel_tool_calls,
    previous_response_id,
    conversation,
    reasoning,
    store,
  } = body;
  const { temperature, text, tool_choice, tools, top_p, metadata } = body;
  const first = {
    instructions,
    max_output_tokens,
    parallel_tool_calls,
    previous_response_id,
    conversation,
    reasoning,
    store,
  };
  return withoutNullish({ ...first, temperature, text, tool_choice, tools, top_p, metadata });
}

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

/** The typed events of a streamed response. */
class ResponseEvents implements StreamFormat {
  readonly #head: ResponseHead;
  #sequence = 0;
  #text = "";
  #reasoning = "";
  /** The places of the items that are open; undefined for one that has not begun. */
  #messageAt: number | undefined;
  #reasoningAt: number | undefined;
  #items = 0;

  constructor(head: ResponseHead) {
    this.#head = head;
  }

  #event(type: string, fields: object): string {
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: this.#sequence++, ...fields })}\n\n`;
  }

  #openMessage(): string {
    this.#messageAt = this.#items++;
    const item = this.#event("response.output_item.added", {
      output_index: this.#messageAt,
      item: messageItem(this.#head, "in_progress", []),
    });
    return (
      item +
      this.#event("response.content_part.added", { ...this.#inMessage(), part: textPart("") })
    );
  }

  #inMessage(): object {
    return { item_id: `msg_${this.#head.runId}`, output_index: this.#messageAt, content_index: 0 };
  }

  #inReasoning(): object {
    return { item_id: `rs_${this.#head.runId}`, output_index: this.#reasoningAt, summary_index: 0 };
  }

  #closeMessage(end: ResponseEnd): string {
    const part = textPart(this.#text, end);
    const inPart = this.#inMessage();
    return [
      this.#event("response.output_text.done", { ...inPart, text: this.#text, logprobs: [] }),
      this.#event("response.content_part.done", { ...inPart, part }),
      this.#event("response.output_item.done", {
        output_index: this.#messageAt,
        item: messageItem(this.#head, toStatus(end), [part]),
      }),
    ].join("");
  }

  #closeReasoning(): string {
    const part = summaryPart(this.#reasoning);
    const inPart = this.#inReasoning();
    return [
      this.#event("response.reasoning_summary_text.done", { ...inPart, text: this.#reasoning }),
      this.#event("response.reasoning_summary_part.done", { ...inPart, part }),
      this.#event("response.output_item.done", {
        output_index: this.#reasoningAt,
        item: reasoningItem(this.#head, [part]),
      }),
    ].join("");
  }

  #call(made: ResponseEnd["calls"][number]): string {
    const output_index = this.#items++;
    const item = callItem(made, "completed");
    const at = { item_id: item.id, output_index };
    return [
      this.#event("response.output_item.added", {
        output_index,
        item: callItem(made, "in_progress", false),
      }),
      this.#event("response.function_call_arguments.delta", { ...at, delta: item.arguments }),
      this.#event("response.function_call_arguments.done", {
        ...at,
        name: item.name,
        arguments: item.arguments,
      }),
      this.#event("response.output_item.done", { output_index, item }),
    ].join("");
  }

  begin(): string {
    const response = responseObject(this.#head);
    return (
      this.#event("response.created", { response }) +
      this.#event("response.in_progress", { response })
    );
  }

  text(delta: string): string {
    const opened = this.#messageAt === undefined ? this.#openMessage() : "";
    this.#text += delta;
    return (
      opened +
      this.#event("response.output_text.delta", { ...this.#inMessage(), delta, logprobs: [] })
    );
  }

  /** A model that calls tools thinks again between its words: the item stays open to the end. */
  reasoning(delta: string): string {
    if (!wantsReasoning(this.#head)) return "";
    let opened = "";
    if (this.#reasoningAt === undefined) {
      this.#reasoningAt = this.#items++;
      opened =
        this.#event("response.output_item.added", {
          output_index: this.#reasoningAt,
          item: reasoningItem(this.#head, []),
        }) +
        this.#event("response.reasoning_summary_part.added", {
          ...this.#inReasoning(),
          part: summaryPart(""),
        });
    }
    this.#reasoning += delta;
    return (
      opened +
      this.#event("response.reasoning_summary_text.delta", { ...this.#inReasoning(), delta })
    );
  }

  approval(approval: Parameters<NonNullable<StreamFormat["approval"]>>[0]): string {
    return this.#event("approval.required", { approval: approvalObject(approval) });
  }

  end(end: SuccessfulEnd): string {
    const reasoning = this.#reasoningAt === undefined ? "" : this.#closeReasoning();
    const opened =
      this.#messageAt === undefined && end.calls.length === 0 ? this.#openMessage() : "";
    const message = this.#messageAt === undefined ? "" : opened + this.#closeMessage(end);
    const calls = end.calls.map((made) => this.#call(made)).join("");
    const response = responseObject(this.#head, end);
    return reasoning + message + calls + this.#event(`response.${toStatus(end)}`, { response });
  }

  failed(end: Extract<ChatEnd, { ok: false }>): string {
    const { error } = errorObject(streamProblem(end, "input"));
    const { message, param, code } = error;
    // The published form, and the one that clients have been seen to read.
    return this.#event("error", { message, param, code, error });
  }
}

/** Creates the format of a streamed response. */
export const responseEvents = (head: ResponseHead): StreamFormat => new ResponseEvents(head);
