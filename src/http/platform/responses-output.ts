import type { ChatTurn } from "../../chat/types.ts";
import type { StoredResponse } from "../../chat/history.ts";
import { approvalObject } from "./approvals.ts";
import { toAnnotations, toCitations } from "./chat.ts";
import { toSeconds } from "../../core/clock.ts";
import { errorObject, streamProblem, turnProblem } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import { listCallerTools, readCustomInput } from "./responses-tools.ts";
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
  "include",
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

/** The parts of an answered turn that a response shows. */
export type ResponseEnd = Pick<
  SuccessfulEnd,
  "text" | "reasoning" | "calls" | "finish" | "usage" | "citations"
>;

const toStatus = ({ finish }: Pick<ResponseEnd, "finish">): "completed" | "incomplete" =>
  finish === "length" || finish === "content-filter" ? "incomplete" : "completed";

/** As the provider counted it; 0 if it did not. Clients read the counts without asking whether they are there. */
function toUsage({
  inputTokens: input = 0,
  outputTokens: output = 0,
  totalTokens,
  cachedInputTokens = 0,
  reasoningTokens = 0,
}: ResponseEnd["usage"]) {
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

/** Builds the item of a call. It is found again by `n`, its place among the calls of the answer. */
export const functionItem = (
  runId: string,
  { id, tool, input, inputText }: ResponseEnd["calls"][number],
  n: number,
) => ({
  type: "function_call" as const,
  id: `fc_${runId}_${n}`,
  call_id: id,
  name: tool,
  arguments: inputText ?? JSON.stringify(input ?? {}),
});

/** Builds the items of an answer's calls, as their caller knows the tools. Only the last one may be cut. */
function callItems({ runId, echo }: ResponseHead, { calls, ...end }: ResponseEnd) {
  const tools = listCallerTools(echo.tools);
  return calls.map((call, n) => {
    const { arguments: written, ...item } = functionItem(runId, call, n);
    const status = n + 1 < calls.length ? "completed" : toStatus(end);
    const { wire, isCustom } = tools.find(({ tool: { name } }) => name === item.name) ?? {};
    return isCustom
      ? {
          ...item,
          ...wire,
          type: "custom_tool_call" as const,
          id: `ctc_${runId}_${n}`,
          input: readCustomInput(written),
          status,
        }
      : { ...item, ...wire, arguments: written, status };
  });
}

type CallItem = ReturnType<typeof callItems>[number];

/** Returns the field of a call that the model wrote, the events that it comes in, and its value. */
const getWritten = (item: CallItem): [field: string, type: string, written: string] =>
  item.type === "custom_tool_call"
    ? ["input", "response.custom_tool_call_input", item.input]
    : ["arguments", "response.function_call_arguments", item.arguments];

const summaryPart = (text: string) => ({ type: "summary_text" as const, text });

/** Stands before the text of `encrypted_content`: those of other servers cannot be read. */
export const OWN_REASONING = "rouse:";

/** True if the request asks for the field without which some clients send no reasoning back. */
const wantsEncrypted = ({ echo: { include } }: ResponseHead): boolean =>
  Array.isArray(include) && include.includes("reasoning.encrypted_content");

const reasoningItem = (head: ResponseHead, summary: readonly { text: string }[]) => ({
  type: "reasoning" as const,
  id: `rs_${head.runId}`,
  summary,
  ...(wantsEncrypted(head) && {
    encrypted_content: OWN_REASONING + summary.map(({ text }) => text).join(""),
  }),
});

/** True if the request has asked for the model's reasoning. */
const wantsReasoning = (head: ResponseHead): boolean =>
  typeof head.echo.reasoning?.summary === "string" || wantsEncrypted(head);

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
  return [...reasoning, ...message, ...callItems(head, end)];
}

/** Returns the reason that a response is incomplete; null if it is complete. */
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
    created_at: toSeconds(createdAt),
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
export function storedResponse(stored: StoredResponse) {
  const { runId, createdAt, agentId, status, echo, end, error } = stored;
  const response = responseObject({ runId, createdAt, model: agentId, echo }, end);
  const failed = error
    ? { code: error.code, message: turnProblem({ ok: false, ...error }, "input").message }
    : null;
  return { ...response, status: STATES[status] ?? response.status, error: failed };
}

const failedResponse = (head: ResponseHead, error: { code: string; message: string }) => ({
  ...responseObject(head),
  status: "failed",
  error,
});

/** The parts of an answer that come in pieces: the reply, and the model's reasoning. */
type Streamed = "message" | "reasoning";

