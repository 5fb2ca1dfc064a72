import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import type { Citation } from "../../runs/knowledge.ts";
import { cutText } from "../../core/text.ts";

export type SuccessfulEnd = Extract<ChatEnd, { ok: true }>;

const MAX_QUOTE = 300;

/** Where an answer comes from: fields of our own, once, on what ends the answer. */
export function toCitations(passages: readonly Citation[]) {
  return passages.map(({ documentId, chunkId, filename, title, page, score, text }, index) => ({
    index: index + 1,
    document_id: documentId,
    chunk_id: chunkId,
    filename,
    title,
    page,
    score,
    quote: cutText(text, MAX_QUOTE).text,
  }));
}

/** The same in the form that clients know. */
function toAnnotations(passages: readonly Citation[]) {
  return passages.map(({ documentId, chunkId, filename, title }) => ({
    type: "url_citation" as const,
    url_citation: { start_index: 0, end_index: 0, url: `rouse:documents/${documentId}#${chunkId}`, title: title ?? filename },
  }));
}

/** As the provider counted it; null where it did not. */
function toUsage({ inputTokens, outputTokens, totalTokens }: SuccessfulEnd["usage"]) {
  if (inputTokens === undefined && outputTokens === undefined) return null;
  const prompt = inputTokens ?? 0;
  const completion = outputTokens ?? 0;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: totalTokens ?? prompt + completion };
}

function toFinishReason({ finish, calls }: SuccessfulEnd): "stop" | "length" | "content_filter" | "tool_calls" {
  if (calls.length > 0) return "tool_calls";
  if (finish === "length") return "length";
  return finish === "content-filter" ? "content_filter" : "stop";
}

function toToolCalls({ calls }: SuccessfulEnd) {
  return calls.map(({ id, tool, input }) => ({
    id,
    type: "function" as const,
    function: { name: tool, arguments: JSON.stringify(input ?? {}) },
  }));
}

interface NamedTurn {
  turn: ChatTurn;
  model: string;
}

const buildHead = ({ turn, model }: NamedTurn) => ({ id: `chatcmpl-${turn.runId}`, created: Math.floor(turn.createdAt / 1000), model });

/** The body of an answer that is not streamed. */
export function chatCompletion(named: NamedTurn, end: SuccessfulEnd) {
  const { id, created, model } = buildHead(named);
  const calls = toToolCalls(end);
  const cited = end.citations.length > 0;
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
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
          ...(cited ? { annotations: toAnnotations(end.citations) } : {}),
        },
        logprobs: null,
        finish_reason: toFinishReason(end),
      },
    ],
    usage: toUsage(end.usage),
    ...(cited ? { citations: toCitations(end.citations) } : {}),
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
    /** All that follows the text. */
    last(end: SuccessfulEnd): object[] {
      const calls = toToolCalls(end).map((call, index) => choice({ tool_calls: [{ index, ...call }] }));
      const cited = end.citations.length > 0;
      return [
        ...calls,
        ...(cited ? [choice({ annotations: toAnnotations(end.citations) })] : []),
        choice({}, toFinishReason(end), cited ? { citations: toCitations(end.citations) } : {}),
        ...(includeUsage ? [chunk([], { usage: toUsage(end.usage) })] : []),
      ];
    },
  };
}
