import type { CallerTool, Sampling } from "../../agent/types.ts";
import type { ChatRequest, ChatSession } from "../../chat/types.ts";
import type { Thinking } from "../../config/schema/common.ts";
import type { ChatBody } from "./chat-schema.ts";
import type { Conversation } from "./messages.ts";

/** Leaves out what is null or not there, since both mean that a field was not sent. */
export function withoutNullish<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)) as {
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
 * Who owns the history: a caller that sends some of it. One user message and a session's name: the server. Neither: nobody,
 * the turn is one shot.
 */
export function sessionFor(name: string | undefined): ChatSession {
  return name === undefined ? { kind: "none" } : { kind: "named", id: name };
}

/** The turn that a chat request asks for. */
export function chatRequest(
  body: ChatBody,
  { instructions, messages, hasHistory }: Conversation,
  base: Pick<ChatRequest, "agent" | "caller" | "session">,
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
