import type { ModelMessage, ToolResultPart } from "ai";
import { z } from "zod";
import type { Tool } from "../../contract/kinds.ts";
import type { ToolCallRecord, ToolOutput, ToolOutputPart } from "../../store/steps.ts";

export const toTextOutput = (text: string, isError = false): ToolOutput => ({
  parts: [{ type: "text", text }],
  ...(isError && { isError }),
});

const UNANSWERED: ToolOutput = toTextOutput(
  "There is no answer to this call. It may have been carried out, or not.",
  true,
);

const toContent = (part: ToolOutputPart) =>
  part.type === "text"
    ? part
    : {
        type: "file" as const,
        mediaType: part.mediaType,
        data: { type: "data" as const, data: part.data },
        ...(part.filename !== undefined && { filename: part.filename }),
      };

/** Renders the text that replaces a file. `data` is base64. */
export const renderFile = (mediaType: string, data: string | undefined, why: string): string => {
  const size = data === undefined ? "" : `, ${countBytes(data)} bytes`;
  return `[a file, ${mediaType.replaceAll(/[^\w/.+-]/g, "").slice(0, 60)}${size}: ${why}]`;
};

const countBytes = (base64: string): number => Math.floor((base64.length * 3) / 4);

/** Returns the text of a result. */
export const joinTexts = (parts: readonly ToolOutputPart[]): string =>
  parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");

/** The name of the tool that reads the rest of a cut result. */
export const READ_RESULT = "read_result";

/** The instruction at the end of a cut result. */
export const READ_ON = `read on with ${READ_RESULT}`;

/** The most bytes of files (images above all) that a result keeps, decoded. */
const MAX_FILE_BYTES = 5_000_000;

/** Returns the beginning of a text, at most `maxBytes` long in UTF-8. No character is split. */
function takeBytes(text: string, maxBytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes));
  return text.slice(0, read);
}

/** Renders the end of a cut result, which says how to read on. */
const renderMore = (id: string, offset: number, length: number): string =>
  `\n[cut: characters ${offset} to ${length} follow; ${READ_ON}, id "${id}", offset ${offset}]`;

/** Replaces the files of a result that are too large to be kept by text. */
function limitFiles(parts: readonly ToolOutputPart[]): ToolOutputPart[] {
  let left = MAX_FILE_BYTES;
  return parts.map((part): ToolOutputPart => {
    if (part.type === "text") return part;
    left -= countBytes(part.data);
    if (left >= 0) return part;
    left += countBytes(part.data);
    return {
      type: "text",
      text: renderFile(
        part.mediaType,
        part.data,
        `left out, a result keeps files of ${MAX_FILE_BYTES} bytes`,
      ),
    };
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
  const first: ToolOutputPart = {
    type: "text",
    text: kept + renderMore(callId, kept.length, length),
  };
  return {
    output: { parts: [first, ...files], ...(isError && { isError }) },
    stored: { id: callId, length },
    text,
  };
}

/** Converts the answer of a tool to the output of the `ai` package's messages, without the boundary. */
export function toResultOutput({ parts, isError = false }: ToolOutput): ToolResultPart["output"] {
  if (isError) return { type: "error-text", value: joinTexts(parts) };
  return parts.every((part) => part.type === "text")
    ? { type: "text", value: joinTexts(parts) }
    : { type: "content", value: parts.map(toContent) };
}

/** Replaces the files of an output by their names, so that later turns do not send the files again. */
const nameFiles = ({ parts, ...rest }: ToolOutput): ToolOutput => ({
  ...rest,
  parts: parts.map((part) =>
    part.type === "text"
      ? part
      : {
          type: "text",
          text: renderFile(part.mediaType, part.data, "it was shown when the tool was called"),
        },
  ),
});

/**
 * Returns the message with the results of a step's calls: with their files in the turn of the call, without them in a
 * history. The results are raw: `boundToolResults` puts them inside the boundary.
 */
export function toToolMessage(
  calls: readonly Pick<ToolCallRecord, "modelCallId" | "name" | "output">[],
  { files = true }: { files?: boolean } = {},
): ModelMessage[] {
  if (calls.length === 0) return [];
  return [
    {
      role: "tool",
      content: calls.map(({ modelCallId, name, output = UNANSWERED }) => ({
        type: "tool-result" as const,
        toolCallId: modelCallId,
        toolName: name,
        output: toResultOutput(files ? output : nameFiles(output)),
      })),
    },
  ];
}

const READ_INPUT = z.strictObject({
  id: z.string().describe("The id that the cut result names."),
  offset: z.int().min(0).default(0).describe("The number of the character to go on from."),
});
const READ_DESCRIPTION =
  "Reads more of a tool's result that was cut because it is long. The end of a cut result says with which id and offset.";
/** For the note on how to read on. */
const NOTE_BYTES = 400;
const NOT_FOUND =
  "There is no stored result with this id in this conversation. It may no longer be kept: call the tool again.";

/** Creates the tool that reads on in results that were cut. A piece is `maxBytes` bytes of UTF-8 at most, with its note. */
export function createReadResult(
  journal: { getWhole(id: string): Promise<string | undefined> },
  maxBytes: number,
): Tool<typeof READ_INPUT> {
  return {
    name: READ_RESULT,
    description: READ_DESCRIPTION,
    input: READ_INPUT,
    readOnly: true,
    idempotent: true,
    async execute({ id, offset }) {
      const whole = await journal.getWhole(id);
      if (whole === undefined) return NOT_FOUND;
      const { length } = whole;
      if (offset >= length)
        return `The result has ${length} characters: there is nothing behind offset ${offset}.`;
      const piece = takeBytes(whole.slice(offset), maxBytes - NOTE_BYTES);
      const next = offset + piece.length;
      return next < length ? piece + renderMore(id, next, length) : piece;
    },
  };
}
