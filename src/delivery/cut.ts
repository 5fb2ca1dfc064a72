import type { ListItem, Nodes, Parents, RootContent, Table } from "mdast";
import { parseMarkdown } from "../core/markdown.ts";

/** The beginning of a markdown text, as far as a piece of it can reach, with what else has to be known of the text. */
export interface Beginning {
  text: string;
  /** The text behind it. */
  behind: string;
  tree: Nodes;
  /** The longest piece. */
  limit: number;
  /** Links that a piece can hold, and short code in a line, may be cut too: no other place was found. */
  cutsMore?: boolean;
}

/** A place to cut: the piece ends before `end`, and the rest begins at `next`; between them is white space. */
export interface Place {
  end: number;
  next: number;
}

/** A text in two, of which each keeps the forms of what it holds. */
export interface Halves {
  piece: string;
  rest: string;
}

/**
 * The distance behind a piece at which the end of its forms is looked for; in a long paragraph a longer one. Forms that
 * end later are cut like words.
 */
const LOOK_AHEAD = 2000;
const FARTHEST = 16_000;
/** A paragraph with more signs of marks, or with none, is not read so far. */
const MOST_SIGNS = 500;
/** A text with this share of marks takes long to read, and is hardly meant as markdown. */
const DENSEST = 1 / 3;
const LONG_TO_READ = 1000;
/** The share of a piece that closing a form and opening it again may take. */
const MOST_OVERHEAD = 0.5;
const DEFINITION = /^ {0,3}\[(?!\^)((?:[^\\[\]]|\\.){1,999})\]:[ \t]*\S.*$/gm;

const startOf = (node: Nodes): number => node.position?.start.offset ?? -1;
const endOf = (node: Nodes): number => node.position?.end.offset ?? -1;

/** The lines of a text that may define the addresses of its links by reference, by the label in its brackets. The first counts. */
export function findDefinitions(text: string): ReadonlyMap<string, string> {
  const lower = text.toLowerCase();
  const found = new Map<string, string>();
  for (const [line, label = ""] of text.matchAll(DEFINITION)) {
    const mark = `[${label.toLowerCase()}]`;
    if (!found.has(mark) && lower.indexOf(mark) !== lower.lastIndexOf(mark))
      found.set(mark, line.trim());
  }
  return found;
}