/** An item of the output that is being written. */
interface OpenItem {
  /** Its place among the items. */
  at: number;
  text: string;
}

const EVENTS = {
  message: { part: "response.content_part", text: "response.output_text" },
  reasoning: { part: "response.reasoning_summary_part", text: "response.reasoning_summary_text" },
};

/** Writes a turn as a response, or as its typed events. */
export function renderResponse(head: ResponseHead): TurnRenderer {
  const open: Partial<Record<Streamed, OpenItem>> = {};
  let sequence = 0;
  let items = 0;
  const event = (type: string, fields: object) => ({
    type,
    sequence_number: sequence++,
    ...fields,
  });
  const itemEvent = (state: "added" | "done", output_index: number, item: object) =>
    event(`response.output_item.${state}`, { output_index, item });

  const toPart = (kind: Streamed, text: string, end?: ResponseEnd) =>
    kind === "message" ? textPart(text, end) : summaryPart(text);
  const toItem = (kind: Streamed, status: string, parts: readonly { text: string }[]) =>
    kind === "message" ? messageItem(head, status, parts) : reasoningItem(head, parts);
  const place = (kind: Streamed, at: number) => ({
    item_id: toItem(kind, "", []).id,
    output_index: at,
    [kind === "message" ? "content_index" : "summary_index"]: 0,
  });
  const logprobs = (kind: Streamed) => (kind === "message" ? { logprobs: [] } : {});

  const begin = (kind: Streamed): object[] => {
    const at = items++;
    open[kind] = { at, text: "" };
    return [
      itemEvent("added", at, toItem(kind, "in_progress", [])),
      event(`${EVENTS[kind].part}.added`, { ...place(kind, at), part: toPart(kind, "") }),
    ];
  };
  const add = (kind: Streamed, delta: string): object[] => {
    const begun = open[kind] ? [] : begin(kind);
    const item = open[kind] as OpenItem;
    item.text += delta;
    const fields = { ...place(kind, item.at), delta, ...logprobs(kind) };
    return [...begun, event(`${EVENTS[kind].text}.delta`, fields)];
  };
  const close = (kind: Streamed, end: ResponseEnd): object[] => {
    const item = open[kind];
    if (!item) return [];
    const { at, text } = item;
    const part = toPart(kind, text, end);
    const annotations = "annotations" in part ? part.annotations : [];
    return [
      ...annotations.map((annotation, annotation_index) =>
        event("response.output_text.annotation.added", {
          ...place(kind, at),
          annotation_index,
          annotation,
        }),
      ),
      event(`${EVENTS[kind].text}.done`, { ...place(kind, at), text, ...logprobs(kind) }),
      event(`${EVENTS[kind].part}.done`, { ...place(kind, at), part }),
      itemEvent("done", at, toItem(kind, toStatus(end), [part])),
    ];
  };
  const call = (item: CallItem): object[] => {
    const output_index = items++;
    const at = { item_id: item.id, output_index };
    const [field, type, written] = getWritten(item);
    return [
      itemEvent("added", output_index, { ...item, status: "in_progress", [field]: "" }),
      event(`${type}.delta`, { ...at, delta: written }),
      event(`${type}.done`, { ...at, name: item.name, [field]: written }),
      itemEvent("done", output_index, item),
    ];
  };
  return {
    whole: (end) => responseObject(head, end),
    begun: () => responseObject(head),
    begin() {
      const response = responseObject(head);
      return [event("response.created", { response }), event("response.in_progress", { response })];
    },
    text: (delta) => add("message", delta),
    // A model that calls tools thinks again between its words: the item stays open to the end.
    reasoning: (delta) => (wantsReasoning(head) ? add("reasoning", delta) : []),
    approval: (approval) => [event("approval.required", { approval: approvalObject(approval) })],
    end: (end) => [
      ...close("reasoning", end),
      ...(!open.message && end.calls.length === 0 ? begin("message") : []),
      ...close("message", end),
      ...callItems(head, end).flatMap(call),
      event(`response.${toStatus(end)}`, { response: responseObject(head, end) }),
    ],
    failed(end) {
      const { error } = errorObject(streamProblem(end, "input"));
      const { message, param, code } = error;
      return [
        // The published form, and the one that clients have been seen to read.
        event("error", { message, param, code, error }),
        // Coding clients read the reason from this one alone.
        event("response.failed", { response: failedResponse(head, { code, message }) }),
      ];
    },
  };
}
