import { parseMarkdown } from "#plugin";
import type { AlignType, Definition, Node, Nodes, Root, Table } from "mdast";

type Style = "BOLD" | "ITALIC" | "STRIKETHROUGH" | "MONOSPACE";

/** A part of the text and the styles it stands in. */
interface Run {
  text: string;
  styles: readonly Style[];
}

/** A message in Signal's way: plain text, and ranges in UTF-16 units as `start:length:STYLE`. */
export interface SignalText {
  text: string;
  styles: string[];
}

type Definitions = Map<string, Definition>;

const plain = (text: string): Run[] => (text === "" ? [] : [{ text, styles: [] }]);
const styled = (style: Style, runs: readonly Run[]): Run[] => runs.map((run) => ({ text: run.text, styles: [...run.styles, style] }));
const textOf = (runs: readonly Run[]): string => runs.map((run) => run.text).join("");

/** Renders markdown; what Signal has no style for stays readable as text. */
export function render(markdown: string): SignalText {
  const tree = parseMarkdown(markdown);
  const definitions = collectDefinitions(tree);
  const runs = blocks(tree.children, definitions);
  // What renders to nothing, like a lone `#`, goes out as it was written.
  if (textOf(runs).trim() === "") return { text: markdown, styles: [] };
  return { text: textOf(runs), styles: ranges(runs) };
}

/** The length that counts for Signal's limit: bytes of UTF-8, once rendered. */
export function measure(markdown: string): number {
  return Buffer.byteLength(render(markdown).text);
}

function ranges(runs: readonly Run[]): string[] {
  const found: { start: number; end: number; style: Style }[] = [];
  let at = 0;
  for (const run of runs) {
    const end = at + run.text.length;
    for (const style of new Set(run.styles)) {
      const before = found.findLast((range) => range.style === style);
      if (before?.end === at) before.end = end;
      else found.push({ start: at, end, style });
    }
    at = end;
  }
  return found.map(({ start, end, style }) => `${start}:${end - start}:${style}`);
}

/** The definitions of links by label. One that nothing here refers to stays in the text: its reference may be in another piece. */
function collectDefinitions(tree: Root): Definitions {
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

function join(parts: readonly Run[][], separator: string): Run[] {
  return parts.filter((part) => part.length > 0).flatMap((part, index) => (index === 0 ? part : [...plain(separator), ...part]));
}

function blocks(nodes: readonly Nodes[], definitions: Definitions, separator = "\n\n"): Run[] {
  return join(
    nodes.map((node) => block(node, definitions)),
    separator,
  );
}

function block(node: Nodes, definitions: Definitions): Run[] {
  switch (node.type) {
    case "heading":
      return styled("BOLD", inlines(node, definitions));
    case "code":
      return styled("MONOSPACE", plain(node.value));
    case "blockquote":
      return indent(blocks(node.children, definitions), "> ", "> ");
    case "list": {
      const first = node.start ?? 1;
      const items = node.children.map((item, index) => {
        const mark = node.ordered ? `${first + index}. ` : "• ";
        const box = typeof item.checked === "boolean" ? (item.checked ? "[x] " : "[ ] ") : "";
        const content = blocks(item.children, definitions, item.spread ? "\n\n" : "\n");
        return indent(content, mark + box, " ".repeat(mark.length));
      });
      return join(items, node.spread ? "\n\n" : "\n");
    }
    case "table":
      return table(node, definitions);
    case "thematicBreak":
      return plain("———");
    case "definition":
      return definitions.has(node.identifier) ? [] : plain(`[${node.label ?? node.identifier}]: ${node.url}`);
    case "footnoteDefinition":
      return indent(blocks(node.children, definitions), `[^${node.label ?? node.identifier}] `, "  ");
    default:
      return inline(node, definitions);
  }
}

/** Puts a mark before the first line, and room before the others. */
function indent(runs: readonly Run[], first: string, rest: string): Run[] {
  const mark = (text: string): string =>
    text.replace(/\n(\n?)/g, (_, next: string) => (next ? `\n${rest.trimEnd()}\n${rest}` : `\n${rest}`));
  return [...plain(first), ...runs.map((run) => ({ ...run, text: mark(run.text) }))];
}

function inlines(node: Node, definitions: Definitions): Run[] {
  return "children" in node ? (node.children as Nodes[]).flatMap((child) => inline(child, definitions)) : [];
}

function inline(node: Nodes, definitions: Definitions): Run[] {
  switch (node.type) {
    case "strong":
      return styled("BOLD", inlines(node, definitions));
    case "emphasis":
      return styled("ITALIC", inlines(node, definitions));
    case "delete":
      return styled("STRIKETHROUGH", inlines(node, definitions));
    case "inlineCode":
      return styled("MONOSPACE", plain(node.value));
    case "break":
      return plain("\n");
    case "link":
      return withAddress(inlines(node, definitions), node.url, node.title);
    case "linkReference": {
      const to = definitions.get(node.identifier);
      return withAddress(inlines(node, definitions), to?.url ?? "", to?.title);
    }
    case "image":
      return withAddress(plain(node.alt ?? ""), node.url, node.title);
    case "imageReference": {
      const to = definitions.get(node.identifier);
      return withAddress(plain(node.alt ?? ""), to?.url ?? "", to?.title);
    }
    case "footnoteReference":
      return plain(`[^${node.label ?? node.identifier}]`);
    default:
      return "value" in node ? plain(node.value) : inlines(node, definitions);
  }
}

/** A link as `text (address)`, or the address alone where the text says the same. */
function withAddress(label: Run[], url: string, title: string | null | undefined): Run[] {
  const text = textOf(label);
  const address = title ? `${url} "${title}"` : url;
  if (text.trim() === "") return plain(address);
  const same = [url, url.replace(/^mailto:/, ""), url.replace(/^https?:\/\//, "")].includes(text);
  return same && !title ? (url.endsWith(text) && url.startsWith("http") ? plain(url) : label) : [...label, ...plain(` (${address})`)];
}

/** Columns of one width, in letters of one width. */
function table(node: Table, definitions: Definitions): Run[] {
  const rows = node.children.map((row) => row.children.map((cell) => textOf(inlines(cell, definitions)).replaceAll("\n", " ")));
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, index) => Math.max(...rows.map((row) => width(row[index] ?? ""))));
  const line = (row: readonly string[]): string =>
    widths
      .map((room, index) => pad(row[index] ?? "", room, node.align?.[index]))
      .join(" | ")
      .trimEnd();
  const [head = [], ...body] = rows;
  const rule = widths.map((room) => "-".repeat(room)).join("-+-");
  return styled("MONOSPACE", plain([line(head), rule, ...body.map(line)].join("\n")));
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
