import { isDeepStrictEqual } from "node:util";
import type { ToolOutput, ToolOutputPart } from "../store/steps.ts";

/** The fields that are read of a server's answer to `tools/call`. Their values are not checked yet. */
interface CallResult {
  content?: unknown;
  structuredContent?: unknown;
  isError?: unknown;
}
type Item = Record<string, unknown>;

const isText = (value: unknown): value is string => typeof value === "string";
const isItem = (value: unknown): value is Item =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const toJson = (value: unknown): string => JSON.stringify(value) ?? "null";

const toFile = (data: string, mediaType: unknown, filename?: unknown): ToolOutputPart => ({
  type: "file",
  mediaType: isText(mediaType) ? mediaType : "application/octet-stream",
  data,
  ...(isText(filename) && { filename }),
});

function toPart(item: unknown): ToolOutputPart {
  if (!isItem(item)) return { type: "text", text: toJson(item) };
  const { type, text, data, mimeType, resource } = item;
  if (type === "text" && isText(text)) return { type: "text", text };
  if ((type === "image" || type === "audio") && isText(data)) return toFile(data, mimeType);
  if (type === "resource" && isItem(resource)) {
    if (isText(resource["blob"]))
      return toFile(resource["blob"], resource["mimeType"], resource["uri"]);
    if (isText(resource["text"]))
      return { type: "text", text: `Resource ${String(resource["uri"])}:\n${resource["text"]}` };
  }
  if (type === "resource_link")
    return {
      type: "text",
      text: [
        "Link to a resource:",
        item["uri"],
        item["title"] ?? item["name"],
        item["description"],
        mimeType,
      ]
        .filter(isText)
        .join("\n"),
    };
  return { type: "text", text: toJson(item) };
}

/** Whether a text is the value in JSON, as servers send it for clients that read only text. */
function isCopy(part: ToolOutputPart, value: unknown): boolean {
  if (part.type !== "text") return false;
  try {
    return isDeepStrictEqual(JSON.parse(part.text), value);
  } catch {
    return false;
  }
}

/** Reads a server's answer to a call. All of it is text from outside. */
export function toToolOutput(result: unknown): ToolOutput {
  const { content, structuredContent, isError } = (
    isItem(result) ? result : { content: [result] }
  ) as CallResult;
  const parts = Array.isArray(content) ? content.map(toPart) : [];
  if (structuredContent !== undefined && !parts.some((part) => isCopy(part, structuredContent)))
    parts.push({ type: "text", text: toJson(structuredContent) });
  return { parts, ...(isError === true && { isError }) };
}
