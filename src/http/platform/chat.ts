import type { CallerTool, Sampling } from "../../agent/types.ts";
import type { ChatRequest, ChatSession, ChatTurn } from "../../chat/types.ts";
import { restoreServerSteps } from "../../chat/history.ts";
import type { Thinking } from "../../config/schema/common.ts";
import { type ChatBody, chatBody } from "./chat-schema.ts";
import { createFileReader } from "./files.ts";
import { type Conversation, imageLimits, readMessages } from "./messages.ts";
import { toAnnotations, toCitations } from "./citations.ts";
import type { Context } from "hono";
import { getCorrelation, getSessionName, toSessionWarnings } from "./session-name.ts";
import { answerTurn } from "./turn.ts";
import { findAgent } from "./models.ts";
import { readCheckedBody } from "./read.ts";
import { dataLine, failureLine, type StreamFormat, type SuccessfulEnd } from "./stream.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

/** Leaves out what is null or not there, since both mean that a field was not sent. */
export function withoutNullish<T extends object>(
  fields: T,
): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

type Format = NonNullable<ChatBody["response_format"]>;

/** An answer in JSON, where one was asked for. */
export function jsonFormat(format: Format | null | undefined): Pick<Sampling, "json"> {
  if (!format || format.type === "text") return {};
  return { json: format.type === "json_object" ? {} : withoutNullish(format.json_schema) };
}

function toSampling(body: ChatBody): Sampling {
  const { tool_choice: choice } = body;
  const toolChoice = typeof choice === "object" && choice ? { tool: choice.function.name } : choice;
  return {
    ...withoutNullish({
      temperature: body.temperature,
      topP: body.top_p,
      maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
      stopSequences: typeof body.stop === "string" ? [body.stop] : body.stop,
      seed: body.seed,
      presencePenalty: body.presence_penalty,
      frequencyPenalty: body.frequency_penalty,
      toolChoice,
      parallelToolCalls: body.parallel_tool_calls,
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
  const { name, parameters: schema, description, strict } = fields;
  return { name, ...withoutNullish({ description, schema, strict }) };
}

/** The level of thinking that an effort means. */
export function toThinking(effort: ChatBody["reasoning_effort"]): Thinking | undefined {
  return effort === "none" ? "off" : (effort ?? undefined);
}

/**
 * Who owns the history: a caller that sends some of it. One user message and a session's name: the server. Neither: the
 * turn has no history.
 */
export function sessionFor(name: string | undefined): ChatSession {
  return name === undefined ? { kind: "none" } : { kind: "named", id: name };
}

/** What a request has beside its body and its conversation. */
export type ChatRequestBase = Pick<
  ChatRequest,
  "agent" | "caller" | "session" | "correlation" | "warnings"
>;

/** The turn that a chat request asks for. */
export function chatRequest(
  body: ChatBody,
  { instructions, messages, hasHistory }: Conversation,
  base: ChatRequestBase,
): ChatRequest {
  const thinking = toThinking(body.reasoning_effort);
  return {
    ...base,
    callerKeepsHistory: hasHistory,
    messages,
    stream: body.stream ?? false,
    sampling: toSampling(body),
    tools: (body.tools ?? []).map((tool) => callerTool(tool.function)),
    ...(instructions === undefined ? {} : { instructions }),
    ...(thinking === undefined ? {} : { thinking }),
  };
}

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
  if (calls.length > 0) return "tool_calls";
  if (finish === "length") return "length";
  return finish === "content-filter" ? "content_filter" : "stop";
}

function toToolCalls({ calls }: SuccessfulEnd) {
  return calls.map(({ id, tool, input, inputText }) => ({
    id,
    type: "function" as const,
    function: { name: tool, arguments: inputText ?? JSON.stringify(input ?? {}) },
  }));
}

interface NamedTurn {
  turn: ChatTurn;
  model: string;
}

const buildHead = ({ turn, model }: NamedTurn) => ({
  id: `chatcmpl-${turn.runId}`,
  created: Math.floor(turn.createdAt / 1000),
  model,
});

const nestAnnotation = ({ type, ...rest }: ReturnType<typeof toAnnotations>[number]) => ({
  type,
  url_citation: rest,
});

/** The body of an answer that is not streamed. */
export function chatCompletion(named: NamedTurn, end: SuccessfulEnd) {
  const { id, created, model } = buildHead(named);
  const calls = toToolCalls(end);
  const annotations = toAnnotations(end.text, end.citations).map(nestAnnotation);
  const citations = toCitations(end.text, end.citations);
  return {
    id,
    object: "chat.completion" as const,
    created,
    model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant" as const,
          content: end.text === "" && calls.length > 0 ? null : end.text,
          refusal: null,
          ...(end.reasoning === "" ? {} : { reasoning_content: end.reasoning }),
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
          ...(annotations.length > 0 ? { annotations } : {}),
        },
        logprobs: null,
        finish_reason: toFinishReason(end),
      },
    ],
    usage: toUsage(end.usage),
    ...(citations.length > 0 ? { citations } : {}),
  };
}

