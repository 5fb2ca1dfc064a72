import type { ModelMessage } from "ai";
import { plainText, type TextPart } from "../core/text.ts";
import type { Part } from "../contract/kinds.ts";
import { BOUNDARY_RULE, trustedLine, type Boundary } from "./boundary.ts";
import { renderParts } from "./context.ts";
import { cutToTokens, estimateTokens, fitHistory, getShare, renderHistory, withoutOpenCalls } from "./history.ts";
import type { ConversationMessage, TurnInput } from "./types.ts";

/** Kept free for the answer. */
const ANSWER_TOKENS = 8_000;
const IMAGE_TOKENS = 1_500;

const CALLER_LEAD = "The program that calls you adds the following. If it contradicts the instructions above, those take precedence.";

/** The system text of a turn: the agent's own instructions first, the caller's last. */
export function buildInstructions(input: Pick<TurnInput, "agent" | "callerInstructions" | "instructions">): string {
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
  const kept = parts.map(({ text, outside }) => {
    const piece = cutToTokens(text, Math.max(0, left));
    left -= estimateTokens(piece.text);
    cut += piece.cut;
    return { text: piece.text, outside };
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

const getTexts = (message: ConversationMessage): string[] =>
  message.role === "user" ? message.parts.flatMap((part) => (part.type === "text" ? part.text : [])) : [message.text];

/** Cuts the longest texts of messages that are too long together. */
function cutSaid(
  said: readonly ConversationMessage[],
  tokens: number,
  budget: number,
): { messages: readonly ConversationMessage[]; cut: number } {
  const texts = said.flatMap(getTexts).map(estimateTokens);
  const fixed = tokens - texts.reduce((sum, size) => sum + size, 0);
  const share = getShare(texts, Math.max(0, budget - fixed));
  let cut = 0;
  const fit = (text: string): string => {
    const piece = cutToTokens(text, share);
    cut += piece.cut;
    return piece.text;
  };
  const messages = said.map((message): ConversationMessage => {
    if (message.role !== "user") return { ...message, text: fit(message.text) };
    return { ...message, parts: message.parts.map((part) => (part.type === "text" ? { ...part, text: fit(part.text) } : part)) };
  });
  return { messages, cut };
}

/**
 * The newest messages that fit into `budget` tokens. They begin with something the user said, so that no result stands
 * without its call; from the last such message on all stay, and their longest texts are cut if they do not fit.
 */
function fitSaid(
  said: readonly ConversationMessage[],
  budget: number,
): { messages: readonly ConversationMessage[]; left: number; cut: number; tokens: number } {
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
  const kept = said.slice(first);
  if (tokens <= budget) return { messages: kept, left: first, cut: 0, tokens };
  return { ...cutSaid(kept, tokens, budget), left: first, tokens: budget };
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
  return said.map((message, index) => {
    if (index !== last || message.role !== "user") return message;
    const [first, ...rest] = message.parts;
    // One text, as later turns of the session have it.
    if (first?.type === "text") return { role: "user", parts: [{ type: "text", text: `${context}\n\n${first.text}` }, ...rest] };
    return { role: "user", parts: [{ type: "text", text: context }, ...message.parts] };
  });
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

/** The messages before a turn's first step, as many as fit into the model's window. */
function buildMessages(input: TurnInput, { boundary, parts, window, warnings }: MessageOptions): ModelMessage[] {
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
    if (fitted.cut > 0) warnings.push(`the messages were cut by ${fitted.cut} characters to fit the model's window`);
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

function getPartTokens(value: unknown): number {
  if (typeof value !== "object" || value === null) return estimateTokens(String(value));
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + getPartTokens(item), 0);
  if ("mediaType" in value) return IMAGE_TOKENS;
  return Object.values(value).reduce((sum: number, item) => sum + getPartTokens(item), 8);
}

const getTokens = (messages: readonly ModelMessage[]): number =>
  messages.reduce((sum, { content }) => sum + 8 + (typeof content === "string" ? estimateTokens(content) : getPartTokens(content)), 0);

type Result = Extract<Extract<ModelMessage, { role: "tool" }>["content"][number], { type: "tool-result" }>;

/** Cuts the longest results of tools, so that the steps of a turn have at most `budget` tokens if results can make it so. */
function cutResults(steps: readonly ModelMessage[], budget: number): { messages: ModelMessage[]; cut: number } {
  const results = steps.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : [],
  );
  const sizes = results.map(({ output }) => getPartTokens(output));
  const total = getTokens(steps);
  const share = getShare(sizes, Math.max(0, budget - total + sizes.reduce((sum, size) => sum + size, 0)));
  let cut = 0;
  const fit = (part: Result): Result => {
    const { output } = part;
    if (getPartTokens(output) <= share) return part;
    const isText = output.type === "text" || output.type === "error-text";
    const piece = cutToTokens(isText ? output.value : JSON.stringify("value" in output ? output.value : null), share);
    cut += piece.cut;
    return { ...part, output: { type: output.type === "error-text" ? "error-text" : "text", value: piece.text } };
  };
  const messages = steps.map((message): ModelMessage =>
    message.role === "tool"
      ? { ...message, content: message.content.map((part) => (part.type === "tool-result" ? fit(part) : part)) }
      : message,
  );
  return { messages, cut };
}

const CUT_RESULTS = "results of tools were cut";

/** The messages of a turn for the model: what stands before its first step is rendered once, as long as it fits. */
export interface TurnPrompt {
  /** The messages for the next model call, after these of the turn's own steps, cut to fit the model's window. */
  fit(steps: readonly ModelMessage[]): ModelMessage[];
}

/** Tokens that a window of `window` tokens has besides the answer and the instructions. */
export const getRoom = (window: number, input: Parameters<typeof buildInstructions>[0]): number =>
  Math.max(1000, window - ANSWER_TOKENS - estimateTokens(buildInstructions(input)));

/** Creates the messages of a turn. `warnings` gets what was left out or cut: each once, as it was in the last step. */
export function createTurnPrompt(input: TurnInput, options: MessageOptions): TurnPrompt {
  const { window, warnings } = options;
  const room = getRoom(window, input);
  /** Kept free for the turn's own steps. */
  let reserved = 0;
  let own: string[] = [];
  const warn = (texts: string[]): void => {
    for (const text of own) warnings.splice(warnings.indexOf(text), 1);
    own = texts;
    warnings.push(...texts);
  };
  const build = (): ModelMessage[] => {
    const texts: string[] = [];
    const messages = buildMessages(input, { ...options, window: window - reserved, warnings: texts });
    warn(texts);
    return messages;
  };
  let before = build();
  return {
    fit(steps) {
      if (steps.length === 0) return before;
      const needed = getTokens(steps);
      if (getTokens(before) + needed <= room) return [...before, ...steps];
      // Half as much again: what was cut stays as it is for some steps, and providers keep it in their caches.
      if (needed > reserved) {
        reserved = Math.min(Math.floor(needed * 1.5), Math.floor(room * 0.75));
        before = build();
      }
      const { messages, cut } = cutResults(steps, room - getTokens(before));
      if (cut > 0)
        warn([...own.filter((text) => !text.startsWith(CUT_RESULTS)), `${CUT_RESULTS} by ${cut} characters to fit the model's window`]);
      return [...before, ...messages];
    },
  };
}
