import type { TextBlock } from "../chunk.ts";
import { decodeDocument } from "./charset.ts";
import { MAX_MERGED, tableBlocks, toSpan, type TableCell } from "./table.ts";
import { optional, type ExtractFormat } from "./types.ts";
import { tidy } from "./xml-tree.ts";

/** As much of the DOM as is used here; linkedom brings its own types, which need the browser's. */
interface DomNode {
  nodeType: number;
  localName?: string;
  textContent: string | null;
  childNodes: Iterable<DomNode>;
  parentNode?: DomNode | null;
}
interface DomElement extends DomNode {
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  querySelectorAll(selector: string): Iterable<DomElement>;
}
interface DomDocument extends DomElement {
  title: string;
  body: DomElement | null;
  documentElement: DomElement | null;
  cloneNode(deep: boolean): DomDocument;
}

const ELEMENT = 1;
const TEXT = 3;
/** Elements without text of the page; of ruby, the pronunciation of the characters before. */
const SKIPPED = new Set(
  "script style noscript template svg iframe object head nav button select rp rt".split(" "),
);
const INLINE = new Set(
  "a abbr acronym b bdi bdo big cite code data del dfn em font i input ins kbd label mark math mfrac mi mn mo mrow msqrt msub msup mtext nobr q ruby rb s samp small span strike strong sub sup time tt u var wbr".split(
    " ",
  ),
);
const BLOCK = /^(?:[uod]l|article|blockquote|center|div|figure|h[1-6]|main|p|pre|section|table)$/;
/** Styles of elements that are not seen, such as the lines for the lists of mail programs. */
const UNSEEN =
  /(?:^|[\s;])(?:display\s*:\s*none|mso-hide\s*:\s*all|max-height\s*:\s*0(?:px)?\s*(?:;|!|$))/i;
/** Signs without width, alone between spaces: they only fill lines. */
const FILLERS = /(?<=^|\s)[\u00ad\u061c\u200b-\u200f\u2060\ufeff]+(?=\s|$)/g;
/** The attribute that has the level of a heading whose element changes. */
const LEVEL = "data-rouse-level";
/** An article that is less of the page's text than this is not what the page is about. */
const ARTICLE_SHARE = 0.5;

/** Word gives its own elements, such as those of places, prefixes. */
const isInline = (name: string): boolean => INLINE.has(name) || name.includes(":");

/** Returns whether an element has no text that a reader sees. */
const isSkipped = (node: DomNode): boolean =>
  SKIPPED.has(node.localName ?? "") ||
  UNSEEN.test((node as DomElement).getAttribute("style") ?? "");

/** Returns whether an element has blocks in it, as links and fonts around a whole page have. */
const holdsBlock = ({ childNodes }: DomNode): boolean =>
  [...childNodes].some(
    (child) =>
      child.nodeType === ELEMENT && (BLOCK.test(child.localName ?? "") || holdsBlock(child)),
  );

function renderBox(input: DomElement): string {
  if (!/^(?:checkbox|radio)$/i.test(input.getAttribute("type") ?? "")) return "";
  return input.getAttribute("checked") === null ? "☐" : "☒";
}

/** Renders what is in a node. `gap` stands between its lines and blocks. */
function renderNode(node: DomNode, gap = " "): string {
  const { nodeType, localName = "", parentNode } = node;
  if (nodeType === TEXT) return (node.textContent ?? "").replace(FILLERS, "");
  if (nodeType !== ELEMENT || isSkipped(node)) return "";
  if (localName === "br") return gap;
  if (localName === "input") return renderBox(node as DomElement);
  const children = [...node.childNodes];
  const inner = children.map((child) => renderNode(child, gap)).join("");
  // The mark of a note is no part of the word before.
  if (localName === "sup" && [parentNode, ...children].some((near) => near?.localName === "a"))
    return ` ${inner}`;
  return isInline(localName) ? inner : gap + inner + gap;
}

/** The rows of a table, without those of tables in its cells. */
function* ownRows(node: DomNode): Generator<DomNode> {
  for (const child of node.childNodes)
    if (child.localName === "tr") yield child;
    else if (/^(?:thead|tbody|tfoot)$/.test(child.localName ?? "")) yield* ownRows(child);
}

interface HtmlCell extends TableCell {
  isHead: boolean;
}

const toCell = (cell: DomElement, row: DomNode): HtmlCell => {
  const height = cell.getAttribute("rowspan");
  return {
    text: tidy(renderNode(cell)),
    columns: toSpan(cell.getAttribute("colspan")),
    rows: height?.trim() === "0" ? MAX_MERGED : toSpan(height),
    isHead: cell.localName === "th" || row.parentNode?.localName === "thead",
  };
};

