import { parseExact } from "../../exact-json.ts";
/** A body as people read it: parsed as its content type says, otherwise text. */
export type BodyView =
  | { kind: "json"; value: unknown }
  | { kind: "form"; fields: (readonly [name: string, value: string])[] }
  | { kind: "mail"; headers: (readonly [name: string, value: string])[]; text: string }
  | { kind: "xml"; text: string }
  | { kind: "text"; text: string };

/** Longer bodies are shown as text at first: reading 10 MB as a tree holds the page up for a moment. */
export const MAX_READ = 512 * 1024;
/** Deeper JSON is not read: walking it could exhaust the stack. */
const MAX_DEPTH = 2000;

function depthOf(text: string): number {
  let depth = 0;
  let most = 0;
  for (const character of text.match(/[[{\]}]/g) ?? []) {
    depth += character === "{" || character === "[" ? 1 : -1;
    most = Math.max(most, depth);
  }
  return most;
}

function readJson(text: string): { value: unknown } | null {
  if (depthOf(text) > MAX_DEPTH) return null;
  try {
    return { value: parseExact(text) };
  } catch {
    return null;
  }
}

/** Puts each element on a line of its own, indented by its depth. The text itself stays. */
export function indentXml(text: string): string {
  let depth = 0;
  const lines: string[] = [];
  for (const token of text.match(/<[^>]*>|[^<]+/g) ?? []) {
    if (token.trim() === "") continue;
    const isEnd = token.startsWith("</");
    const isStart =
      token.startsWith("<") &&
      !isEnd &&
      !token.startsWith("<?") &&
      !token.startsWith("<!") &&
      !token.endsWith("/>");
    if (isEnd) depth = Math.max(0, depth - 1);
    lines.push(`${"  ".repeat(Math.min(depth, 40))}${token.trim()}`);
    if (isStart) depth++;
  }
  return lines.join("\n");
}

function readMail(text: string): Extract<BodyView, { kind: "mail" }> {
  const end = /\r?\n\r?\n/.exec(text);
  const head = (end ? text.slice(0, end.index) : text).replaceAll(/\r?\n[ \t]+/g, " ");
  const headers = head.split(/\r?\n/).map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, Math.max(colon, 0)), line.slice(colon + 1).trim()] as const;
  });
  return {
    kind: "mail",
    headers: headers.filter(([name]) => name !== ""),
    text: end ? text.slice(end.index + end[0].length).replaceAll("\r\n", "\n") : "",
  };
}

/** Reads a body that is UTF-8. JSON is recognised without its content type, too. */
export function readBody(text: string, contentType: string | null): BodyView {
  const type = (contentType ?? "").toLowerCase();
  if (type.includes("x-www-form-urlencoded"))
    return { kind: "form", fields: [...new URLSearchParams(text)] };
  if (type.startsWith("message/rfc822")) return readMail(text);
  if (/[/+]xml/.test(type) || /^\s*<\?xml/.test(text))
    return { kind: "xml", text: indentXml(text) };
  if (type.includes("json") || /^\s*[[{]/.test(text)) {
    const read = readJson(text);
    if (read) return { kind: "json", value: read.value };
  }
  return { kind: "text", text };
}

/** Bytes as a dump of hexadecimal digits and what of them is printable. */
export function hexDump(base64: string, most = 4096): string {
  const bytes = Uint8Array.from(atob(base64.slice(0, Math.ceil(most / 3) * 4)), (character) =>
    character.charCodeAt(0),
  );
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(row, (byte) =>
      byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".",
    ).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