const countSigns = (text: string): number => text.match(/[*_~`[\]]/g)?.length ?? 0;

/** Reads the beginning of a text. Links by reference get their address, which may be defined in another piece. */
export function readBeginning(
  text: string,
  limit: number,
  definitions: ReadonlyMap<string, string>,
): Beginning {
  const paragraph = text.indexOf("\n\n", limit);
  const far = text.slice(
    0,
    paragraph < 0 ? limit + FARTHEST : Math.min(paragraph, limit + FARTHEST),
  );
  const signs = countSigns(far);
  const isRead = far.length > limit + LOOK_AHEAD && signs > 0 && signs <= MOST_SIGNS;
  const window = isRead ? far : text.slice(0, limit + LOOK_AHEAD);
  const behind = text.slice(window.length);
  if (window.length > LONG_TO_READ && countSigns(window) > window.length * DENSEST)
    return { text: window, behind, tree: { type: "root", children: [] }, limit };
  const lower = definitions.size === 0 ? "" : window.toLowerCase();
  const used = [...definitions].flatMap(([mark, line]) => (lower.includes(mark) ? [line] : []));
  const resolved = used.length === 0 ? window : resolveReferences(window, used.join("\n"));
  return { text: resolved, behind, tree: parseMarkdown(resolved), limit };
}

/** A text whose links and images by reference have their address, without the definitions of these. */
function resolveReferences(window: string, definitions: string): string {
  const targets = new Map<string, string>();
  const edits: { start: number; end: number; text: string }[] = [];
  const visit = (node: Nodes, write: (node: Nodes) => void): void => {
    write(node);
    if ("children" in node) for (const child of node.children) visit(child, write);
  };
  // Before the text, because code may be open at its end.
  const before = `${definitions}\n\n`;
  const tree = parseMarkdown(before + window);
  visit(tree, (node) => {
    const isOwn = startOf(node) >= before.length;
    if (node.type !== "definition" || isOwn || targets.has(node.identifier)) return;
    const url = /[\s()<>]/.test(node.url) ? `<${node.url}>` : node.url;
    const title = node.title ? ` "${node.title.replaceAll('"', '\\"')}"` : "";
    targets.set(node.identifier, `](${url}${title})`);
  });
  visit(tree, (node) => {
    const start = startOf(node) - before.length;
    const target = "identifier" in node ? targets.get(node.identifier) : undefined;
    if (start < 0 || target === undefined) return;
    const end = endOf(node) - before.length;
    if (node.type === "definition") edits.push({ start, end, text: "" });
    else if (node.type === "imageReference") {
      const alt = (node.alt ?? "").replace(/[\\[\]]/g, "\\$&");
      edits.push({ start, end, text: `![${alt}${target}` });
    } else if (node.type === "linkReference" && node.children.length > 0) {
      const words = endOf(node.children.at(-1) as Nodes) - before.length;
      edits.push({ start: words, end, text: target });
    }
  });
  let resolved = "";
  let done = 0;
  for (const { start, end, text } of edits.toSorted((one, other) => one.start - other.start)) {
    if (start < done) continue;
    resolved += window.slice(done, start) + text;
    done = end;
  }
  return resolved + window.slice(done);
}

/** Finds the nodes around a place, from the outermost to the innermost. */
export function findAncestors(tree: Nodes, offset: number): RootContent[] {
  const found: RootContent[] = [];
  for (let node = tree; "children" in node;) {
    const children: readonly RootContent[] = node.children;
    let low = 0;
    let high = children.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (endOf(children[middle] as RootContent) <= offset) low = middle + 1;
      else high = middle;
    }
    const child = children[low];
    if (!child || startOf(child) < 0 || startOf(child) >= offset) break;
    found.push(child);
    node = child;
  }
  return found;
}

/** A node that holds blocks and stands before each of their lines. */
interface Container {
  prefix: RegExp;
  isQuote: boolean;
}

function readContainers(ancestors: readonly RootContent[], text: string): Container[] {
  const containers: Container[] = [];
  let column = 0;
  for (const node of ancestors) {
    const from = (node.position?.start.column ?? 1) - 1;
    if (node.type === "blockquote") {
      containers.push({ prefix: /^ {0,3}> ?/, isQuote: true });
      column = from + (text[startOf(node) + 1] === " " ? 2 : 1);
    } else if (node.type === "listItem" || node.type === "footnoteDefinition") {
      const content = from + markWidth(node, text);
      containers.push({
        prefix: new RegExp(`^(?: {${Math.max(1, content - column)}}| {0,3}\\t)`),
        isQuote: false,
      });
      column = content;
    }
  }
  return containers;
}

/** Returns the width of an item's mark with the spaces behind it, which is the indentation of its other lines. */
function markWidth(node: ListItem | Nodes, text: string): number {
  if (node.type !== "listItem") return 4;
  const [, mark = "", spaces = ""] =
    /^([-*+]|\d{1,9}[.)])( *)/.exec(text.slice(startOf(node), startOf(node) + 20)) ?? [];
  return mark.length + (spaces.length < 1 || spaces.length > 4 ? 1 : spaces.length);
}

/** A line without what stands before it for its containers, but for the marks of quotes; and the containers that still hold. */
function unwrapLine(line: string, containers: readonly Container[]) {
  let text = line;
  let quotes = "";
  for (const [index, { prefix, isQuote }] of containers.entries()) {
    const found = prefix.exec(text)?.[0];
    if (found === undefined) {
      if (text.trim() === "") break;
      return { text, quotes, held: containers.slice(0, index) };
    }
    text = text.slice(found.length);
    if (isQuote) quotes += "> ";
  }
  return { text, quotes, held: containers };
}

/** Lines that no longer stand in items, whose marks are in the piece before. */
function unwrapLines(text: string, containers: readonly Container[]): string {
  const lines: string[] = [];
  let held = containers;
  let at = 0;
  while (at < text.length && held.some(({ isQuote }) => !isQuote)) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    const line = unwrapLine(text.slice(at, end), held);
    lines.push(line.quotes + line.text);
    held = line.held;
    at = end + 1;
  }
  return [...lines, ...(at > text.length ? [] : [text.slice(at)])].join("\n");
}

/** The text that ends the forms of a place in the piece before it, and that begins them in the rest. */
interface Forms {
  close: string;
  open: string;
}

const INLINE = new Set(["strong", "emphasis", "delete", "link", "inlineCode"]);
/** Nodes that stay whole while they fill no more of a piece than this. */
const KEPT_WHOLE: Readonly<Record<string, number>> = { link: 1, inlineCode: 0.5 };
/** Nodes that cannot be cut without breaking them. */
const WHOLE = new Set(["image", "html", "footnoteReference", "imageReference", "linkReference"]);

/** The forms of the words at a place; undefined if none may end there. */
function findWordForms(
  ancestors: readonly RootContent[],
  { text, limit, cutsMore = false }: Beginning,
  place: Place,
): Forms | undefined {
  const forms = { close: "", open: "" };
  for (const node of ancestors) {
    const size = endOf(node) - startOf(node);
    if (node.type === "text" && isInSign(text, place.end)) return undefined;
    const isAddress = node.type === "link" && text[startOf(node)] !== "[";
    if (WHOLE.has(node.type) || isAddress) {
      if (size <= limit) return undefined;
      break;
    }
    if (!INLINE.has(node.type)) continue;
    if (!cutsMore && size <= limit * (KEPT_WHOLE[node.type] ?? 0)) return undefined;
    const [from, to] = contentOf(node, text);
    const open = text.slice(startOf(node), from);
    const close = text.slice(to, endOf(node));
    if (open.length + close.length > limit * MOST_OVERHEAD) break;
    if (place.end <= from || place.next >= to) return undefined;
    if (node.type === "inlineCode" && /`/.test(text.slice(place.end - 1, place.next + 1)))
      return undefined;
    forms.close = close + forms.close;
    forms.open += open;
  }
  return forms;
}

