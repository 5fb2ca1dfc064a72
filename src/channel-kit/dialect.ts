import type {
  Blockquote,
  Definition,
  List,
  ListItem,
  Nodes,
  Parents,
  RootContent,
  Table,
  TableCell,
} from "mdast";
import { parseMarkdown } from "../core/markdown.ts";
import { alignTable, displayWidth, type Columns } from "./table.ts";

export { parseMarkdown } from "../core/markdown.ts";

/** Marks of a text. */
export type Mark = "heading" | "strong" | "emphasis" | "delete";

/**
 * A channel's way to write Markdown. Whatever a dialect leaves out is written as plain text, so that nothing of a text
 * is lost: a link as `text (address)`, an image as its address, a table in columns.
 */
export interface Dialect {
  /** Text as the channel shows it unchanged; `before` is written before it in its block. */
  escape?(text: string, before: string): string;
  /** An address that stands for itself. */
  address?(url: string): string;
  /** A paragraph, for what means something at the start of a line alone. */
  paragraph?(text: string): string;
  mark?(kind: Mark, text: string, depth: number): string;
  /** Marks do not nest in their own kind; a heading is of the kind of `strong`. */
  once?: boolean;
  /** Letters beside which a mark is shown instead of obeyed: it is left away there, unless `between` parts them. */
  apart?: RegExp;
  /** Written between such a letter and a mark or code, so that the mark is obeyed. */
  between?: string;
  /** Code in a line; it arrives as it was written. */
  code?(code: string): string;
  /** Code of its own, and tables. */
  block?(code: string, lang: string): string;
  /** A link with its text in the dialect and as plain text; undefined if the channel makes no link of the address. */
  link?(text: string, url: string, plain: string): string | undefined;
  /** An image that has words. Default: `words (address)`. */
  image?(alt: string, address: string): string;
  /** A quote. Default: `> ` before each line. */
  quote?(text: string): string;
  /** The mark of lines of a quote inside a quote, for channels that cannot nest them. */
  nestedQuote?: string;
  /** Blocks that begin at the margin wherever they stand. */
  flush?: readonly RootContent["type"][];
  /** The mark of a list's items. Default: `• `. */
  bullet?: string;
  /** The indentation of an item's other lines. Default: as wide as its mark. */
  indent?: number;
  /** Before tasks, open and done. Default: `☐ ` and `☑ `. */
  boxes?: readonly [open: string, done: string];
  rule?: string;
  columns?: Columns;
  /** The widest table, as letters of one width, that is drawn in columns; wider ones are cards. Default: all are drawn. */
  widestTable?: number;
  /** The mark of a footnote, where it is referred to and where it stands. Default: `[1]`, `[1] `. */
  note?(label: string, defined: boolean): string;
}

interface Page {
  dialect: Dialect;
  definitions: ReadonlyMap<string, Definition>;
  /** Definitions that a reference of this text uses. Others are written out, so that nothing of a text is lost. */
  used: ReadonlySet<string>;
  quoted: boolean;
  /** Marks around what is being written, for dialects in which none nests in its own kind. */
  open: Mark[];
}

/** The columns that fit side by side on a telephone; longer lines of a table would wrap. */
export const NARROW = 40;

