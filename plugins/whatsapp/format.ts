import type { Definition, Nodes, PhrasingContent, RootContent, Table } from "mdast";
import { parseMarkdown } from "#plugin";

/** What the walk knows: where reference links lead, and which marks are open, since WhatsApp cannot nest one in itself. */
interface Scope {
  definitions: ReadonlyMap<string, string>;
  open: string;
}

const INVISIBLE = "\u200B";
const WORD = /[\p{L}\p{N}]/u;

/** A markdown text in WhatsApp's dialect. Nothing of it is lost: what has no form there is written out. */
export function toWhatsApp(text: string): string {
  try {
    const root = parseMarkdown(text);
    const definitions = new Map<string, string>();
    for (const node of definitionsIn(root)) if (!definitions.has(node.identifier)) definitions.set(node.identifier, node.url);
    const rendered = blocks(root.children, { definitions, open: "" });
    // Nothing but white space is refused there; what the agent wrote is at least something.
    return rendered.trim() === "" ? text : rendered;
  } catch {
    // Nested thousands deep, which ends the stack: better as it was written than not at all.
    return text;
  }
}

function definitionsIn(node: Nodes): Definition[] {
  if (node.type === "definition") return [node];
  return "children" in node ? node.children.flatMap(definitionsIn) : [];
}

function blocks(nodes: readonly RootContent[], scope: Scope, between = "\n\n"): string {
  return nodes
    .map((node) => block(node, scope))
    .filter((text) => text !== "")
    .join(between);
}

function block(node: RootContent, scope: Scope): string {
  switch (node.type) {
    case "heading":
      return styled("*", node.children, scope);
    case "paragraph":
      return inline(node.children, scope).replace(/^>/gm, `${INVISIBLE}>`);
    case "blockquote":
      return indent(blocks(node.children, scope), "> ", "> ");
    case "code":
      return fenced(node.value);
    case "list":
      return node.children
        .map((item, index) => {
          const mark = node.ordered ? `${(node.start ?? 1) + index}. ` : "- ";
          const task = typeof item.checked === "boolean" ? `[${item.checked ? "x" : " "}] ` : "";
          return indent(task + blocks(item.children, scope, item.spread ? "\n\n" : "\n"), mark, " ".repeat(mark.length));
        })
        .join(node.spread ? "\n\n" : "\n");
    case "table":
      return fenced(alignTable(node, scope));
    case "thematicBreak":
      return "---";
    case "definition":
      return `[${node.label ?? node.identifier}]: ${node.url}`;
    case "footnoteDefinition":
      return indent(blocks(node.children, scope), `[${node.label ?? node.identifier}]: `, "  ");
    case "html":
      return node.value;
    default:
      return inline([node as PhrasingContent], scope);
  }
}

function indent(text: string, first: string, rest: string): string {
  return text
    .split("\n")
    .map((line, index) => ((index === 0 ? first : rest) + line).trimEnd())
    .join("\n");
}

/** Code cannot hold the fence that ends it: an invisible character parts its backticks. */
function fenced(code: string): string {
  return `\`\`\`\n${code.replaceAll("```", `\`\`${INVISIBLE}\``)}\n\`\`\``;
}

function inline(nodes: readonly PhrasingContent[], scope: Scope): string {
  let out = "";
  for (const [index, node] of nodes.entries()) {
    const mark = { strong: "*", emphasis: "_", delete: "~" }[node.type as string];
    // Between letters WhatsApp shows a mark instead of obeying it.
    const beside = WORD.test(out.slice(-1)) || WORD.test(firstChar(nodes[index + 1]));
    out += mark && "children" in node ? styled(beside ? "" : mark, node.children, scope) : phrase(node, scope);
  }
  return out;
}

function firstChar(node: PhrasingContent | undefined): string {
  return node?.type === "text" ? node.value.slice(0, 1) : "";
}

/** Marks hold for one line and stand right beside what they mark. */
function styled(mark: string, nodes: readonly PhrasingContent[], scope: Scope): string {
  const used = scope.open.includes(mark) ? "" : mark;
  const text = inline(nodes, { ...scope, open: scope.open + used });
  if (used === "") return text;
  return text.replace(/^([^\S\n]*)(\S.*?)([^\S\n]*)$/gm, (_all, before: string, content: string, after: string) => {
    return before + used + content + used + after;
  });
}

function phrase(node: PhrasingContent, scope: Scope): string {
  switch (node.type) {
    case "text":
      return literal(node.value);
    case "inlineCode":
      return node.value.includes("`") ? fenced(node.value.replace(/^`|`$/g, edge)).replaceAll("\n", "") : `\`${node.value}\``;
    case "break":
      return "\n";
    case "link":
      return withAddress(inline(node.children, scope), node.url);
    case "linkReference":
      return withAddress(inline(node.children, scope), scope.definitions.get(node.identifier) ?? "");
    case "image":
      return withAddress(node.alt ?? "", node.url);
    case "imageReference":
      return withAddress(node.alt ?? "", scope.definitions.get(node.identifier) ?? "");
    case "footnoteReference":
      return `[${node.label ?? node.identifier}]`;
    case "html":
      return node.value;
    default:
      return inline("children" in node ? node.children : [], scope);
  }
}

/** Keeps a backtick at the edge of code from running into the fence. */
function edge(_tick: string, at: number): string {
  return at === 0 ? `${INVISIBLE}\`` : `\`${INVISIBLE}`;
}

function withAddress(text: string, url: string): string {
  const known = [text, `mailto:${text}`, `http://${text}`].includes(url);
  return url === "" || known ? text : text === "" ? url : `${text} (${url})`;
}

/** There is no escape: an invisible character behind a mark keeps a pair of them from being obeyed. */
function literal(text: string): string {
  return text.replace(/(?<![\p{L}\p{N}])([*_~`])(?=\S)(?=.*?\S\1(?![\p{L}\p{N}]))/gu, `$1${INVISIBLE}`);
}

/** Columns as wide as their widest cell; what East Asian scripts and emoji fill counts double. */
function alignTable(table: Table, scope: Scope): string {
  const rows = table.children.map((row) => row.children.map((cell) => plain(inline(cell.children, { ...scope, open: "*_~" }))));
  const widths = (rows[0] ?? []).map((_cell, column) => Math.max(...rows.map((row) => width(row[column] ?? ""))));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - width(cell))))
      .join("  ")
      .trimEnd(),
  );
  return [lines[0], widths.map((length) => "-".repeat(Math.max(1, length))).join("  "), ...lines.slice(1)].join("\n");
}

/** Inside code nothing is obeyed, so nothing needs parting. */
function plain(text: string): string {
  return text.replaceAll(INVISIBLE, "").replaceAll("\n", " ");
}

const WIDE = /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303F\uFF01-\uFF60]/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

function width(text: string): number {
  return [...graphemes.segment(text)].reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0);
}
