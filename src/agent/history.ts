import type { ModelMessage } from "ai";
import { cutText, plainText } from "../core/text.ts";
import type { TurnRecord } from "../store/types.ts";
import { createBoundary, trustedLine, type Boundary } from "./boundary.ts";
import { renderParts } from "./context.ts";
import { markBoundary } from "./bound-results.ts";

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

/** An estimate of the tokens of a turn, as a model gets it. */
export function getTurnTokens(turn: TurnRecord): number {
  const context = (turn.context ?? []).reduce(
    (sum, { text }) => sum + estimateTokens(text) + 30,
    0,
  );
  return (
    context +
    estimateTokens(plainText(turn.input)) +
    estimateTokens(JSON.stringify(turn.messages)) +
    60
  );
}

/** The part of the budget that one cut frees when a history has grown too long. */
const CUT_SHARE = 1 / 3;

/** Returns how many of the first sizes have to go so that `tokens` are free. */
export function countDropped(sizes: readonly number[], tokens: number): number {
  let first = 0;
  for (let gone = 0; first < sizes.length && gone < tokens; first++) gone += sizes[first] as number;
  return first;
}

/**
 * Returns the newest turns that fit into `budget` tokens, whole turns only; `left` is how many older ones do not. A checkpoint
 * at the begin stays, and what it has left out counts. A history that is too long is cut by a large piece: until it has grown by as much again, it begins with the same turn, and what
 * providers have of it in their caches stays useful.
 */
export function fitHistory(
  history: readonly TurnRecord[],
  budget: number,
): { turns: readonly TurnRecord[]; left: number } {
  const [oldest] = history;
  if (oldest?.checkpoint) {
    const { turns, left } = fitHistory(history.slice(1), budget - getTurnTokens(oldest));
    return { turns: [oldest, ...turns], left: left + oldest.checkpoint.left };
  }
  const sizes = history.map(getTurnTokens);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (total <= budget) return { turns: history, left: 0 };
  const piece = Math.max(1, budget * CUT_SHARE);
  const cut = Math.ceil((total - budget) / piece) * piece;
  const first = countDropped(sizes, cut);
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

/** Removes tool calls without a result, as a caller may leave them: providers refuse a conversation with one. */
export function withoutOpenCalls(messages: readonly ModelMessage[]): ModelMessage[] {
  const answered = new Set(
    messages.flatMap((message) =>
      getParts(message).flatMap((part) => (part.type === "tool-result" ? [part.toolCallId] : [])),
    ),
  );
  const isOpen = (part: CallPart): boolean =>
    part.type === "tool-call" && !answered.has(part.toolCallId);
  return messages.flatMap((message): ModelMessage[] => {
    if (message.role !== "assistant" || !getParts(message).some(isOpen)) return [message];
    const content = (message.content as CallPart[]).filter((part) => !isOpen(part));
    return content.length === 0 ? [] : [{ ...message, content } as ModelMessage];
  });
}

/**
 * The messages of a session's turns, outside text under the id of its own turn, as it was rendered then; that of turns
 * without one under the current run's. Tool results get theirs on the way to the model.
 */
export function renderHistory(turns: readonly TurnRecord[], boundary: Boundary): ModelMessage[] {
  return turns.flatMap((turn): ModelMessage[] => {
    const { hook, boundaryId, trustedHook, unsafe, checkpoint, context = [] } = turn;
    const own = boundaryId === undefined ? boundary : createBoundary(boundaryId);
    const sender = hook.startsWith("channels/") ? hook : `hook ${trustedHook ?? hook}`;
    const origin = checkpoint ? "summary of earlier turns" : sender;
    const lead = trustedHook === undefined ? "" : `${trustedLine(trustedHook)}\n\n`;
    const before = context.length === 0 ? "" : `${renderParts(context, own)}\n\n`;
    const said = before + lead + own.renderInput(turn.input, { origin, unsafe });
    // A turn without input goes on with the one before: a caller has carried out what that one called.
    const input: ModelMessage[] = turn.input.length === 0 ? [] : [{ role: "user", content: said }];
    const messages = turn.messages as ModelMessage[];
    return [
      ...input,
      ...(boundaryId === undefined
        ? messages
        : messages.map((message) => markBoundary(message, boundaryId))),
    ];
  });
}
