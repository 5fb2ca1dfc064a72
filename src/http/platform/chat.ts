import type { CallerTool, Sampling } from "../../agent/types.ts";
import type { ChatSession, ChatTurn } from "../../chat/types.ts";
import type { Thinking } from "../../config/schema/common.ts";
import { type ChatBody, chatBody } from "./chat-schema.ts";
import { toSeconds } from "../../core/clock.ts";
import { cutText } from "../../core/text.ts";
import { findCited, type NamedCitation } from "../../turns/knowledge.ts";
import { errorObject, streamProblem } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import type { SuccessfulEnd, TurnRenderer } from "./stream.ts";
import { serveTurn } from "./turn.ts";

type Format = NonNullable<ChatBody["response_format"]>;

/** An answer in JSON, where one was asked for. */
export function jsonFormat(format: Format | null | undefined): Pick<Sampling, "json"> {
  if (!format || format.type === "text") return {};
  if (format.type === "json_object") return { json: {} };
  const { json_schema: schema } = format;
  return { json: { ...withoutNullish(schema), strict: schema.strict ?? false } };
}

/** The settings of a model call that have the same names in both forms of the API. */
export const commonSampling = (
  body: Pick<ChatBody, "temperature" | "top_p" | "parallel_tool_calls">,
) => ({
  temperature: body.temperature,
  topP: body.top_p,
  parallelToolCalls: body.parallel_tool_calls,
});

/** Vendors reject an empty list and an empty text, which clients send for "none". */
function toStopSequences(stop: ChatBody["stop"]): string[] | undefined {
  const texts = [stop ?? []].flat().filter((text) => text !== "");
  return texts.length > 0 ? texts : undefined;
}

function toSampling(body: ChatBody): Sampling {
  const { tool_choice: choice } = body;
  const toolChoice = typeof choice === "object" && choice ? { tool: choice.function.name } : choice;
  return {
    ...withoutNullish({
      ...commonSampling(body),
      maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
      stopSequences: toStopSequences(body.stop),
      seed: body.seed,
      presencePenalty: body.presence_penalty,
      frequencyPenalty: body.frequency_penalty,
      toolChoice,
    }),
    ...jsonFormat(body.response_format),
  };
}

/** A tool of the caller from its fields on the wire. */
export function callerTool(fields: {
  name: string;
  description?: string | null | undefined;
  parameters?: Record<string, unknown> | null | undefined;
  strict?: boolean | null | undefined;
}): CallerTool {
  const { name, parameters, description, strict } = fields;
  // Programs in Go write null for an absent keyword; vendors reject it.
  const schema = parameters && withoutNullish(parameters);
  return { name, ...withoutNullish({ description, schema, strict }) };
}

/** The level of thinking that an effort means. */
export function toThinking(effort: ChatBody["reasoning_effort"]): Thinking | undefined {
  return effort === "none" ? "off" : (effort ?? undefined);
}

/** The session that a name stands for. Without a name the turn has no history of the server. */
export const sessionFor = (name: string | undefined): ChatSession =>
  name === undefined ? { kind: "none" } : { kind: "named", id: name };

