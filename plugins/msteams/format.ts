import type { Definition, Image, ImageReference, Nodes, Table } from "mdast";
import { parseMarkdown } from "#plugin";

/** A stretch of the source and what stands there instead. */
interface Edit {
  start: number;
  end: number;
  text: string;
}

/**
 * A markdown text as Teams shows it. The agent's own markdown stays as it is, escapes and all; only what Teams has no
 * form for is written anew: tables as aligned text in a code block, images as their address, HTML as visible text.
 */
export function toTeams(text: string): string {
  try {
    return rewrite(text);
  } catch {
    // Nested thousands deep, which ends the stack: better as it was written than not at all.
    return text;
  }
}

function rewrite(text: string): string {
  const root = parseMarkdown(text);
  const urls = new Map<string, string>();
  for (const { identifier, url } of definitionsIn(root)) if (!urls.has(identifier)) urls.set(identifier, url);
  let out = "";
  let at = 0;
  for (const edit of editsIn(root, text, urls)) {
    out += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return out + text.slice(at);
}

function definitionsIn(node: Nodes): Definition[] {
  if (node.type === "definition") return [node];
  return "children" in node ? node.children.flatMap(definitionsIn) : [];
}

function editsIn(node: Nodes, source: string, urls: ReadonlyMap<string, string>): Edit[] {
  const start = node.position?.start.offset ?? 0;
  const end = node.position?.end.offset ?? 0;
  const found = source.slice(start, end);
  if (node.type === "table") return [{ start, end, text: tableText(node, source, start, urls) }];
  if (node.type === "image" || node.type === "imageReference") return [{ start, end, text: imageText(node, urls) }];
  // Teams obeys some HTML and drops the rest without a word.
  if (node.type === "html") return [{ start, end, text: found.replace(/[\\`*_[\]~]/g, "\\$&").replaceAll("<", "&lt;") }];
  // `<https://…>` looks like HTML to it; a bare address it makes a link of.
  if (node.type === "link" && found.startsWith("<")) return [{ start, end, text: found.slice(1, -1) }];
  return "children" in node ? node.children.flatMap((child) => editsIn(child, source, urls)) : [];
}

/** The words that stand for an image, escaped, and its address, which Teams makes a link by itself. */
function imageText(node: Image | ImageReference, urls: ReadonlyMap<string, string>): string {
  const url = node.type === "image" ? node.url : (urls.get(node.identifier) ?? "");
  const alt = (node.alt ?? "").replace(/[\\`*_[\]<>~]/g, "\\$&");
  return [alt, url].filter((part) => part !== "").join(" ");
}

/** The table in a fence, each line behind the quote marks or the indentation that the table stood behind. */
function tableText(table: Table, source: string, start: number, urls: ReadonlyMap<string, string>): string {
  const before = source.slice(source.lastIndexOf("\n", start - 1) + 1, start).replace(/[^>\s]/g, " ");
  const rows = table.children.map((row) => row.children.map((cell) => plainText(cell, urls).replaceAll("\n", " ")));
  const widths = (rows[0] ?? []).map((_cell, column) => Math.max(1, ...rows.map((row) => width(row[column] ?? ""))));
  const lines = rows.map((row) =>
    row.map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - width(cell)))).join("  "),
  );
  const rule = widths.map((length) => "-".repeat(length)).join("  ");
  const longest = Math.max(2, ...[...lines.join("\n").matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return [fence, lines[0] ?? "", rule, ...lines.slice(1), fence].map((line) => line.trimEnd()).join(`\n${before}`);
}

function plainText(node: Nodes, urls: ReadonlyMap<string, string>): string {
  if (node.type === "image" || node.type === "imageReference") {
    const url = node.type === "image" ? node.url : (urls.get(node.identifier) ?? "");
    return [node.alt ?? "", url].filter((part) => part !== "").join(" ");
  }
  if (node.type === "footnoteReference") return `[${node.label ?? node.identifier}]`;
  if (!("children" in node)) return "value" in node ? node.value : "";
  const text = node.children.map((child) => plainText(child, urls)).join("");
  const url = node.type === "link" ? node.url : node.type === "linkReference" ? (urls.get(node.identifier) ?? "") : "";
  return url === "" || [text, `mailto:${text}`, `http://${text}`].includes(url) ? text : `${text} (${url})`;
}

const WIDE = /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303F\uFF01-\uFF60]/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** Columns: what East Asian scripts and emoji fill counts double. */
function width(text: string): number {
  return [...graphemes.segment(text)].reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0);
}
