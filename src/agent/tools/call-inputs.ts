import type { LanguageModelMiddleware, ModelMessage } from "ai";
import { isTooDeep, parseJsonToPrint } from "../../core/json.ts";
import type { Sampling } from "../types.ts";

/** Returns the input of a call whose arguments were no JSON: some providers take objects alone. */
const toUnreadInput = (text: string): object => ({ unread: text });

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
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
    inputs.set(toolCallId, input);
    return isTooDeep(parse(input)) ? { ...part, input: `unread: ${input}` } : part;
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
export function requestCalls(choice: Sampling["toolChoice"]): LanguageModelMiddleware {
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

/** Gives the calls of an answer objects as inputs. The SDK keeps text that was no JSON. */
export const withObjectInputs = (messages: readonly ModelMessage[]): ModelMessage[] =>
  messages.map((message) =>
    message.role === "assistant" && Array.isArray(message.content)
      ? {
          ...message,
          content: message.content.map((part) =>
            part.type === "tool-call" && typeof part.input === "string"
              ? { ...part, input: toUnreadInput(part.input) }
              : part,
          ),
        }
      : message,
  );
