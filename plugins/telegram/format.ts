import type { Definition, ListItem, Nodes, Root, RootContent, Table } from "mdast";
import { parseMarkdown } from "#plugin";

/** Telegram leaves out all entities of a message after the first hundred: what they hid, as a link's address, is then written out. */
const MAX_ENTITIES = 100;
/** Addresses that Telegram makes a link of; of others it would show the text alone. */
const LINKABLE = /^(?:https?|ftp|tg|mailto|tel):/i;
const WIDE =
  /[\u1100-\u115f\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|\ufe0f/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

interface Page {
  definitions: Map<string, Definition>;
  /** Definitions that a reference of this text has used. */
  used: Set<string>;
  entities: number;
  quoted: boolean;
}

/** A markdown text in Telegram's HTML. */
export function toHtml(markdown: string): string {
  return render(markdown, 0);
}

/** A markdown text without any markup, for when Telegram does not take its HTML. Addresses of links are written out. */
export function toPlainText(markdown: string): string {
  return visibleText(render(markdown, MAX_ENTITIES));
}

/** What a reader sees of Telegram's HTML: the text whose length counts. */
export function visibleText(html: string): string {
  return html
    .replace(/<[^>]*>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&");
}

function render(markdown: string, entities: number): string {
  try {
    const root: Root = parseMarkdown(markdown);
    const page: Page = { definitions: new Map(), used: new Set(), entities, quoted: false };
    collect(root, page);
    return blocks(root.children, "", page);
  } catch (error) {
    // What nests so deep that the stack ends is no markdown that anybody meant.
    if (error instanceof RangeError) return escape(markdown);
    throw error;
  }
}

function collect(node: Nodes, page: Page): void {
  if (node.type === "definition" && !page.definitions.has(node.identifier)) page.definitions.set(node.identifier, node);
  if (node.type === "linkReference" || node.type === "imageReference") page.used.add(node.identifier);
  if ("children" in node) for (const child of node.children) collect(child, page);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

function tag(page: Page, open: string, inner: string, close: string): string {
  if (inner === "" || page.entities >= MAX_ENTITIES) return inner;
  page.entities++;
  return `<${open}>${inner}</${close}>`;
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
    case "heading":
      return lines(tag(page, "b", inlines(node.children, page), "b"));
    case "blockquote": {
      // Telegram has no quote inside a quote.
      if (page.quoted) return blocks(node.children, `${indent}&gt; `, page);
      page.quoted = true;
      const text = blocks(node.children, "", page);
      page.quoted = false;
      return tag(page, "blockquote", text, "blockquote");
    }
    case "list": {
      let number = node.start ?? 1;
      return node.children
        .map((entry) => item(entry, node.ordered ? `${number++}. ` : "• ", indent, page))
        .join(node.spread || node.children.some((entry) => entry.spread) ? "\n\n" : "\n");
    }
    case "code": {
      const lang = node.lang ?? "";
      const code = escape(node.value);
      return lang === "" ? tag(page, "pre", code, "pre") : tag(page, `pre><code class="language-${escape(lang)}"`, code, "code></pre");
    }
    case "table":
      return tag(page, "pre", escape(table(node, page)), "pre");
    case "thematicBreak":
      return lines("──────────");
    case "html":
      return lines(escape(node.value));
    case "definition":
      return page.used.has(node.identifier) ? "" : lines(escape(`[${node.label ?? node.identifier}]: ${node.url}`));
    case "footnoteDefinition":
      return item(node, `[${escape(node.label ?? node.identifier)}] `, indent, page);
    case "paragraph":
      return lines(inlines(node.children, page));
    default:
      return lines(inline(node, page));
  }
}

function item(
  node: Pick<ListItem, "children"> & { checked?: boolean | null | undefined; spread?: boolean | null | undefined },
  mark: string,
  indent: string,
  page: Page,
): string {
  const box = typeof node.checked === "boolean" ? (node.checked ? "☑ " : "☐ ") : "";
  const inner = indent + " ".repeat(visibleText(mark).length);
  const text = blocks(node.children, inner, page, node.spread ? "\n\n" : "\n");
  // Code and quotes begin at the margin: they stand below the mark.
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
      return tag(page, "b", inlines(node.children, page), "b");
    case "emphasis":
      return tag(page, "i", inlines(node.children, page), "i");
    case "delete":
      return tag(page, "s", inlines(node.children, page), "s");
    case "inlineCode":
      return tag(page, "code", escape(node.value), "code");
    case "break":
      return "\n";
    case "link":
      return link(inlines(node.children, page), node.url, node.title, page);
    case "linkReference": {
      const found = page.definitions.get(node.identifier);
      const text = inlines(node.children, page);
      return found ? link(text, found.url, found.title, page) : `[${text}]`;
    }
    case "image":
      return image(node.alt, node.url, node.title);
    case "imageReference": {
      const found = page.definitions.get(node.identifier);
      return image(node.alt, found?.url ?? "", found?.title);
    }
    case "footnoteReference":
      return escape(`[${node.label ?? node.identifier}]`);
    default:
      return "children" in node ? inlines(node.children, page) : "value" in node ? escape(node.value) : "";
  }
}

function link(text: string, url: string, title: string | null | undefined, page: Page): string {
  const note = title ? ` (${escape(title)})` : "";
  const plain = visibleText(text);
  if (plain === url || `mailto:${plain}` === url || `http://${plain}` === url) return text + note;
  if (LINKABLE.test(url) && plain.trim() !== "" && page.entities < MAX_ENTITIES)
    return tag(page, `a href="${escape(url)}"`, text, "a") + note;
  return [text, plain === "" ? escape(url) : ` (${escape(url)})`, note].join("");
}

/** An image is its address: nothing that a text names is fetched. */
function image(alt: string | null | undefined, url: string, title: string | null | undefined): string {
  return escape([alt, title ? `(${title})` : "", url].filter(Boolean).join(" "));
}

function width(text: string): number {
  let sum = 0;
  for (const { segment } of graphemes.segment(text)) sum += WIDE.test(segment) ? 2 : 1;
  return sum;
}

/** A table as text in columns. */
function table(node: Table, page: Page): string {
  // Inside code there are no entities.
  const plain: Page = { ...page, entities: MAX_ENTITIES };
  const rows = node.children.map((row) => row.children.map((cell) => visibleText(inlines(cell.children, plain)).replaceAll("\n", " ")));
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
