import type { ChatEnd, ChatTurn } from "../../actions/chat-types.ts";
import type { Passage } from "../../actions/knowledge.ts";
import { cutText } from "../../core/text.ts";
import type { Usage } from "../../store/types.ts";

export type GoodEnd = Extract<ChatEnd, { ok: true }>;

const MAX_QUOTE = 300;

/** Where an answer comes from: fields of our own, once, on what ends the answer. */
export function citationsOf(passages: readonly Passage[]) {
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
function annotationsOf(passages: readonly Passage[]) {
  return passages.map(({ documentId, chunkId, filename, title }) => ({
    type: "url_citation" as const,
    url_citation: { start_index: 0, end_index: 0, url: `rouse:documents/${documentId}#${chunkId}`, title: title ?? filename },
  }));
}

/** As the provider counted it; null where it did not. */
function usageOf({ inputTokens, outputTokens, totalTokens }: Usage) {
  if (inputTokens === undefined && outputTokens === undefined) return null;
  const prompt = inputTokens ?? 0;
  const completion = outputTokens ?? 0;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: totalTokens ?? prompt + completion };
}

function finishOf({ finish, calls }: GoodEnd): "stop" | "length" | "content_filter" | "tool_calls" {
  if (calls.length > 0) return "tool_calls";
  if (finish === "length") return "length";
  return finish === "content-filter" ? "content_filter" : "stop";
}

function toolCallsOf({ calls }: GoodEnd) {
  return calls.map(({ id, tool, input }) => ({
    id,
    type: "function" as const,
    function: { name: tool, arguments: JSON.stringify(input ?? {}) },
  }));
}

interface Named {
  turn: ChatTurn;
  model: string;
}

const headOf = ({ turn, model }: Named) => ({ id: `chatcmpl-${turn.runId}`, created: Math.floor(turn.createdAt / 1000), model });

/** The body of an answer that is not streamed. */
export function chatCompletion(named: Named, end: GoodEnd) {
  const { id, created, model } = headOf(named);
  const calls = toolCallsOf(end);
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
          ...(cited ? { annotations: annotationsOf(end.citations) } : {}),
        },
        logprobs: null,
        finish_reason: finishOf(end),
      },
    ],
    usage: usageOf(end.usage),
    ...(cited ? { citations: citationsOf(end.citations) } : {}),
  };
}

/** The chunks of a streamed answer. */
export function chunkMaker(named: Named, includeUsage: boolean) {
  const { id, created, model } = headOf(named);
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
    last(end: GoodEnd): object[] {
      const calls = toolCallsOf(end).map((call, index) => choice({ tool_calls: [{ index, ...call }] }));
      const cited = end.citations.length > 0;
      return [
        ...calls,
        ...(cited ? [choice({ annotations: annotationsOf(end.citations) })] : []),
        choice({}, finishOf(end), cited ? { citations: citationsOf(end.citations) } : {}),
        ...(includeUsage ? [chunk([], { usage: usageOf(end.usage) })] : []),
      ];
    },
  };
}