/** As the provider counted it; null if it did not. */
function toUsage({
  inputTokens,
  outputTokens,
  totalTokens,
  cachedInputTokens,
  reasoningTokens,
}: SuccessfulEnd["usage"]) {
  if (inputTokens === undefined && outputTokens === undefined) return null;
  const prompt = inputTokens ?? 0;
  const completion = outputTokens ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: totalTokens ?? prompt + completion,
    ...(cachedInputTokens === undefined
      ? {}
      : { prompt_tokens_details: { cached_tokens: cachedInputTokens } }),
    ...(reasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
}

function toFinishReason({
  finish,
  calls,
}: SuccessfulEnd): "stop" | "length" | "content_filter" | "tool_calls" {
  // The arguments of the last call may be cut: a client that trusts the reason would carry out half of it.
  if (finish === "length") return "length";
  if (finish === "content-filter") return "content_filter";
  return calls.length > 0 ? "tool_calls" : "stop";
}

function toToolCalls({ calls }: SuccessfulEnd) {
  return calls.map(({ id, tool, input, inputText }) => ({
    id,
    type: "function" as const,
    function: { name: tool, arguments: inputText ?? JSON.stringify(input ?? {}) },
  }));
}

const MAX_QUOTE = 300;

/** The passages that an answer names, in fields of our own. They stand once, on what ends the answer. */
export function toCitations(text: string, passages: readonly NamedCitation[]) {
  return findCited(text, passages).cited.map(
    ({ number, documentId, chunkId, filename, title, page, score, text: quoted }) => ({
      index: number,
      document_id: documentId,
      chunk_id: chunkId,
      filename,
      title,
      page,
      score,
      quote: cutText(quoted, MAX_QUOTE).text,
    }),
  );
}

/** The same in the form that clients know: one for each number in the text. */
export function toAnnotations(text: string, passages: readonly NamedCitation[]) {
  return findCited(text, passages).marks.map(
    ({ citation: { documentId, chunkId, filename, title }, start, end }) => ({
      type: "url_citation" as const,
      start_index: start,
      end_index: end,
      url: `rouse:documents/${documentId}#${chunkId}`,
      title: title ?? filename,
    }),
  );
}

/** The sources that follow the words of an answer, in the form that clients know and in ours. */
function toSources({ text, citations }: SuccessfulEnd) {
  const annotations = toAnnotations(text, citations).map(({ type, ...rest }) => ({
    type,
    url_citation: rest,
  }));
  const named = toCitations(text, citations);
  return {
    annotations: annotations.length > 0 ? { annotations } : {},
    citations: named.length > 0 ? { citations: named } : {},
  };
}

/** Writes a turn as a chat completion, or as its chunks. */
export function renderChat(
  { stream_options: options }: Pick<ChatBody, "stream_options">,
  { runId, createdAt }: Pick<ChatTurn, "runId" | "createdAt">,
  model: string,
): TurnRenderer {
  const head = <O extends string>(object: O) => ({
    id: `chatcmpl-${runId}`,
    object,
    created: toSeconds(createdAt),
    model,
  });
  const hasUsage = options?.include_usage ?? false;
  const chunk = (choices: readonly object[], more: object = {}) => ({
    ...head("chat.completion.chunk"),
    choices,
    ...(hasUsage ? { usage: null } : {}),
    ...more,
  });
  const choice = (delta: object, finish: string | null = null, more: object = {}) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }], more);
  return {
    whole(end) {
      const calls = toToolCalls(end);
      const { annotations, citations } = toSources(end);
      const message = {
        role: "assistant" as const,
        content: end.text === "" && calls.length > 0 ? null : end.text,
        refusal: null,
        ...(end.reasoning === "" ? {} : { reasoning_content: end.reasoning }),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
        ...annotations,
      };
      return {
        ...head("chat.completion"),
        choices: [{ index: 0, message, logprobs: null, finish_reason: toFinishReason(end) }],
        usage: toUsage(end.usage),
        ...citations,
      };
    },
    begin: () => [choice({ role: "assistant", content: "" })],
    text: (delta) => [choice({ content: delta })],
    reasoning: (delta) => [choice({ reasoning_content: delta })],
    approval: () => [],
    end(end) {
      const { annotations, citations } = toSources(end);
      return [
        ...toToolCalls(end).map((call, index) => choice({ tool_calls: [{ index, ...call }] })),
        ...("annotations" in annotations ? [choice(annotations)] : []),
        choice({}, toFinishReason(end), citations),
        ...(hasUsage ? [chunk([], { usage: toUsage(end.usage) })] : []),
        "[DONE]",
      ];
    },
    failed: (end) => [errorObject(streamProblem(end, "messages"))],
  };
}

/** `POST /v1/chat/completions` */
export const chatCompletions = serveTurn<ChatBody>({
  route: "chat",
  field: "messages",
  schema: chatBody,
  read: (body, { session }) => ({
    session: sessionFor(session),
    messages: body.messages,
    sampling: toSampling(body),
    tools: (body.tools ?? []).map((tool) => callerTool(tool.function)),
    ...withoutNullish({ thinking: toThinking(body.reasoning_effort) }),
  }),
  render: renderChat,
});