/** Returns the begin and the end of a form's words, between its marks. */
function contentOf(node: RootContent, text: string): [from: number, to: number] {
  if ("children" in node && node.children.length > 0)
    return [startOf(node.children[0] as Nodes), endOf(node.children.at(-1) as Nodes)];
  const ticks = /^`*/.exec(text.slice(startOf(node), endOf(node)))?.[0].length ?? 0;
  return [startOf(node) + ticks, endOf(node) - ticks];
}

/** Returns whether a place is between the mark of an item, a quote or a heading and its words. */
function isInMark(node: RootContent | undefined, { end }: Place): boolean {
  if (!node || node.type === "table" || node.type === "tableRow" || node.type === "tableCell")
    return false;
  return "children" in node && node.children[0] !== undefined && end < startOf(node.children[0]);
}

/** Returns whether a place is inside of `\*` or `&amp;`. */
function isInSign(text: string, at: number): boolean {
  const before = text.slice(Math.max(0, at - 40), at);
  const escapes = /\\+$/.exec(before)?.[0].length ?? 0;
  if (escapes % 2 === 1 && /[!-/:-@[-`{-~\n]/.test(text.charAt(at))) return true;
  return /&(?:#\w{0,8}|\w{0,32})$/.test(before) && /^#?\w*;/.test(text.slice(at, at + 40));
}

/** Words that begin no block where a line begins with them. */
function escapeStart(line: string): string {
  return line
    .trimStart()
    .replace(/^(?=[-+*](?:\s|$)|#{1,6}(?:\s|$)|>|[=-]+\s*$|(?:[-*_][ \t]*){3,}$)/, "\\")
    .replace(/^(\d{1,9})(?=[.)](?:\s|$))/, "$1\\")
    .replace(/^(?=`{3,}[^`]*$|~{3,}|\[[^\]]+\]:)/, "\\")
    .replace(/^(?=<[a-z!?/])(?!<[a-z][\w+.-]*:|<[^\s>]+@)/i, "\\");
}

