import type { ModelMessage } from "ai";
import { cutText, plainText, type TextPart } from "../core/text.ts";
import type { Part } from "../contract/kinds.ts";
import { BOUNDARY_RULE, trustedLine, type Boundary } from "./boundary.ts";
import { renderParts } from "./context.ts";
import { estimateTokens, fitHistory, renderHistory, withoutOpenCalls } from "./history.ts";
import type { ConversationMessage, TurnInput } from "./types.ts";

/** Kept free for the answer. */
const ANSWER_TOKENS = 8_000;
const IMAGE_TOKENS = 1_500;

const CALLER_LEAD = "The program that calls you adds the following. Where it disagrees with what stands above, what stands above counts.";

/** The system text of a turn: the agent's own instructions first, the caller's last. */
export function buildInstructions(input: TurnInput): string {
  const { agent, callerInstructions } = input;
  const own = agent.instructions ?? `You are ${agent.name}.${agent.description ? ` ${agent.description}` : ""}`;
  const caller = callerInstructions === undefined ? undefined : `${CALLER_LEAD}\n\n${callerInstructions}`;
  return [own, BOUNDARY_RULE, input.instructions, caller].filter(Boolean).join("\n\n");
}

/** The new input, cut where it alone would not fit the model's window. */
function fitInput(parts: readonly TextPart[], tokens: number): { parts: readonly TextPart[]; cut: number } {
  if (estimateTokens(plainText(parts)) <= tokens) return { parts, cut: 0 };
  let left = tokens;
  let cut = 0;
  const kept = parts.map((part) => {
    const piece = cutText(part.text, Math.max(0, left));
    left -= piece.text.length;
    cut += piece.cut;
    return { text: piece.cut > 0 ? `${piece.text}[cut: ${piece.cut} characters]` : piece.text, outside: part.outside };
  });
  return { parts: kept, cut };
}

function saidTokens(message: ConversationMessage): number {
  switch (message.role) {
    case "user":
      return message.parts.reduce((sum, part) => sum + (part.type === "text" ? estimateTokens(part.text) : IMAGE_TOKENS), 8);
    case "assistant":
      return estimateTokens(message.text) + (message.calls.length === 0 ? 0 : estimateTokens(JSON.stringify(message.calls))) + 8;
    case "tool":
      return estimateTokens(message.text) + 60;
  }
}

/**
 * The newest messages that fit into `budget` tokens. They begin with something the user said, so that no result stands
 * without its call; from the last such message on all stay, whatever their length.
 */
function fitSaid(
  said: readonly ConversationMessage[],
  budget: number,
): { messages: readonly ConversationMessage[]; left: number; tokens: number } {
  const last = said.findLastIndex((message) => message.role === "user");
  let tokens = 0;
  let first = said.length;
  for (let index = said.length - 1, sum = 0; index >= 0; index--) {
    const message = said[index] as ConversationMessage;
    sum += saidTokens(message);
    if (sum > budget && index < last) break;
    if (message.role === "user" || index === 0) {
      first = index;
      tokens = sum;
    }
  }
  return { messages: said.slice(first), left: first, tokens };
}

function renderSaid(message: ConversationMessage): ModelMessage {
  switch (message.role) {
    case "user": {
      const content = message.parts.map((part) =>
        part.type === "text" ? part : { type: "file" as const, data: part.data, mediaType: part.mediaType },
      );
      const [only] = message.parts;
      return { role: "user", content: content.length === 1 && only?.type === "text" ? only.text : content };
    }
    case "assistant": {
      const calls = message.calls.map(({ id, tool, input }) => ({ type: "tool-call" as const, toolCallId: id, toolName: tool, input }));
      if (calls.length === 0) return { role: "assistant", content: message.text };
      return { role: "assistant", content: message.text === "" ? calls : [{ type: "text", text: message.text }, ...calls] };
    }
    case "tool": {
      const output = { type: "text" as const, value: message.text };
      return { role: "tool", content: [{ type: "tool-result", toolCallId: message.callId, toolName: message.tool, output }] };
    }
  }
}

/** The parts stand in the message of the user that they were looked up for. */
function withContext(said: readonly ConversationMessage[], context: string): readonly ConversationMessage[] {
  if (context === "") return said;
  const last = said.findLastIndex((message) => message.role === "user");
  return said.map((message, index) =>
    index === last && message.role === "user" ? { role: "user", parts: [{ type: "text", text: context }, ...message.parts] } : message,
  );
}

export interface MessageOptions {
  boundary: Boundary;
  /** What stands before the new input. */
  parts: readonly Part[];
  /** Tokens of the model's window. */
  window: number;
  /** Gets what was left out or cut. */
  warnings: string[];
}

/** The messages of a turn, as many as fit into the model's window. */
export function buildMessages(input: TurnInput, { boundary, parts, window, warnings }: MessageOptions): ModelMessage[] {
  const context = renderParts(parts, boundary);
  const budget = Math.max(1000, window - ANSWER_TOKENS - estimateTokens(buildInstructions(input)) - estimateTokens(context));
  const historyWithin = (tokens: number): ModelMessage[] => {
    const { turns, left } = fitHistory(input.history, tokens);
    if (left > 0) warnings.push(`${left} older turns were left out to fit the model's window`);
    return renderHistory(turns, boundary);
  };
  if (input.messages) {
    const fitted = fitSaid(input.messages, budget);
    if (fitted.left > 0) warnings.push(`${fitted.left} older messages were left out to fit the model's window`);
    const messages = withContext(fitted.messages, context).map(renderSaid);
    return withoutOpenCalls([...historyWithin(budget - fitted.tokens), ...messages]);
  }
  const fitted = fitInput(input.input, budget);
  if (fitted.cut > 0) warnings.push(`the message was cut by ${fitted.cut} characters to fit the model's window`);
  const body = boundary.renderInput(fitted.parts, {
    origin: input.hook === undefined ? (input.source ?? "user") : `hook ${input.hook}`,
    unsafe: input.unsafe,
  });
  const before = context === "" ? "" : `${context}\n\n`;
  const lead = input.hook === undefined || input.heartbeat ? "" : `${trustedLine(input.hook)}\n\n`;
  return [...historyWithin(budget - estimateTokens(plainText(fitted.parts))), { role: "user", content: before + lead + body }];
}
