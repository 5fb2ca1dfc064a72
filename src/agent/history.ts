import type { ModelMessage } from "ai";
import { cutText, plainText } from "../core/text.ts";
import type { TurnRecord } from "../store/types.ts";
import type { Boundary } from "./boundary.ts";

/** An estimate that is rather too high: three characters a token, one where the script has no spaces. */
export function estimateTokens(text: string): number {
  const dense = text.match(/[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/g)?.length ?? 0;
  return dense + Math.ceil((text.length - dense) / 3);
}

/** Cuts a text that has more than `tokens`, with a note. `cut` is how many characters went. */
export function cutToTokens(text: string, tokens: number): { text: string; cut: number } {
  const size = estimateTokens(text);
  if (size <= tokens) return { text, cut: 0 };
  const piece = cutText(text, Math.max(0, Math.floor((text.length * tokens) / size)));
  return { text: `${piece.text}[cut: ${piece.cut} characters]`, cut: piece.cut };
}

/** Returns the most that each of several sizes may be, so that all are `total` at most together: small ones leave their room to large ones. */
export function getShare(sizes: readonly number[], total: number): number {
  const sorted = sizes.toSorted((a, b) => a - b);
  let left = total;
  for (const [index, size] of sorted.entries()) {
    const share = left / (sorted.length - index);
    if (size > share) return Math.max(0, Math.floor(share));
    left -= size;
  }
  return Infinity;
}

function turnTokens(turn: TurnRecord): number {
  return estimateTokens(plainText(turn.input)) + estimateTokens(JSON.stringify(turn.messages)) + 60;
}

/** The newest turns that fit into `budget` tokens, whole turns only; `left` is how many older ones do not. */
export function fitHistory(history: readonly TurnRecord[], budget: number): { turns: readonly TurnRecord[]; left: number } {
  let used = 0;
  let first = history.length;
  while (first > 0) {
    used += turnTokens(history[first - 1] as TurnRecord);
    if (used > budget) break;
    first--;
  }
  return { turns: history.slice(first), left: first };
}

interface CallPart {
  type?: unknown;
  toolCallId?: unknown;
}
const getParts = (message: unknown): CallPart[] => {
  const { content } = message as { content?: unknown };
  return Array.isArray(content) ? (content as CallPart[]) : [];
};

/** Takes away calls that nobody answered, as a caller may leave them: providers refuse a conversation with one. */
export function withoutOpenCalls(messages: readonly ModelMessage[]): ModelMessage[] {
  const answered = new Set(
    messages.flatMap((message) => getParts(message).flatMap((part) => (part.type === "tool-result" ? [part.toolCallId] : []))),
  );
  const isOpen = (part: CallPart): boolean => part.type === "tool-call" && !answered.has(part.toolCallId);
  return messages.flatMap((message): ModelMessage[] => {
    if (message.role !== "assistant" || !getParts(message).some(isOpen)) return [message];
    const content = (message.content as CallPart[]).filter((part) => !isOpen(part));
    return content.length === 0 ? [] : [{ ...message, content } as ModelMessage];
  });
}

/** The messages of a session's turns, outside text under the current run's id; tool results get theirs on the way to the model. */
export function renderHistory(turns: readonly TurnRecord[], boundary: Boundary): ModelMessage[] {
  return turns.flatMap((turn): ModelMessage[] => {
    const origin = turn.hook.startsWith("channels/") ? turn.hook : `hook ${turn.hook}`;
    const said = boundary.renderInput(turn.input, { origin, unsafe: turn.unsafe });
    // A turn without input goes on with the one before: a caller has carried out what that one called.
    const input: ModelMessage[] = turn.input.length === 0 ? [] : [{ role: "user", content: said }];
    return [...input, ...(turn.messages as ModelMessage[])];
  });
}
