import type { LanguageModelMiddleware, ModelMessage, ToolResultPart } from "ai";
import type { ToolCallRecord, ToolOutput, ToolOutputPart } from "../store/steps.ts";
import type { Boundary } from "./boundary.ts";

type Transform = NonNullable<LanguageModelMiddleware["transformParams"]>;
type Message = Awaited<ReturnType<Transform>>["prompt"][number];
type ToolPart = Extract<Message, { role: "tool" }>["content"][number];
type Output = Extract<ToolPart, { type: "tool-result" }>["output"];

export const toTextOutput = (text: string, isError = false): ToolOutput => ({
  parts: [{ type: "text", text }],
  ...(isError && { isError }),
});

const UNANSWERED: ToolOutput = toTextOutput("There is no answer to this call. It may have been carried out, or not.", true);

const toContent = (part: ToolOutputPart) =>
  part.type === "text"
    ? part
    : {
        type: "file" as const,
        mediaType: part.mediaType,
        data: { type: "data" as const, data: part.data },
        ...(part.filename !== undefined && { filename: part.filename }),
      };

const joinTexts = (parts: readonly ToolOutputPart[]): string => parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");

/** The name of the tool that reads what is left of a cut result. */
export const READ_RESULT = "read_result";

/** The most bytes of files (images above all) that a result keeps, decoded. */
const MAX_FILE_BYTES = 5_000_000;

/** Returns the beginning of a text, at most `maxBytes` long in UTF-8. No character is divided. */
export function takeBytes(text: string, maxBytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes));
  return text.slice(0, read);
}

/** Says at the end of a piece of a result how to read on. */
export const renderMore = (id: string, offset: number, length: number): string =>
  `\n[cut: characters ${offset} to ${length} follow; read on with ${READ_RESULT}, id "${id}", offset ${offset}]`;

/** Leaves out the files of a result that are too large to be kept. */
function limitFiles(parts: readonly ToolOutputPart[]): ToolOutputPart[] {
  let left = MAX_FILE_BYTES;
  return parts.map((part): ToolOutputPart => {
    if (part.type === "text") return part;
    const bytes = Math.floor((part.data.length * 3) / 4);
    if (bytes <= left) {
      left -= bytes;
      return part;
    }
    return { type: "text", text: `[a file of ${bytes} bytes was left out: a result keeps files of ${MAX_FILE_BYTES} bytes]` };
  });
}

/**
 * Cuts the text of an output to `maxBytes` bytes of UTF-8. If it was longer, `stored` is the record of the whole text, which
 * is `text`: keep both in the commit that keeps the output, so that `read_result` finds the rest. The id is the call's.
 */
export function cutOutput(
  callId: string,
  { parts: all, isError }: ToolOutput,
  maxBytes: number,
): { output: ToolOutput; stored?: { id: string; length: number }; text?: string } {
  const parts = limitFiles(all);
  const text = joinTexts(parts);
  const kept = takeBytes(text, maxBytes);
  if (kept.length === text.length) return { output: { parts, ...(isError && { isError }) } };
  const { length } = text;
  const files = parts.filter((part) => part.type === "file");
  const first: ToolOutputPart = { type: "text", text: kept + renderMore(callId, kept.length, length) };
  return { output: { parts: [first, ...files], ...(isError && { isError }) }, stored: { id: callId, length }, text };
}

/** Converts what a tool answered to the output of the `ai` package's messages, without the boundary. */
export function toResultOutput({ parts, isError = false }: ToolOutput): ToolResultPart["output"] {
  if (isError) return { type: "error-text", value: joinTexts(parts) };
  return parts.every((part) => part.type === "text")
    ? { type: "text", value: joinTexts(parts) }
    : { type: "content", value: parts.map(toContent) };
}

/**
 * Returns the message that gives a model the results of a step's calls, for the history and the next step. It is raw: what
 * stands between the loop and the model puts the results inside the boundary.
 */
export function toToolMessage(calls: readonly Pick<ToolCallRecord, "modelCallId" | "name" | "output">[]): ModelMessage[] {
  if (calls.length === 0) return [];
  return [
    {
      role: "tool",
      content: calls.map(({ modelCallId, name, output = UNANSWERED }) => ({
        type: "tool-result" as const,
        toolCallId: modelCallId,
        toolName: name,
        output: toResultOutput(output),
      })),
    },
  ];
}

function toText(output: Output): string {
  switch (output.type) {
    case "execution-denied":
      return output.reason ?? "";
    case "content":
      return output.value.map((part) => (part.type === "text" ? part.text : "[a file that is not shown]")).join("\n");
    default:
      return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? null);
  }
}

/**
 * Puts all that tools have said inside the run's boundary on its way to the model: results and errors, of this turn, of the
 * session's past and of the caller's own tools. A history keeps them raw. It stands between the SDK and the model, so that
 * no way of failing inside the SDK leads around it.
 */
export function boundToolResults(boundary: Boundary): LanguageModelMiddleware {
  /** Each step of a turn shows the results of all steps before it. */
  const wrapped = new Map<string, string>();
  const wrap = (text: string, tool: string): string => {
    const key = `${tool}\n${text}`;
    const value = wrapped.get(key) ?? boundary.wrap(text, `tool ${tool}`);
    wrapped.set(key, value);
    return value;
  };
  const toBoundPart = (part: ToolPart): ToolPart => {
    if (part.type !== "tool-result") return part;
    const type = part.output.type === "error-text" || part.output.type === "error-json" ? "error-text" : "text";
    return { ...part, output: { type, value: wrap(toText(part.output), part.toolName) } };
  };
  return {
    specificationVersion: "v4",
    transformParams: ({ params }) => {
      const prompt = params.prompt.map((message): Message =>
        message.role === "tool" ? { ...message, content: message.content.map(toBoundPart) } : message,
      );
      return Promise.resolve({ ...params, prompt });
    },
  };
}
