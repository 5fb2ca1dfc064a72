import type { Nodes } from "mdast";
import { parseMarkdown } from "../core/markdown.ts";
import { buildPage, escapeProducts, plainCell } from "./dialect.ts";
import { alignTable as align, type Columns } from "./table.ts";

const SIGNS: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

/** Text for HTML, in elements and in attributes that stand in `"`. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => SIGNS[sign] ?? sign);
}

/** Returns the visible text of HTML whose text was escaped by `escapeHtml`. */
export function htmlText(html: string): string {
  const back = Object.fromEntries(Object.entries(SIGNS).map(([sign, entity]) => [entity, sign]));
  return html
    .replace(/<[^>]*>/g, "")
    .replace(/&(?:lt|gt|quot|amp);/g, (entity) => back[entity] ?? entity);
}

/** A stretch of a markdown text that is one node of its tree. */
interface Stretch {
  /** As it was written. */
  source: string;
  /** The address of a link or an image, also by reference; else empty. */
  url: string;
  /** A table as lines of text in columns, in a block of code; each stands behind the quote marks or the indentation that the table stood behind. */
  table(columns: Columns): string;
}

/** Lines as a block of code, the later ones behind what stood `before` the first. */
function inCode(lines: string, before: string): string {
  const longest = Math.max(2, ...[...lines.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${lines}\n${fence}`.replaceAll("\n", `\n${before.replace(/[^>\s]/g, " ")}`);
}

/** HTML whose source a channel shall show that reads markdown in it: none of its signs is a mark, and none of its lines a block. */
export function escapeMarks(html: string): string {
  return html
    .replace(/[\\`*[\]~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g, "\\$&")
    .replace(/^(\s*)(?=(?:[-+]|#{1,6})\s|[-=]+\s*$|>)/gm, "$1\\")
    .replace(/^(\s*\d{1,9})(?=[.)]\s)/gm, "$1\\");
}

/**
 * A markdown text for a channel that reads markdown but for some things: `edit` gives what stands in place of a node's
 * source, or undefined to leave it and go on to what is in it. What nests too deep to be read is one node of text.
 */
export function rewriteMarkdown(
  markdown: string,
  edit: (node: Nodes, stretch: Stretch) => string | undefined,
): string {
  const text = escapeProducts(markdown);
  const root = parseMarkdown(text);
  let result = "";
  let done = 0;
  const none = { source: text, url: "", table: () => "" };
  try {
    const page = buildPage(root);
    const visit = (node: Nodes): void => {
      const start = node.position?.start.offset ?? 0;
      const end = node.position?.end.offset ?? 0;
      const target =
        "identifier" in node
          ? page.definitions.get(node.identifier)
          : "url" in node
            ? node
            : undefined;
      const changed = edit(node, {
        source: node.position ? text.slice(start, end) : text,
        url: target?.url ?? "",
        table(columns) {
          if (node.type !== "table") return "";
          const rows = node.children.map((row) =>
            row.children.map((cell) => plainCell(cell, page)),
          );
          return inCode(
            align(rows, columns, node.align ?? []),
            text.slice(text.lastIndexOf("\n", start - 1) + 1, start),
          );
        },
      });
      if (changed !== undefined) {
        result += text.slice(done, start) + changed;
        done = node.position ? end : text.length;
      } else if ("children" in node) for (const child of node.children) visit(child);
    };
    visit(root);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return edit({ type: "text", value: text }, none) ?? text;
  }
  return result + text.slice(done);
}