/** For channels that show text as it is: what stays readable of tasks, notes and links. */
export const PLAIN: Dialect = {
  widestTable: NARROW,
  boxes: ["[ ] ", "[x] "],
  note: (label, defined) => `[^${label}]${defined ? " " : ""}`,
  // An address without its beginning is no link there.
  link: (_, url, plain) => (url.replace(/^https?:\/\//, "") === plain ? url : undefined),
};

/** Elements that are drawn with lines, for channels whose code is shown in letters of one width. */
export const BOX_DRAWING: Dialect = {
  rule: "──────────",
  columns: { between: " │ ", rule: ["─", "─┼─"], aligned: true },
  widestTable: NARROW,
};

const COLUMNS: Columns = { between: " | ", rule: ["-", "-+-"], aligned: true };
const BOXES = ["☐ ", "☑ "] as const;

const escape = (text: string, { dialect }: Page, before = ""): string =>
  dialect.escape?.(text, before) ?? text;
const paragraph = (text: string, { dialect }: Page): string => dialect.paragraph?.(text) ?? text;

/** A markdown text in a channel's dialect. What would show nothing, like a lone `#`, is there as it was written. */
export function renderMarkdown(markdown: string, dialect: Dialect): string {
  const blank = {
    dialect,
    definitions: new Map(),
    used: new Set<string>(),
    quoted: false,
    open: [],
  };
  const asItIs = (): string => paragraph(escape(markdown, blank), blank);
  try {
    const root = parseMarkdown(partAddresses(escapeProducts(markdown.replace(/\r\n?/g, "\n"))));
    const text = blocks(root.children, "", buildPage(root, dialect));
    return text.trim() === "" ? asItIs() : text;
  } catch (error) {
    // Nesting that exhausts the stack is hardly meant as markdown.
    if (error instanceof RangeError) return asItIs();
    throw error;
  }
}

/** An address in ASCII that punctuation of other scripts follows. */
const GLUED = /https?:\/\/[!-~]{1,2000}(?=[\u3001-\u3011\uff01-\uff1f\u201c\u201d\u2014\u2026])/g;

/** Escapes the stars of products, of which the parser takes factors for emphasis: `2*3*4`. */
export function escapeProducts(text: string): string {
  if (!/\d\*{1,2}\d/.test(text)) return text;
  const stars: number[] = [];
  const isProduct = (at: number): boolean => /^\d\*+\d/.test(text.slice(at - 1, at + 3));
  const visit = (node: Nodes): void => {
    const [start = 0, end = 0] = [node.position?.start.offset, node.position?.end.offset];
    const width = node.type === "strong" ? 2 : node.type === "emphasis" ? 1 : 0;
    if (width > 0 && isProduct(start) && isProduct(end - width))
      for (let star = 0; star < width; star++) stars.push(start + star, end - 1 - star);
    if ("children" in node) for (const child of node.children) visit(child);
  };
  visit(parseMarkdown(text));
  return insertAt(text, stars, "\\");
}

/** Inserts a sign at these places of a text. */
function insertAt(text: string, places: readonly number[], sign: string): string {
  let result = "";
  let done = 0;
  for (const place of places.toSorted((a, b) => a - b)) {
    result += text.slice(done, place) + sign;
    done = place;
  }
  return result + text.slice(done);
}

/** Puts a blank behind bare addresses that such punctuation follows: the parser, and apps, take it for a part of them. */
function partAddresses(text: string): string {
  if (text.search(GLUED) < 0) return text;
  const ends: number[] = [];
  const visit = (node: Nodes): void => {
    const { start, end } = node.position ?? {};
    const source = text.slice(start?.offset, end?.offset);
    if (node.type === "link" && source.startsWith("http"))
      for (const { index, 0: address } of source.matchAll(GLUED))
        ends.push((start?.offset ?? 0) + index + address.length);
    else if ("children" in node) for (const child of node.children) visit(child);
  };
  visit(parseMarkdown(text));
  return insertAt(text, ends, " ");
}

/** Collects the facts about a whole tree that its rendering needs. */
export function buildPage(root: Nodes, dialect: Dialect = {}): Page {
  const definitions = new Map<string, Definition>();
  const used = new Set<string>();
  const collect = (node: Nodes): void => {
    if (node.type === "definition" && !definitions.has(node.identifier))
      definitions.set(node.identifier, node);
    if (node.type === "linkReference" || node.type === "imageReference") used.add(node.identifier);
    if ("children" in node) for (const child of node.children) collect(child);
  };
  collect(root);
  return { dialect, definitions, used, quoted: false, open: [] };
}

/** A mark on each line of a text, right beside what it marks, for channels whose marks hold for one line. */
export function markLines(mark: string, text: string): string {
  return text.replace(
    /^([^\S\n]*)(\S.*?)([^\S\n]*)$/gm,
    (_, before: string, marked: string, after: string) =>
      [before, mark, marked, mark, after].join(""),
  );
}

/** Blocks, each with `indent` before its lines. */
function blocks(
  nodes: readonly RootContent[],
  indent: string,
  page: Page,
  between = "\n\n",
): string {
  return nodes
    .map((node) => block(node, indent, page))
    .filter((text) => text !== "")
    .join(between);
}

function block(node: RootContent, indent: string, page: Page): string {
  const { dialect } = page;
  const lines = (text: string): string =>
    indent === "" || dialect.flush?.includes(node.type)
      ? text
      : text.replace(/^(?=[^\n])/gm, indent);
  switch (node.type) {
    case "paragraph":
      return lines(paragraph(inlines(node, page), page));
    case "heading":
      return lines(marked("heading", node, page, node.depth));
    case "html":
      return lines(paragraph(escape(node.value, page), page));
    case "code":
      return lines(dialect.block?.(node.value, node.lang ?? "") ?? node.value);
    case "table":
      return lines(table(node, page));
    case "blockquote": {
      if (page.quoted && dialect.nestedQuote !== undefined)
        return blocks(node.children, indent + dialect.nestedQuote, page);
      return lines(quote(node, page));
    }
    case "list":
      return list(node, indent, page);
    case "thematicBreak":
      return lines(dialect.rule ?? "———");
    case "definition":
      return lines(definition(node, page));
    case "footnoteDefinition":
      return item(node, note(node, page, true), indent, page);
    default:
      return lines(inline(node, page));
  }
}

function quote({ children }: Blockquote, page: Page): string {
  const text = blocks(children, "", { ...page, quoted: true });
  return page.dialect.quote?.(text) ?? text.replace(/^(?=.)/gm, "> ").replace(/^$/gm, ">");
}

function list({ children, ordered, start, spread }: List, indent: string, page: Page): string {
  let number = start ?? 1;
  const mark = (): string => (ordered ? `${number++}. ` : (page.dialect.bullet ?? "• "));
  return children.map((entry) => item(entry, mark(), indent, page)).join(spread ? "\n\n" : "\n");
}

/** A definition of a link; empty if a reference shows the address. */
function definition(node: Definition, page: Page): string {
  if (page.used.has(node.identifier)) return "";
  return `${escape(`[${node.label ?? node.identifier}]: `, page)}${renderAddress(node, page)}`;
}

type Item = Pick<ListItem, "children"> & {
  checked?: boolean | null | undefined;
  spread?: boolean | null | undefined;
};

function item(node: Item, mark: string, indent: string, page: Page): string {
  const boxes = page.dialect.boxes ?? BOXES;
  const box = typeof node.checked === "boolean" ? boxes[node.checked ? 1 : 0] : "";
  const inner = indent + " ".repeat(page.dialect.indent ?? mark.length);
  const text = blocks(node.children, inner, page, node.spread ? "\n\n" : "\n");
  // A block that begins at the margin stands below the mark.
  return (
    indent +
    mark +
    box +
    (text.startsWith(inner) ? text.slice(inner.length) : text === "" ? "" : `\n${text}`)
  );
}

/** The last letter of a text with the signs upon it, as in "e\u0301". */
const lastLetter = (text: string): string => /\P{M}\p{M}*$/u.exec(text.slice(-20))?.[0] ?? "";
const firstLetter = (text: string): string => /^./su.exec(text)?.[0] ?? "";

/** Nodes that stand between marks. */
export const MARKED: ReadonlySet<string> = new Set(["strong", "emphasis", "delete", "inlineCode"]);

function inlines(node: Parents, page: Page): string {
  const { apart, between } = page.dialect;
  let out = "";
  for (const [index, child] of node.children.entries()) {
    const next: Nodes | undefined = node.children[index + 1];
    const after = next?.type === "text" ? next.value : "";
    const behind = apart?.test(lastLetter(out)) ?? false;
    const ahead = apart?.test(firstLetter(after)) ?? false;
    if (between === undefined) out += inline(child, page, behind || ahead, out);
    else {
      const [before, end] = MARKED.has(child.type) ? [behind, ahead] : [];
      out += (before ? between : "") + inline(child, page, false, out) + (end ? between : "");
    }
    // Apps take letters behind a bare address for a part of it.
    if (/^[^\s!-~]/.test(after) && "url" in child && out.endsWith(renderAddress(child, page)))
      out += " ";
  }
  return out;
}

function inline(node: RootContent, page: Page, beside = false, before = ""): string {
  const { dialect } = page;
  switch (node.type) {
    case "text":
    case "html":
      return escape(node.value, page, before);
    case "strong":
    case "emphasis":
    case "delete":
      return beside ? inlines(node, page) : marked(node.type, node, page);
    case "inlineCode":
      return dialect.code?.(node.value) ?? node.value;
    case "break":
      return "\n";
    case "link":
      return link(node, node, page);
    case "linkReference":
      return link(node, page.definitions.get(node.identifier), page);
    case "image":
      return image(node.alt, node, page);
    case "imageReference":
      return image(node.alt, page.definitions.get(node.identifier), page);
    case "footnoteReference":
      return note(node, page, false);
    default:
      return "children" in node
        ? inlines(node, page)
        : "value" in node
          ? escape(node.value, page)
          : "";
  }
}

function marked(kind: Mark, node: Parents, page: Page, depth = 0): string {
  const { mark, once = false } = page.dialect;
  const sort = kind === "heading" ? "strong" : kind;
  if (!mark || (once && page.open.includes(sort))) return inlines(node, page);
  return mark(kind, inlines(node, { ...page, open: [...page.open, sort] }), depth);
}

function note(
  { label, identifier }: { label?: string | null | undefined; identifier: string },
  page: Page,
  defined: boolean,
): string {
  const text = escape(label ?? identifier, page);
  return page.dialect.note?.(text, defined) ?? `[${text}]${defined ? " " : ""}`;
}

type Target = Pick<Definition, "url" | "title">;

/** Renders the address of a link, with its title. */
function renderAddress({ url, title }: Target, page: Page): string {
  return (page.dialect.address?.(url) ?? url) + (title ? escape(` "${title}"`, page) : "");
}

/** Returns whether a text is the address itself, as people write it. */
export const says = (text: string, url: string): boolean =>
  [text, `mailto:${text}`, `http://${text}`].includes(url);

/** The words alone of what stands in a link or a cell. */
function plainText(node: Nodes): string {
  if (node.type === "image") return [node.alt, node.url].filter(Boolean).join(" ");
  return "children" in node
    ? node.children.map((child) => plainText(child)).join("")
    : "value" in node
      ? node.value
      : "";
}

function link(node: Parents, target: Target | undefined, page: Page): string {
  const text = inlines(node, page);
  if (!target) return text;
  const plain = plainText(node);
  const linked = page.dialect.link?.(text, target.url, plain);
  if (linked !== undefined)
    return linked + (target.title ? escape(` (${target.title})`, page) : "");
  if (text.trim() === "") return renderAddress(target, page);
  return says(plain, target.url) && !target.title
    ? renderAddress({ url: plain }, page)
    : `${text} (${renderAddress(target, page)})`;
}

/** An image is its address: nothing that a text names is fetched. */
function image(alt: string | null | undefined, target: Target | undefined, page: Page): string {
  const text = escape(alt ?? "", page);
  if (!target || (alt === target.url && !target.title)) return text;
  const address = renderAddress(target, page);
  return text.trim() === ""
    ? address
    : (page.dialect.image?.(text, address) ?? `${text} (${address})`);
}

/** A table as text in columns, in a block of code, where no mark is obeyed; as cards if it is too wide for that. */
function table(node: Table, page: Page): string {
  const { columns = COLUMNS, widestTable = Infinity, block: inBlock } = page.dialect;
  const rows = node.children.map((row) => row.children.map((cell) => plainCell(cell, page)));
  const text = alignTable(rows, columns, node.align ?? []);
  if (displayWidth(text) > widestTable) return cards(node, page);
  return inBlock?.(text, "") ?? text;
}

/** A table as a card for each row: each cell in a line, behind what heads its column; the first is bold. */
function cards({ children: [head, ...rows] }: Table, page: Page): string {
  const headings = (head?.children ?? []).map((cell) => inlines(cell, page).trim());
  const line = (cell: TableCell, column: number): string => {
    const text = (column === 0 ? boldCell(cell, page) : inlines(cell, page)).trim();
    const heading = headings[column] ?? "";
    return text === "" || heading === "" ? text : `${heading}: ${text}`;
  };
  const card = (cells: readonly TableCell[]): string =>
    paragraph(cells.map(line).filter(Boolean).join("\n"), page);
  return rows.length === 0
    ? paragraph(headings.filter(Boolean).join("\n"), page)
    : rows.map((row) => card(row.children)).join("\n\n");
}

/** A cell in bold; what is bold in it is not so twice. */
function boldCell(cell: TableCell, page: Page): string {
  if (cell.children.length === 0) return "";
  return marked("strong", cell, { ...page, dialect: { ...page.dialect, once: true } });
}

/** Renders a cell without any marks; addresses are written out. */
export function plainCell(cell: Parents, page: Page): string {
  return inlines(cell, { ...page, dialect: {} });
}
