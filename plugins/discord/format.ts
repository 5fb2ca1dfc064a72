import type { Definition, ListItem, Nodes, Root, RootContent, Table } from "mdast";
import { parseMarkdown } from "#plugin";

/** Addresses that Discord makes a link of; of others it would show the markup. */
const LINKABLE = /^https?:\/\//i;
/** What Discord reads as an address, where it would show escapes; else what it reads as a mark. */
const SPECIAL = /https?:\/\/[^\s<]+[^<.,:;"')\]\s]|[\\*`~|[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|<(?=[@#:/]|a:|t:|id:|https?:)/g;
const WIDE =
  /[\u1100-\u115f\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|\ufe0f/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

interface Page {
  definitions: Map<string, Definition>;
  /** Definitions that a reference of this text has used. */
  used: Set<string>;
  quoted: boolean;
}

/** A markdown text in Discord's own markdown: no tables, no images, three levels of headings, no quote in a quote. */
export function toDiscord(markdown: string): string {
  try {
    const root: Root = parseMarkdown(markdown);
    const page: Page = { definitions: new Map(), used: new Set(), quoted: false };
    collect(root, page);
    return blocks(root.children, "", page);
  } catch (error) {
    // What nests so deep that the stack ends is no markdown that anybody meant.
    if (error instanceof RangeError) return escapeStarts(escape(markdown));
    throw error;
  }
}

function collect(node: Nodes, page: Page): void {
  if (node.type === "definition" && !page.definitions.has(node.identifier)) page.definitions.set(node.identifier, node);
  if (node.type === "linkReference" || node.type === "imageReference") page.used.add(node.identifier);
  if ("children" in node) for (const child of node.children) collect(child, page);
}

/**
 * Text as Discord shows it unchanged. What looks like a mention, an emoji or a time (`<@1>`, `<:a:1>`, `<t:1>`) is no
 * such thing in a reply. `_` inside a word is no mark for Discord either.
 */
function escape(text: string): string {
  const links = text.includes("](");
  return text.replace(SPECIAL, (part) => (part.startsWith("http") || (part === "[" && !links) ? part : `\\${part}`));
}

/** Marks that mean a block only at the start of a line. */
function escapeStarts(text: string): string {
  return text.replace(/^([^\S\n]*)(?=(?:#{1,3}|-#|[-+>]|>>>)\s)/gm, "$1\\").replace(/^([^\S\n]*\d+)(?=\.\s)/gm, "$1\\");
}

/** Blocks, each with `indent` before its lines. */
function blocks(nodes: readonly RootContent[], indent: string, page: Page, between = "\n\n"): string {
  return nodes
    .map((node) => block(node, indent, page))
    .filter((text) => text !== "")
    .join(between);
}

function block(node: RootContent, indent: string, page: Page): string {
  const lines = (text: string): string => indent + text.replaceAll("\n", `\n${indent}`);
  switch (node.type) {
    case "heading": {
      const text = inlines(node.children, page).replaceAll("\n", " ");
      return lines(node.depth <= 3 ? `${"#".repeat(node.depth)} ${text}` : `**${text}**`);
    }
    case "blockquote": {
      // Discord has no quote inside a quote.
      if (page.quoted) return blocks(node.children, `${indent}» `, page);
      page.quoted = true;
      const text = blocks(node.children, "", page);
      page.quoted = false;
      return lines(text.replace(/^/gm, "> "));
    }
    case "list": {
      let number = node.start ?? 1;
      return node.children
        .map((entry) => item(entry, node.ordered ? `${number++}. ` : "- ", indent, page))
        .join(node.spread || node.children.some((entry) => entry.spread) ? "\n\n" : "\n");
    }
    case "code":
      return fence(node.value, /^[\w+#.-]+$/.test(node.lang ?? "") ? (node.lang ?? "") : "");
    case "table":
      return fence(table(node, page), "");
    case "thematicBreak":
      return lines("──────────");
    case "html":
      return lines(escapeStarts(escape(node.value)));
    case "definition":
      return page.used.has(node.identifier) ? "" : lines(`[${escape(node.label ?? node.identifier)}]: ${node.url}`);
    case "footnoteDefinition":
      return item(node, `[${escape(node.label ?? node.identifier)}] `, indent, page);
    case "paragraph":
      return lines(escapeStarts(inlines(node.children, page)));
    default:
      return lines(inline(node, page));
  }
}

/** Code, which begins at the margin wherever it stands. Discord ends it at the first three backticks: a zero-width space parts those. */
function fence(code: string, lang: string): string {
  return `\`\`\`${lang}\n${code.replaceAll("```", "`\u200b`\u200b`")}\n\`\`\``;
}

type Item = Pick<ListItem, "children"> & { checked?: boolean | null | undefined; spread?: boolean | null | undefined };

function item(node: Item, mark: string, indent: string, page: Page): string {
  const box = typeof node.checked === "boolean" ? (node.checked ? "☑ " : "☐ ") : "";
  const inner = indent + " ".repeat(mark.length);
  const text = blocks(node.children, inner, page, node.spread ? "\n\n" : "\n");
  // Code begins at the margin: it stands below the mark.
  return indent + mark + box + (text.startsWith(inner) ? text.slice(inner.length) : text === "" ? "" : `\n${text}`);
}

function inlines(nodes: readonly RootContent[], page: Page): string {
  return nodes.map((node) => inline(node, page)).join("");
}

function inline(node: RootContent, page: Page): string {
  switch (node.type) {
    case "text":
    case "html":
      return escape(node.value);
    case "strong":
      return marked("**", inlines(node.children, page));
    case "emphasis":
      return marked("*", inlines(node.children, page));
    case "delete":
      return marked("~~", inlines(node.children, page));
    case "inlineCode":
      return code(node.value);
    case "break":
      return "\n";
    case "link":
      return link(inlines(node.children, page), plainText(node), node.url, node.title);
    case "linkReference": {
      const found = page.definitions.get(node.identifier);
      const text = inlines(node.children, page);
      return found ? link(text, plainText(node), found.url, found.title) : `[${text}]`;
    }
    case "image":
      return image(node.alt, node.url, node.title);
    case "imageReference": {
      const found = page.definitions.get(node.identifier);
      return image(node.alt, found?.url ?? "", found?.title);
    }
    case "footnoteReference":
      return `[${escape(node.label ?? node.identifier)}]`;
    default:
      return "children" in node ? inlines(node.children, page) : "value" in node ? escape(node.value) : "";
  }
}

/** Marked text, in which nothing begins a block, and no escaped mark runs into the closing one. */
function marked(mark: string, text: string): string {
  return mark + escapeStarts(text) + (mark === "~~" && text.endsWith("~") ? "\u200b" : "") + mark;
}

function code(text: string): string {
  const longest = Math.max(0, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  // Discord knows one and two backticks; more of them inside are parted as in a block.
  if (longest === 0) return `\`${text}\``;
  const inner = longest > 1 ? text.replaceAll("`", "`\u200b") : text;
  return `\`\` ${inner} \`\``;
}

function plainText(node: Nodes): string {
  return "children" in node ? node.children.map((child) => plainText(child)).join("") : "value" in node ? node.value : "";
}

function link(text: string, plain: string, url: string, title: string | null | undefined): string {
  const note = title ? ` (${escape(title)})` : "";
  // A bare address stands as it is: Discord makes a link of it, and would show escapes.
  if (plain === url || `mailto:${plain}` === url || `http://${plain}` === url) return plain + note;
  // Discord makes no link of a text that is an address itself, so that none poses as another.
  if (LINKABLE.test(url) && plain.trim() !== "" && !/https?:\/\/|\w\.\w/.test(plain))
    return `[${text.replaceAll("\n", " ")}](${encode(url)})${note}`;
  return [text, text === "" ? url : ` (${url})`, note].join("");
}

/** An address that ends where it should: parentheses and white space would end it sooner. */
function encode(url: string): string {
  return url.replace(/[()\s<>\\]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** An image is its address: nothing that a text names is fetched. */
function image(alt: string | null | undefined, url: string, title: string | null | undefined): string {
  return [alt ? escape(alt) : "", title ? `(${escape(title)})` : "", url].filter(Boolean).join(" ");
}

function width(text: string): number {
  let sum = 0;
  for (const { segment } of graphemes.segment(text)) sum += WIDE.test(segment) ? 2 : 1;
  return sum;
}

/** What a cell says without markup, since inside code there is none. */
function cellText(node: Nodes, page: Page): string {
  if (node.type === "image") return [node.alt, node.url].filter(Boolean).join(" ");
  if (node.type === "break") return " ";
  if (!("children" in node)) return "value" in node ? node.value : "";
  const text = node.children.map((child) => cellText(child, page)).join("");
  const url = node.type === "link" ? node.url : node.type === "linkReference" ? page.definitions.get(node.identifier)?.url : undefined;
  return url === undefined || url.endsWith(text) ? text : `${text} (${url})`;
}

/** A table as text in columns. */
function table(node: Table, page: Page): string {
  const rows = node.children.map((row) => row.children.map((cell) => cellText(cell, page).replaceAll("\n", " ")));
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) => Math.max(...rows.map((row) => width(row[column] ?? ""))));
  const line = (row: string[]): string =>
    widths
      .map((wide, column) => {
        const cell = row[column] ?? "";
        const space = wide - width(cell);
        const align = node.align?.[column];
        const left = align === "right" ? space : align === "center" ? Math.floor(space / 2) : 0;
        return " ".repeat(left) + cell + " ".repeat(space - left);
      })
      .join(" │ ")
      .trimEnd();
  const [head = [], ...body] = rows;
  return [line(head), widths.map((wide) => "─".repeat(wide)).join("─┼─"), ...body.map(line)].join("\n");
}
