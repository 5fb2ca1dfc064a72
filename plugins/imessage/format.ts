import { parseMarkdown } from "#plugin";
import type { AlignType, Definition, Node, Nodes, Root, Table } from "mdast";

type Definitions = Map<string, Definition>;

/** Renders markdown as plain text whose structure can still be read; iMessage knows no marks. */
export function render(markdown: string): string {
  const tree = parseMarkdown(markdown);
  const text = blocks(tree.children, definitionsOf(tree), "\n\n");
  // What renders to nothing, like a lone `#`, goes out as it was written.
  return text.trim() === "" ? markdown : text;
}

/** The definitions that a link refers to, by label. Others stay in the text: the reference may be in another piece. */
function definitionsOf(tree: Root): Definitions {
  const found: Definitions = new Map();
  const used = new Set<string>();
  const visit = (node: Nodes): void => {
    if (node.type === "definition" && !found.has(node.identifier)) found.set(node.identifier, node);
    if (node.type === "linkReference" || node.type === "imageReference") used.add(node.identifier);
    if ("children" in node) for (const child of node.children) visit(child);
  };
  visit(tree);
  for (const id of found.keys()) if (!used.has(id)) found.delete(id);
  return found;
}

function blocks(nodes: readonly Nodes[], definitions: Definitions, separator: string): string {
  return nodes
    .map((node) => block(node, definitions))
    .filter((text) => text !== "")
    .join(separator);
}

function block(node: Nodes, definitions: Definitions): string {
  switch (node.type) {
    case "blockquote":
      return indent(blocks(node.children, definitions, "\n\n"), "> ", "> ");
    case "list": {
      const first = node.start ?? 1;
      const items = node.children.map((item, index) => {
        const mark = node.ordered ? `${first + index}. ` : "• ";
        const box = typeof item.checked === "boolean" ? (item.checked ? "[x] " : "[ ] ") : "";
        return indent(blocks(item.children, definitions, item.spread ? "\n\n" : "\n"), mark + box, " ".repeat(mark.length));
      });
      return items.join(node.spread ? "\n\n" : "\n");
    }
    case "code":
      return node.value;
    case "table":
      return table(node, definitions);
    case "thematicBreak":
      return "———";
    case "definition":
      return definitions.has(node.identifier) ? "" : `[${node.label ?? node.identifier}]: ${node.url}`;
    case "footnoteDefinition":
      return indent(blocks(node.children, definitions, "\n\n"), `[^${node.label ?? node.identifier}] `, "  ");
    default:
      return inline(node, definitions);
  }
}

/** Puts a mark before the first line, and room before the others. */
function indent(text: string, first: string, rest: string): string {
  const mark = (line: string, index: number): string => (index === 0 ? first : line === "" ? rest.trimEnd() : rest) + line;
  return text.split("\n").map(mark).join("\n");
}

function inlines(node: Node, definitions: Definitions): string {
  return "children" in node ? (node.children as Nodes[]).map((child) => inline(child, definitions)).join("") : "";
}

function inline(node: Nodes, definitions: Definitions): string {
  switch (node.type) {
    case "inlineCode":
      return `\`${node.value}\``;
    case "break":
      return "\n";
    case "link":
      return withAddress(inlines(node, definitions), node);
    case "linkReference":
      return withAddress(inlines(node, definitions), definitions.get(node.identifier));
    case "image":
      return withAddress(node.alt ?? "", node);
    case "imageReference":
      return withAddress(node.alt ?? "", definitions.get(node.identifier));
    case "footnoteReference":
      return `[^${node.label ?? node.identifier}]`;
    default:
      return "value" in node ? node.value : inlines(node, definitions);
  }
}

/** A link as `text (address)`, or the address alone where the text says the same. */
function withAddress(text: string, to: { url: string; title?: string | null | undefined } | undefined): string {
  if (!to) return text;
  const { url, title } = to;
  const address = title ? `${url} "${title}"` : url;
  if (text.trim() === "") return address;
  if (!title && text === url.replace(/^mailto:/, "")) return text;
  return !title && text === url.replace(/^https?:\/\//, "") ? url : `${text} (${address})`;
}

/** Columns of one width. */
function table(node: Table, definitions: Definitions): string {
  const rows = node.children.map((row) => row.children.map((cell) => inlines(cell, definitions).replaceAll("\n", " ")));
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, index) => Math.max(...rows.map((row) => width(row[index] ?? ""))));
  const line = (row: readonly string[]): string =>
    widths
      .map((room, index) => pad(row[index] ?? "", room, node.align?.[index]))
      .join(" | ")
      .trimEnd();
  const [head = [], ...body] = rows;
  return [line(head), widths.map((room) => "-".repeat(room)).join("-+-"), ...body.map(line)].join("\n");
}

function pad(text: string, room: number, align: AlignType | undefined): string {
  const missing = room - width(text);
  const left = align === "right" ? missing : align === "center" ? Math.floor(missing / 2) : 0;
  return " ".repeat(left) + text + " ".repeat(missing - left);
}

const WIDE =
  /^(?:\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|[\u3000-\u303F\uFF01-\uFF60])/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** How many cells a text takes where letters have one width. */
function width(text: string): number {
  let cells = 0;
  for (const { segment } of graphemes.segment(text)) cells += WIDE.test(segment) ? 2 : 1;
  return cells;
}
