import type { FilePart, ModelMessage, TextPart } from "ai";
import { plainText, type TextPart as InputPart, cutText } from "../core/text.ts";
import type { ModelProvider, Part } from "../contract/kinds.ts";
import { BOUNDARY_RULE, trustedLine, type Boundary, createBoundary } from "./boundary.ts";
import { wrapFiles, markBoundary } from "./tools/bound-results.ts";
import { getParts, type KeptPart } from "./steps.ts";
import { toCallPart } from "./tools/call-inputs.ts";
import { joinTexts, toToolMessage } from "./tools/tool-results.ts";
import type { ConversationMessage, ConversationPart, InputImage, TurnInput } from "./types.ts";
import type { TurnRecord } from "../store/types.ts";

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
function getShare(sizes: readonly number[], total: number): number {
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
function fitHistory(
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

/** Removes tool calls without a result, as a caller may leave them: providers refuse a conversation with one. */
function withoutOpenCalls(messages: readonly ModelMessage[]): ModelMessage[] {
  const answered = new Set(
    messages.flatMap((message) =>
      getParts(message).flatMap((part) => (part.type === "tool-result" ? [part.toolCallId] : [])),
    ),
  );
  const isOpen = (part: KeptPart): boolean =>
    part.type === "tool-call" && !answered.has(part.toolCallId);
  return messages.flatMap((message): ModelMessage[] => {
    if (message.role !== "assistant" || !getParts(message).some(isOpen)) return [message];
    const content = getParts(message).filter((part) => !isOpen(part));
    return content.length === 0 ? [] : [{ ...message, content } as ModelMessage];
  });
}

/** Renders the parts that stand before a turn's input: the operator's as they are, outside text inside the boundary. */
export function renderParts(parts: readonly Part[], boundary: Boundary): string {
  return parts
    .map(({ text, from, label = "" }) => (from === "operator" ? text : boundary.wrap(text, label)))
    .join("\n\n");
}

/**
 * The messages of a session's turns, outside text under the id of its own turn, as it was rendered then; that of turns
 * without one under the current run's. Tool results get theirs on the way to the model.
 */
function renderHistory(turns: readonly TurnRecord[], boundary: Boundary): ModelMessage[] {
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

/** Kept free for the answer. */
const ANSWER_TOKENS = 8_000;
const IMAGE_TOKENS = 1_500;

const CALLER_LEAD =
  "The program that calls you adds the following. If it contradicts the instructions above, those take precedence.";

/** The system text of a turn: the agent's own instructions first, the caller's last. */
export function buildInstructions(
  input: Pick<TurnInput, "agent" | "callerInstructions" | "instructions">,
): string {
  const { agent, callerInstructions } = input;
  const own =
    agent.instructions ??
    `You are ${agent.name}.${agent.description ? ` ${agent.description}` : ""}`;
  const caller =
    callerInstructions === undefined ? undefined : `${CALLER_LEAD}\n\n${callerInstructions}`;
  return [own, BOUNDARY_RULE, input.instructions, caller].filter(Boolean).join("\n\n");
}

/** The new input, cut where it alone would not fit the model's window. */
function fitInput(
  parts: readonly InputPart[],
  tokens: number,
): { parts: readonly InputPart[]; cut: number } {
  if (estimateTokens(plainText(parts)) <= tokens) return { parts, cut: 0 };
  let left = tokens;
  let cut = 0;
  const kept = parts.map((part) => {
    const piece = cutToTokens(part.text, Math.max(0, left));
    left -= estimateTokens(piece.text);
    cut += piece.cut;
    return { ...part, text: piece.text };
  });
  return { parts: kept, cut };
}

function getText(message: ConversationMessage): string {
  switch (message.role) {
    case "user":
      return message.parts.map((part) => (part.type === "image" ? "" : part.text)).join("");
    case "assistant":
      return message.text + JSON.stringify(message.calls);
    case "steps":
      return JSON.stringify(message.messages);
    case "tool":
      return joinTexts(message.output.parts);
  }
}

/** A word in a script with spaces, a character in one without, or three digits: tokenizers split texts there first. */
const WORD =
  /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{1,4}|\p{L}[\p{L}\p{M}]{0,31}|\p{N}{1,3}/gu;

/**
 * Counts no more tokens than any usual tokenizer does. Those of OpenAI, Llama, Qwen, Mistral and Gemma never join two words;
 * where a script has no spaces, a token has four characters at most on average. Punctuation and spaces are not counted.
 */
function countAtLeast(text: string): number {
  let count = 0;
  for (const _word of text.matchAll(WORD)) count++;
  return count;
}

/** Returns whether what a caller sends is surely longer than a window, however the model counts. */
export function isSurelyTooLong(input: TurnInput, window: number): boolean {
  const texts = [
    buildInstructions(input),
    JSON.stringify(input.callerTools ?? []),
    ...(input.messages ?? []).map(getText),
  ];
  // A token has at least one character: most requests are not read.
  if (texts.reduce((sum, { length }) => sum + length, 0) <= window) return false;
  let count = 0;
  return texts.some((text) => (count += countAtLeast(text)) > window);
}

const NO_IMAGES = "(this model cannot see images)";

type PartOptions = Pick<MessageOptions, "boundary" | "hasImages" | "imageOptions">;

function renderPart(
  part: ConversationPart,
  { boundary, hasImages, imageOptions }: PartOptions,
): TextPart | FilePart {
  if (part.type === "image") {
    const { data, mediaType, detail } = part;
    if (!hasImages) return { type: "text", text: `[image ${mediaType}] ${NO_IMAGES}` };
    const providerOptions = detail === undefined ? undefined : imageOptions?.(detail);
    return { type: "file", data, mediaType, ...(providerOptions && { providerOptions }) };
  }
  return part.type === "text"
    ? part
    : { type: "text", text: boundary.wrap(part.text, `file ${part.filename}`) };
}

/** The parts of a model's message as the `ai` package has them. */
export const toAssistantParts = ({
  text,
  reasoning,
  calls,
}: Extract<ConversationMessage, { role: "assistant" }>) => [
  ...(reasoning ? [{ type: "reasoning" as const, text: reasoning }] : []),
  ...(text === "" ? [] : [{ type: "text" as const, text }]),
  ...calls.map(({ id, tool, input }) =>
    toCallPart({ type: "tool-call", toolCallId: id, toolName: tool, input }),
  ),
];

function renderSaid(
  message: ConversationMessage,
  options: PartOptions,
): ModelMessage | ModelMessage[] {
  switch (message.role) {
    case "user": {
      const content = message.parts.map((part) => renderPart(part, options));
      const [only] = message.parts;
      return {
        role: "user",
        content: content.length === 1 && only?.type === "text" ? only.text : content,
      };
    }
    case "assistant": {
      const content = toAssistantParts(message);
      // Some providers refuse a message without content.
      return content.length === 0 ? [] : { role: "assistant", content };
    }
    case "steps":
      return [...message.messages] as ModelMessage[];
    case "tool":
      return toToolMessage([toCallRecord(message)]);
  }
}

/** The result of a call of the caller's tool in the form of those of the agent's own. */
export const toCallRecord = ({
  callId,
  tool,
  output,
}: Extract<ConversationMessage, { role: "tool" }>) => ({ modelCallId: callId, name: tool, output });

const hasImage = (message: ConversationMessage): boolean =>
  message.role === "user"
    ? message.parts.some(({ type }) => type === "image")
    : message.role === "tool" && message.output.parts.some(({ type }) => type === "file");

/** The parts stand in the message of the user that they were looked up for. */
function withContext(
  said: readonly ConversationMessage[],
  context: string,
): readonly ConversationMessage[] {
  if (context === "") return said;
  const last = said.findLastIndex((message) => message.role === "user");
  return said.map((message, index) => {
    if (index !== last || message.role !== "user") return message;
    const [first, ...rest] = message.parts;
    // One text, as later turns of the session have it.
    if (first?.type === "text")
      return {
        role: "user",
        parts: [{ type: "text", text: `${context}\n\n${first.text}` }, ...rest],
      };
    return { role: "user", parts: [{ type: "text", text: context }, ...message.parts] };
  });
}

interface MessageOptions {
  boundary: Boundary;
  /** The text before the new input. */
  parts: readonly Part[];
  /** Tokens of the model's window. */
  window: number;
  /** True if the model can be given images. */
  hasImages: boolean;
  imageOptions?: ModelProvider["imageOptions"] | undefined;
  /** Gets what was left out or cut. */
  warnings: string[];
}

/** Adds the images of an input inside the boundary, or says of a model that gets none that it cannot see them. */
function withImages(
  text: string,
  images: readonly InputImage[],
  {
    boundary,
    origin,
    hasImages,
  }: Pick<MessageOptions, "boundary" | "hasImages"> & { origin: string },
): Extract<ModelMessage, { role: "user" }>["content"] {
  if (images.length === 0) return text;
  const labels = images.map(({ label }) => label).join("\n");
  if (!hasImages) return `${text}\n\n${boundary.wrap(`${labels}\n${NO_IMAGES}`, origin)}`;
  const files = images.map(({ mediaType, data }) => ({ type: "file" as const, data, mediaType }));
  const wrapped = boundary.wrap(`The images that came with the message:\n${labels}`, origin);
  return [{ type: "text", text: `${text}\n\n` }, ...wrapFiles(wrapped, boundary.id, files)];
}

/** The messages before a turn's first step, as many as fit into the model's window. */
function buildMessages(
  input: TurnInput,
  { boundary, parts, window, warnings, hasImages, imageOptions }: MessageOptions,
): ModelMessage[] {
  const context = renderParts(parts, boundary);
  const images = input.images ?? [];
  const used =
    estimateTokens(buildInstructions(input)) +
    estimateTokens(context) +
    (hasImages ? images.length * IMAGE_TOKENS : 0);
  const budget = Math.max(1000, window - ANSWER_TOKENS - used);
  const historyWithin = (tokens: number): ModelMessage[] => {
    const { turns, left } = fitHistory(input.history, tokens);
    if (left > 0) warnings.push(`${left} older turns were left out to fit the model's window`);
    return renderHistory(turns, boundary);
  };
  if (input.messages) {
    // A caller's own text is never cut: if it is too long, the turn fails, and the caller gets an error.
    if (!hasImages && input.messages.some(hasImage))
      warnings.push("the model cannot see the images of the request (`images` of its provider)");
    const messages = withContext(input.messages, context).flatMap((message) =>
      renderSaid(message, { boundary, hasImages, imageOptions }),
    );
    const left = budget + estimateTokens(context) - getTokens(messages);
    return withoutOpenCalls([...historyWithin(Math.max(0, left)), ...messages]);
  }
  const fitted = fitInput(input.input, budget);
  if (fitted.cut > 0)
    warnings.push(`the message was cut by ${fitted.cut} characters to fit the model's window`);
  const origin = input.hook === undefined ? (input.source ?? "user") : `hook ${input.hook}`;
  const body = boundary.renderInput(fitted.parts, { origin, unsafe: input.unsafe });
  const before = context === "" ? "" : `${context}\n\n`;
  const lead = input.hook === undefined || input.heartbeat ? "" : `${trustedLine(input.hook)}\n\n`;
  return [
    ...historyWithin(budget - estimateTokens(plainText(fitted.parts))),
    {
      role: "user",
      content: withImages(before + lead + body, images, { boundary, origin, hasImages }),
    },
  ];
}

function getPartTokens(value: unknown): number {
  if (typeof value !== "object" || value === null) return estimateTokens(String(value));
  if (Array.isArray(value))
    return value.reduce((sum: number, item) => sum + getPartTokens(item), 0);
  if ("mediaType" in value) return IMAGE_TOKENS;
  return Object.values(value).reduce((sum: number, item) => sum + getPartTokens(item), 8);
}

const getTokens = (messages: readonly ModelMessage[]): number =>
  messages.reduce(
    (sum, { content }) =>
      sum + 8 + (typeof content === "string" ? estimateTokens(content) : getPartTokens(content)),
    0,
  );

type Result = Extract<
  Extract<ModelMessage, { role: "tool" }>["content"][number],
  { type: "tool-result" }
>;

/** Cuts the longest results of tools, so that the steps of a turn have at most `budget` tokens if results can make it so. */
function cutResults(
  steps: readonly ModelMessage[],
  budget: number,
): { messages: ModelMessage[]; cut: number } {
  const results = steps.flatMap((message) =>
    message.role === "tool" ? message.content.filter((part) => part.type === "tool-result") : [],
  );
  const sizes = results.map(({ output }) => getPartTokens(output));
  const total = getTokens(steps);
  const share = getShare(
    sizes,
    Math.max(0, budget - total + sizes.reduce((sum, size) => sum + size, 0)),
  );
  let cut = 0;
  const fit = (part: Result): Result => {
    const { output } = part;
    if (getPartTokens(output) <= share) return part;
    const isText = output.type === "text" || output.type === "error-text";
    const piece = cutToTokens(
      isText ? output.value : JSON.stringify("value" in output ? output.value : null),
      share,
    );
    cut += piece.cut;
    return {
      ...part,
      output: { type: output.type === "error-text" ? "error-text" : "text", value: piece.text },
    };
  };
  const messages = steps.map((message): ModelMessage =>
    message.role === "tool"
      ? {
          ...message,
          content: message.content.map((part) => (part.type === "tool-result" ? fit(part) : part)),
        }
      : message,
  );
  return { messages, cut };
}

/** The part of the room that results of tools have at least. */
const MIN_RESULTS = 0.25;
const CUT_RESULTS = "results of tools were cut";

/** Tokens that a window of `window` tokens has besides the answer and the instructions. */
export const getRoom = (window: number, input: Parameters<typeof buildInstructions>[0]): number =>
  Math.max(1000, window - ANSWER_TOKENS - estimateTokens(buildInstructions(input)));

/**
 * Creates what returns the messages for the next model call, after the turn's own steps so far, cut to fit the model's window.
 * Those before the first step are rendered once, as long as they fit. `warnings` gets what was left out or cut: each once, as it
 * was in the last step.
 */
export function createTurnPrompt(
  input: TurnInput,
  options: MessageOptions,
): (steps: readonly ModelMessage[]) => ModelMessage[] {
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
    const messages = buildMessages(input, {
      ...options,
      window: window - reserved,
      warnings: texts,
    });
    warn(texts);
    return messages;
  };
  let before = build();
  return (steps) => {
    if (steps.length === 0) return before;
    const needed = getTokens(steps);
    if (getTokens(before) + needed <= room) return [...before, ...steps];
    // Half as much again: what was cut stays as it is for some steps, and providers keep it in their caches.
    if (needed > reserved) {
      reserved = Math.min(Math.floor(needed * 1.5), Math.floor(room * 0.75));
      before = build();
    }
    // An estimate of a caller's long messages leaves no room at all: results are not cut to nothing for it.
    const { messages, cut } = cutResults(
      steps,
      Math.max(room - getTokens(before), Math.floor(room * MIN_RESULTS)),
    );
    if (cut > 0)
      warn([
        ...own.filter((text) => !text.startsWith(CUT_RESULTS)),
        `${CUT_RESULTS} by ${cut} characters to fit the model's window`,
      ]);
    return [...before, ...messages];
  };
}