/** The chunks of a streamed answer. */
export function chunkMaker(named: NamedTurn, includeUsage: boolean) {
  const { id, created, model } = buildHead(named);
  const chunk = (choices: readonly object[], more: object = {}) => ({
    id,
    object: "chat.completion.chunk" as const,
    created,
    model,
    choices,
    ...(includeUsage ? { usage: null } : {}),
    ...more,
  });
  const choice = (delta: object, finish: string | null = null, more: object = {}) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }], more);
  return {
    first: () => choice({ role: "assistant", content: "" }),
    text: (delta: string) => choice({ content: delta }),
    reasoning: (delta: string) => choice({ reasoning_content: delta }),
    /** All that follows the text. */
    last(end: SuccessfulEnd): object[] {
      const calls = toToolCalls(end).map((call, index) =>
        choice({ tool_calls: [{ index, ...call }] }),
      );
      const annotations = toAnnotations(end.text, end.citations).map(nestAnnotation);
      const citations = toCitations(end.text, end.citations);
      return [
        ...calls,
        ...(annotations.length > 0 ? [choice({ annotations })] : []),
        choice({}, toFinishReason(end), citations.length > 0 ? { citations } : {}),
        ...(includeUsage ? [chunk([], { usage: toUsage(end.usage) })] : []),
      ];
    },
  };
}

function createFormat(turn: ChatTurn, model: string, body: ChatBody): StreamFormat {
  const make = chunkMaker({ turn, model }, body.stream_options?.include_usage ?? false);
  return {
    begin: () => dataLine(make.first()),
    text: (delta) => dataLine(make.text(delta)),
    reasoning: (delta) => dataLine(make.reasoning(delta)),
    end: (end) => `${make.last(end).map(dataLine).join("")}data: [DONE]\n\n`,
    failed: failureLine,
  };
}

/** `POST /v1/chat/completions` */
export async function chatCompletions(
  c: Context<PlatformEnv>,
  deps: PlatformParts,
): Promise<Response> {
  const { key } = c.get("caller");
  const snapshot = deps.snapshot();
  const { bytes, body } = await readCheckedBody(c, snapshot, chatBody);
  const agent = findAgent(body.model, key, snapshot);
  const session = getSessionName(c, body, key);
  const images = imageLimits(snapshot, deps.fetch, c.req.raw.signal);
  const conversation = await readMessages(body.messages, {
    images,
    readFile: createFileReader(c, deps),
    field: "messages",
    continues: false,
  });
  const caller = { id: key.id, tenant: key.tenant, ...withoutNullish({ clean: key.clean }) };
  const base = {
    agent,
    caller,
    session: sessionFor(session?.id),
    correlation: getCorrelation(c),
    warnings: toSessionWarnings(session),
  };
  const messages = await restoreServerSteps(conversation.messages, deps.earlierRuns, {
    keyId: key.id,
    agentId: agent.id,
  });
  const request = chatRequest(body, { ...conversation, messages }, base);
  return answerTurn(
    c,
    {
      request,
      bytes,
      session,
      route: "chat",
      field: "messages",
      body: (turn, end) => chatCompletion({ turn, model: agent.id }, end),
      format: (turn) => createFormat(turn, agent.id, body),
    },
    deps,
  );
}