function* htmlTable(table: DomNode): Generator<TextBlock> {
  for (const child of table.childNodes) {
    const caption = child.localName === "caption" ? tidy(renderNode(child)) : "";
    if (caption !== "") yield { kind: "text", text: caption };
  }
  const listCells = (row: DomNode): DomElement[] =>
    [...row.childNodes].filter(({ localName = "" }) => /^t[dh]$/.test(localName)) as DomElement[];
  // Mails are laid out by tables in tables: their cells hold paragraphs, not values.
  const { length: inner } = [...(table as DomElement).querySelectorAll("table, h1, h2, h3")];
  const { length: cells } = [...(table as DomElement).querySelectorAll("td, th")];
  if (inner > 0 || cells === 1 || (table as DomElement).getAttribute("role") === "presentation") {
    for (const row of ownRows(table)) for (const cell of listCells(row)) yield* domBlocks(cell);
    return;
  }
  const rows = function* (): Generator<HtmlCell[]> {
    for (const row of ownRows(table)) yield listCells(row).map((cell) => toCell(cell, row));
  };
  yield* tableBlocks(rows(), (cells) => cells.every(({ isHead }) => isHead));
}

/** The blocks below a node, in reading order. */
export function* domBlocks(root: DomNode): Generator<TextBlock> {
  let line = "";
  const flush = function* (): Generator<TextBlock> {
    if (tidy(line) !== "") yield { kind: "text", text: tidy(line) };
    line = "";
  };
  for (const node of root.childNodes) {
    const name = node.localName ?? "";
    if (node.nodeType === TEXT || name === "br" || (isInline(name) && !holdsBlock(node))) {
      line += renderNode(node);
      continue;
    }
    if (node.nodeType !== ELEMENT || isSkipped(node)) continue;
    yield* flush();
    const level = (node as DomElement).getAttribute(LEVEL) ?? /^h([1-6])$/.exec(name)?.[1];
    if (level !== undefined) {
      const text = tidy(renderNode(node));
      if (text !== "") yield { kind: "heading", text, level: Number(level) };
    } else if (name === "table") yield* htmlTable(node);
    else if (name === "pre")
      yield { kind: "text", text: renderNode(node, "\n").replace(/^\n+/, "").trimEnd() };
    else yield* domBlocks(node);
  }
  yield* flush();
}

/** Parses HTML as browsers do, without running anything of it. */
export async function parseDom(html: string): Promise<DomDocument> {
  const { parseHTML } = await optional("linkedom", () => import("linkedom"));
  if (/<html\b/i.test(html)) return parseHTML(html).document;
  // The tags of the page and its body may be left out; linkedom needs them.
  const inner = html.replace(/^\s*<!doctype[^>]*>/i, "");
  return parseHTML(
    `<!doctype html><html>${/<body\b/i.test(inner) ? inner : `<head></head><body>${inner}</body>`}</html>`,
  ).document;
}

/** The article of a web page without what stands around it, or the whole page where it has none to speak of. */
async function mainPart(document: DomDocument): Promise<{ root: DomNode; title: string }> {
  const body = document.body ?? document.documentElement ?? document;
  const title = tidy(document.title);
  const all = tidy(renderNode(body)).length;
  const copy = document.cloneNode(true);
  // Readability makes second headings of the first ones.
  for (const heading of copy.querySelectorAll("h1")) heading.setAttribute(LEVEL, "1");
  const { Readability } = await optional(
    "@mozilla/readability",
    () => import("@mozilla/readability"),
  );
  const article = new Readability(copy, {
    keepClasses: false,
    maxElemsToParse: 200_000,
  }).parse();
  if (!article?.content || (article.textContent ?? "").trim().length < all * ARTICLE_SHARE)
    return { root: body, title };
  const { body: root } = await parseDom(article.content);
  return { root: root ?? body, title: article.title ? tidy(article.title) : title };
}

/** A web page, or a page that an office program made. */
export const extractHtml: ExtractFormat = async ({ bytes }) => {
  const declared = /<meta[^<>]+charset=["']?([\w-]+)/i.exec(bytes.toString("latin1", 0, 1e5))?.[1];
  const document = await parseDom(await decodeDocument(bytes, declared));
  const { root, title } = await mainPart(document);
  return { title: title || null, blocks: [...domBlocks(root)] };
};
