import { isDeepStrictEqual } from "node:util";
import type { LanguageModelMiddleware, ModelMessage, ToolCallPart } from "ai";
import type { ModelProvider } from "../../contract/kinds.ts";
import { isRecord, isTooDeep, parseJson, parseJsonToPrint } from "../../core/json.ts";
import { sha256Hex } from "../../core/secret.ts";

/** Returns the input of a call whose arguments were no JSON: some providers take objects alone. */
const toUnreadInput = (text: string): object => ({ unread: text });

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * Reads a call's input as an object, with its text: some models write `null` for none, or the JSON of the object's JSON, and
 * some servers an empty object before it.
 */
function readObject(written: string): { text: string; input: unknown } {
  const text = written.replace(/^\{\}(?=\{)/, "");
  const input = parse(text);
  if (input === null) return { text: "{}", input: {} };
  if (typeof input !== "string") return { text, input };
  const inner = parse(input);
  return isRecord(inner) ? { text: input, input: inner } : { text, input };
}

/** Reads what a model wrote as a call's input. Text that is no JSON, or JSON that is nested too deep, is passed on as such. */
export function parseInput(text: string): unknown {
  if (text.trim() === "") return {};
  const input = parse(text);
  return input === undefined || isTooDeep(input) ? toUnreadInput(text) : parseJsonToPrint(text);
}

/**
 * Records the inputs of tool calls as the model wrote them, by the ids of the calls: the SDK passes on what it has parsed. JSON
 * that is nested too deep is no JSON to it.
 */
export function recordInputs(inputs: Map<string, string>): LanguageModelMiddleware {
  const record = <P extends { type: string }>(part: P): P => {
    if (part.type !== "tool-call") return part;
    const { toolCallId, input } = part as unknown as { toolCallId: string; input: string };
    const read = readObject(input);
    inputs.set(toolCallId, read.text);
    return { ...part, input: isTooDeep(read.input) ? `unread: ${read.text}` : read.text };
  };
  return {
    specificationVersion: "v4",
    async wrapGenerate({ doGenerate }) {
      const result = await doGenerate();
      return { ...result, content: result.content.map(record) };
    },
    async wrapStream({ doStream }) {
      const { stream, ...rest } = await doStream();
      const recorded = stream.pipeThrough(
        new TransformStream<typeof stream extends ReadableStream<infer P> ? P : never>({
          transform(part, controller) {
            controller.enqueue(record(part));
          },
        }),
      );
      return { ...rest, stream: recorded };
    },
  };
}

/**
 * Asks for calls as the caller has chosen. The SDK does not get the choice: to it an answer without the call is an error,
 * and some servers do not know the choice, or reach the limit of the answer before.
 */
export function requestCalls(
  choice: "auto" | "none" | "required" | { tool: string } | undefined,
): LanguageModelMiddleware {
  return {
    specificationVersion: "v4",
    async transformParams({ params }) {
      if (choice === undefined || choice === "none" || !params.tools?.length) return params;
      const toolChoice =
        typeof choice === "string"
          ? { type: choice }
          : { type: "tool" as const, toolName: choice.tool };
      return { ...params, toolChoice };
    },
  };
}

/** The name under which a call carries the text of its input. */
const MARK = "rouse";

/**
 * Returns a call as messages keep it: plain JSON, and beside it the text of an input with numbers that JSON would round when
 * it is read again.
 */
export function toCallPart(call: ToolCallPart): ToolCallPart {
  const text = JSON.stringify(call.input);
  const input: unknown = JSON.parse(text);
  if (JSON.stringify(input) === text) return { ...call, input };
  return { ...call, input, providerOptions: { ...call.providerOptions, [MARK]: { input: text } } };
}

/** Returns whether an input was read from a text with numbers that were rounded. Some servers give several calls one id. */
export const isRounded = (input: unknown, text: string): boolean =>
  isDeepStrictEqual(parse(text), input) &&
  JSON.stringify(parseJsonToPrint(text)) !== JSON.stringify(input);

/**
 * Returns the input of a call with all its digits: a number that JavaScript would round is a text. People and rules decide
 * about this input, and tools in JavaScript get it.
 */
export const getExactInput = ({
  input,
  inputText,
}: {
  input: unknown;
  inputText?: string | undefined;
}): unknown => (inputText && isRounded(input, inputText) ? parseJson(inputText) : input);

/**
 * Returns an answer with the inputs that its model wrote: the SDK rounds numbers, and keeps text that was no JSON as text.
 * `inputs` are those of `recordInputs`.
 */
export function keepInputs(
  messages: readonly ModelMessage[],
  inputs: ReadonlyMap<string, string>,
): ModelMessage[] {
  const getInput = ({ toolCallId, input }: ToolCallPart): unknown => {
    if (typeof input === "string") return toUnreadInput(input);
    if (!isRecord(input)) return toUnreadInput(JSON.stringify(input));
    const text = inputs.get(toolCallId) ?? "";
    return isRounded(input, text) ? parseJsonToPrint(text) : input;
  };
  return messages.map((message) =>
    message.role === "assistant" && Array.isArray(message.content)
      ? {
          ...message,
          content: message.content.map((part) =>
            part.type === "tool-call" ? toCallPart({ ...part, input: getInput(part) }) : part,
          ),
        }
      : message,
  );
}

/**
 * Creates the function that returns the id of a call, or of its result, as an API takes it: of plain characters, and given
 * once. Some programs and models begin to count again in each turn.
 */
function createPlainIds(): (type: string, id: string) => string {
  const given = new Map<string, string>();
  const sent = new Set<string>();
  return (type, id) => {
    if (type === "tool-call") {
      let plain = id;
      while (!/^[\w-]{1,64}$/.test(plain) || sent.has(plain))
        plain = `call_${sha256Hex(plain).slice(0, 32)}`;
      sent.add(plain);
      given.set(id, plain);
    }
    return given.get(id) ?? id;
  };
}

/** Gives models the numbers of inputs as they were written (see `toCallPart`), and ids that their API takes. */
export function restoreCalls({
  plainCallIds,
}: Pick<ModelProvider, "plainCallIds">): LanguageModelMiddleware {
  return {
    specificationVersion: "v4",
    async transformParams({ params }) {
      const toId = plainCallIds ? createPlainIds() : (_type: string, id: string) => id;
      const restore = <P extends { type: string; providerOptions?: object | undefined }>(
        part: P,
      ): P => {
        if (!("toolCallId" in part)) return part;
        const call = { ...part, toolCallId: toId(part.type, String(part.toolCallId)) };
        const { [MARK]: mark, ...providerOptions } = (part.providerOptions ?? {}) as {
          [MARK]?: { input?: unknown };
        };
        return typeof mark?.input === "string"
          ? { ...call, providerOptions, input: parseJsonToPrint(mark.input) }
          : call;
      };
      const prompt = params.prompt.map((message) =>
        message.role === "assistant"
          ? { ...message, content: message.content.map(restore) }
          : message.role === "tool"
            ? { ...message, content: message.content.map(restore) }
            : message,
      );
      return { ...params, prompt };
    },
  };
}