const escapeAll = (line: string): string =>
  escapeStart(line.trim().replace(/[\\`*_~[\]<&]/g, "\\$&"));

/** A text whose next items have the number that they have in the whole: a list whose first item is another counts from there. */
function numberItems(text: string, ancestors: readonly RootContent[], { end }: Place): string {
  return ancestors.reduceRight((numbered, list) => {
    if (list.type !== "list" || list.ordered !== true) return numbered;
    const index = list.children.findIndex((item) => startOf(item) >= end);
    const item = list.children[index];
    if (!item) return numbered;
    const start = startOf(item);
    const number = String((list.start ?? 1) + index);
    return numbered.slice(0, start) + numbered.slice(start).replace(/^\d+/, number);
  }, text);
}

/** The text in two at a place; undefined if a form would not survive it, or a half would be too long. */
export function cutAt(whole: Beginning, place: Place): Halves | undefined {
  const { tree, limit, behind } = whole;
  const ancestors = findAncestors(tree, place.end);
  const words = isInMark(ancestors.at(-1), place)
    ? undefined
    : findWordForms(ancestors, whole, place);
  if (!words) return undefined;
  const text = numberItems(whole.text, ancestors, place);
  const beginning = { ...whole, text };
  const containers = readContainers(ancestors, text);
  const block = ancestors.find((node) => isLeafBlock(node));
  const isLineStart = place.next === 0 || text[place.next - 1] === "\n";
  const [, newline = ""] = /^([^\n]*\n?)/.exec(text.slice(place.next)) ?? [];
  const firstLine = newline.replace(/\n$/, "");
  const first = isLineStart
    ? unwrapLine(firstLine, containers)
    : {
        text: firstLine,
        quotes: containers.map(({ isQuote }) => (isQuote ? "> " : "")).join(""),
        held: containers,
      };
  const made = block
    ? cutBlock(block, { beginning, place, words, first: first.text, containers })
    : { close: "", open: "", first: first.text };
  if (!made) return undefined;
  const { close, open } = made;
  const head = text.slice(0, place.end);
  const piece = (block?.type === "code" ? head : head.trimEnd()) + close;
  const from = place.next + newline.length;
  const following = made.following?.(from) ?? text.slice(from);
  const rest =
    open.replace(/^(?=.)/gm, first.quotes) +
    (open.endsWith("\n") || open === "" ? first.quotes : "") +
    made.first +
    (newline.endsWith("\n") ? "\n" : "") +
    unwrapLines(following + behind, first.held);
  return piece.length > limit || rest.length >= whole.text.length + behind.length
    ? undefined
    : { piece, rest };
}

function isLeafBlock({ type }: RootContent): boolean {
  return ["paragraph", "heading", "code", "html", "table", "definition", "thematicBreak"].includes(
    type,
  );
}

/** A place in a block of words. */
interface InBlock {
  beginning: Beginning;
  place: Place;
  words: Forms;
  /** The first line of the rest, without what stands before it for its containers. */
  first: string;
  containers: readonly Container[];
}

interface CutBlock extends Forms {
  first: string;
  /** The lines behind the first, from an offset on. */
  following?(from: number): string;
}

function cutBlock(block: RootContent, at: InBlock): CutBlock | undefined {
  const { words, first } = at;
  switch (block.type) {
    case "paragraph":
      return {
        ...words,
        first: words.open === "" ? escapeStart(first) : first.trimStart(),
        following: (from) => withBlankLine(at.beginning.text, from, endOf(block)),
      };
    case "heading": {
      const isSetext = at.beginning.text[startOf(block)] !== "#";
      const lastLine = at.beginning.text.lastIndexOf("\n", endOf(block) - 1) + 1;
      if (isSetext && at.place.next >= lastLine) return undefined;
      const underline = isSetext ? `\n${(block.depth === 1 ? "=" : "-").repeat(3)}` : "";
      return {
        close: words.close + underline,
        open: isSetext ? words.open : `${"#".repeat(block.depth)} ${words.open}`,
        first: first.trimStart(),
      };
    }
    case "code":
      return cutCode(block, at);
    case "table":
      return cutTable(block, at);
    case "html":
      return {
        close: "",
        open: "",
        first: at.containers.length === 0 ? escapeAll(first) : escapeStart(first),
        following: (from) => escapeHtmlBlock(block, at, from),
      };
    default:
      return undefined;
  }
}

/** A blank line behind a paragraph whose item is in the piece before: what follows would go on with it. */
function withBlankLine(text: string, from: number, end: number): string {
  const next = end + 1;
  return next >= from && text[end] === "\n" && /^.*\S/.test(text.slice(next))
    ? `${text.slice(from, next)}\n${text.slice(next)}`
    : text.slice(from);
}

/** HTML whose beginning is in the piece before would be read as markdown: it is shown as it was written all the same. */
function escapeHtmlBlock(block: Nodes, { beginning, containers }: InBlock, from: number): string {
  const { text } = beginning;
  const end = Math.max(from, endOf(block));
  if (containers.length > 0) return text.slice(from);
  const lines = text.slice(from, end).split("\n");
  return lines.map((line) => escapeAll(line)).join("\n") + withBlankLine(text, end, end);
}

function cutCode(block: Nodes, { beginning, place, first }: InBlock): CutBlock | undefined {
  const { text, limit } = beginning;
  const source = text.slice(startOf(block), endOf(block));
  const [opening = "", marker] = /^(`{3,}|~{3,})[^\n]*/.exec(source) ?? [];
  const isLineStart = text[place.next - 1] === "\n";
  // Code that stands in four columns.
  if (marker === undefined) return { close: "", open: isLineStart ? "" : "    ", first };
  const closing = /\n[ \t>]*(?:`{3,}|~{3,})[ \t\r]*$/.exec(source);
  const last = startOf(block) + (closing?.index ?? source.length);
  if (place.end <= startOf(block) + opening.length || place.end >= last) return undefined;
  const line = text.slice(text.lastIndexOf("\n", startOf(block)) + 1, startOf(block));
  const close = `\n${line.replace(/[^\s>]/g, " ")}${marker}`;
  const most = limit * MOST_OVERHEAD;
  const open = opening.length + close.length > most ? marker : opening.trimEnd();
  return open.length + close.length > most ? undefined : { close, open: `${open}\n`, first };
}

function cutTable(
  table: Table,
  { beginning, place, words, first, containers }: InBlock,
): CutBlock | undefined {
  const { text, limit } = beginning;
  const row = table.children.findLastIndex((one) => startOf(one) < place.end);
  const [head, body] = table.children;
  if (row < 1 || !head || !body) return undefined;
  const [titles = "", columns = ""] = text.slice(startOf(head), startOf(body)).split("\n");
  const heading = `${titles.trim()}\n${unwrapLine(columns, containers).text.trim()}\n`;
  const blank = `|${" |".repeat(head.children.length)}\n|${"-|".repeat(head.children.length)}\n`;
  const open = heading.length > limit * MOST_OVERHEAD ? blank : heading;
  if (place.end >= endOf(table.children[row] as Nodes)) return { close: "", open, first };
  const cells = (table.children[row] as Parents).children as readonly Nodes[];
  const cell = cells.findLastIndex((one) => startOf(one) < place.end);
  return {
    close: `${words.close} |`,
    open: open + "| ".repeat(Math.max(0, cell) + 1) + words.open,
    first: first.trimStart(),
  };
}

/** A block that is to stay whole if a piece can hold it: code, or a table; undefined if there is none at an offset. */
export function findWholeBlock({ tree, text, limit, behind }: Beginning, offset: number) {
  const block = findAncestors(tree, offset).find(({ type }) => type === "code" || type === "table");
  if (!block || endOf(block) - startOf(block) > limit) return undefined;
  return endOf(block) < text.length || behind === "" ? startOf(block) : undefined;
}
