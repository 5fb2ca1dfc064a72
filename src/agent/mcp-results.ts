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

/** Whether a text is the value: the same words, or its JSON with any spaces and order of keys. */
function isTextOf(text: string, value: unknown): boolean {
  if (isText(value) && text.trim() === value.trim()) return true;
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}

/** Whether the items say what the value says: one of them does, all their texts do, or each has an entry of the value. */
function isSaidBy(items: readonly unknown[], value: unknown): boolean {
  const texts = items.flatMap((item) =>
    isItem(item) && item["type"] === "text" && isText(item["text"]) ? [item["text"]] : [],
  );
  if (texts.some((text) => isTextOf(text, value))) return true;
  if (isText(value)) return texts.length > 1 && isTextOf(texts.join("\n"), value);
  if (!Array.isArray(value) || value.length === 0 || value.length !== items.length) return false;
  return (
    isDeepStrictEqual(value, items) ||
    (texts.length === items.length && texts.every((text, index) => isTextOf(text, value[index])))
  );
}

/**
 * Whether a structured result has nothing that the content does not have: servers send it a second time for clients that read
 * only text. Many put a text or a list into an object with one field, since a structured result has to be an object.
 */
function isCopy(items: readonly unknown[], value: unknown): boolean {
  const fields = isItem(value) ? Object.values(value) : [];
  return isSaidBy(items, value) || (fields.length === 1 && isSaidBy(items, fields[0]));
}

/** Reads a server's answer to a call. All of it is text from outside. */
export function toToolOutput(result: unknown): ToolOutput {
  const { content, structuredContent, isError } = (
    isItem(result) ? result : { content: [result] }
  ) as CallResult;
  const items: readonly unknown[] = Array.isArray(content) ? content : [];
  const parts = items.map(toPart);
  if (structuredContent !== undefined && !isCopy(items, structuredContent))
    parts.push({ type: "text", text: toJson(structuredContent) });
  return { parts, ...(isError === true && { isError }) };
}
