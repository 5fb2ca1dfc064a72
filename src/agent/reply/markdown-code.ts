import type { Nodes } from "mdast";
import { parseMarkdown } from "../../core/markdown.ts";

/** A piece of code in a text. `prefix` and `fence` are those of a block with a fence. */
export interface Code {
  start: number;
  end: number;
  isBlock: boolean;
  prefix?: string;
  fence?: string;
}

/** Marks of quotes and lists, and white space. */
const MARKS = String.raw`[ \t>*+\-.)\d]*`;
const NEWLINE = /\r\n|\r|\n/;
/** Matches the end of a line before one without text, also inside a quote. */
const GAP = /(?:\r\n|\r(?!\n)|\n)[ \t>]*(?=[\r\n])/;
const GAPS = new RegExp(GAP, "g");
/** Matches a line that may open or close a fenced block. */
export const ANY_FENCE = new RegExp(String.raw`^${MARKS}(?:\x60{3,}[^\x60]*|~{3,}.*)$`);
const FENCE = /^(`{3,}|~{3,})/;

/** Matches the begin of HTML that is a block of its own: no code is in it. */
const HTML = new RegExp(String.raw`^${MARKS}<(?:[!?]|\/?[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$))`, "i");
/** Matches such HTML that ends a paragraph. */
const BLOCK_HTML = new RegExp(
  String.raw`^${MARKS}<(?:[!?]|\/?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|pre|script|search|section|source|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul)(?:[\s/>]|$))`,
  "i",
);
/** HTML that goes on past blank lines, and where it ends. */
const LONG_HTML = new RegExp(
  String.raw`^(?:\s*\[\^[^\]]*\]:)?${MARKS}<(?:(!--)|(\?)|(!\[CDATA\[)|(!)|(?:script|pre|style|textarea)(?:[\s>]|$))`,
  "i",
);
const LONG_HTML_ENDS = [/-->/, /\?>/, /\]\]>/, />/];
const ELEMENT_END = /<\/(?:script|pre|style|textarea)>/i;

/** Returns the pattern that ends HTML which a line begins and does not end. */
export function getHtmlEnd(line: string): RegExp | undefined {
  const [opening, ...marks] = LONG_HTML.exec(line) ?? [];
  if (opening === undefined) return undefined;
  const end = LONG_HTML_ENDS[marks.findIndex((mark) => mark !== undefined)] ?? ELEMENT_END;
  return end.test(line.slice(opening.length)) ? undefined : end;
}

/** Matches a line that a mark of a quote or a list begins. */
const MARKED = /^[ \t]*(?:>|[-+*](?:\s|$)|\d{1,9}[.)](?:\s|$))/;

/** Returns whether a line begins HTML. `isFirst`: nothing stands before it in its paragraph. */
export const beginsHtml = (line: string, isFirst: boolean): boolean =>
  (isFirst || MARKED.test(line) ? HTML : BLOCK_HTML).test(line);

/** Returns whether a line is text of a paragraph to all parsers. */
export const isPlainLine = (line: string): boolean => /^[ \t]*[\p{L}"'(]/u.test(line);

/** Matches the row below the head of a table. */
export const DELIMITER_ROW = /^(?=.*-)(?=.*[|:])[ \t>|:*+\-.)\d]+$/m;
/** Tables, footnotes and definitions: parsers read what is beside them differently. */
const CONTESTED = [DELIMITER_ROW, new RegExp(String.raw`^${MARKS}\[(?:\^|[^\]]*\]:)`, "m")];
/** Signs before a backtick in which it may be no sign of code: a tag or an address, and the address of a link. */
const IN_ADDRESS = [/<[^\s<>]*`/, /(?:\/\/|www\.)[^\s<]*`/i, /\]\((?:[^()`]|\([^()`]*\))*`/];
/** Matches lines that parsers read as blank or not, and marks of lists without text. */
const ODD_LINE = /^[^\S\r\n]*[^\S \t\r\n][^\S\r\n]*$|\uFEFF|\0/m;
const EMPTY_ITEM = /^[ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]*$/m;
const TAB = new RegExp(String.raw`^${MARKS}\t`, "m");
const MAX_DEPTH = 20;

const hasHtml = (lines: string): boolean =>
  lines
    .split(NEWLINE)
    .some((line, index, all) => beginsHtml(line, !isPlainLine(all[index - 1] ?? "")));

/** The lines before an offset that no blank line parts from it. */
const linesBefore = (text: string, at: number): string =>
  (text.slice(0, at).split(GAP).at(-1) ?? "").replace(/^[\r\n]+/, "");

/** Hides what stands in code spans. `offset` is where the lines begin. */
function maskSpans(lines: string, spans: readonly Code[], offset: number): string {
  let masked = "";
  for (const { start, end } of spans)
    masked +=
      lines.slice(masked.length, start - offset) +
      lines.slice(start - offset, end - offset).replaceAll(/[^`]/g, "x");
  return masked + lines.slice(masked.length);
}

/** Returns the spans of lines that all parsers read as such. `start`: where the lines begin, which no blank line parts. */
function keepCertainSpans(lines: string, spans: readonly Code[], start: number): Code[] {
  if (hasHtml(lines) || CONTESTED.some((pattern) => pattern.test(lines))) return [];
  const masked = maskSpans(lines, spans, start);
  if (IN_ADDRESS.some((pattern) => pattern.test(masked))) return [];
  let depth = 0;
  let at = 0;
  return spans.filter((span) => {
    for (const [sign] of masked.slice(at, span.start - start).matchAll(/(?<!\\)[[\]]/g))
      depth += sign === "[" ? 1 : -1;
    at = span.start - start;
    return depth <= 0 && !NEWLINE.test(lines.slice(at, span.end - start));
  });
}

/** Returns those of all code spans of a text, in their order, that all parsers read as such. */
function findCertainSpans(text: string, spans: readonly Code[]): Code[] {
  const certain: Code[] = [];
  let next = 0;
  let start = 0;
  for (const { 0: gap, index } of [...text.matchAll(GAPS), { 0: "", index: text.length }]) {
    const first = next;
    while (next < spans.length && (spans[next] as Code).end <= index) next++;
    if (next > first) {
      start += /^[\r\n]*/.exec(text.slice(start, index))?.[0].length ?? 0;
      certain.push(...keepCertainSpans(text.slice(start, index), spans.slice(first, next), start));
    }
    start = index + gap.length;
  }
  return certain;
}

/** Returns whether all parsers read a block as code. */
function isCertainBlock(text: string, { start, end, prefix = "", fence }: Code): boolean {
  const lineStart = start - prefix.length;
  const before = linesBefore(text, lineStart);
  const lines = text.slice(lineStart, end).split(NEWLINE);
  const isContested = hasHtml(before) || CONTESTED.some((pattern) => pattern.test(before));
  if (before.trim() !== "" && isContested) return false;
  if (!/^[ >*+\-.)\d]*$/.test(prefix)) return false;
  const earlier = text.slice(0, lineStart);
  if (fence === undefined)
    return (
      before.trim() === "" &&
      !/^[ \t]*(?:>|[-+*]\s|\d{1,9}[.)]\s|\[\^)/m.test(earlier) &&
      lines.every((line) => /^ {4}|^\s*$/.test(line))
    );
  if (EMPTY_ITEM.test(earlier) || TAB.test(before) || lines[0]?.includes("|")) return false;
  // A list that begins beside other text may be read as a part of that.
  if (/[-+*\d]/.test(prefix) && before.trim() !== "") return false;
  const margin = toMargin(prefix);
  return lines.slice(1).every((line) => isWithin(line, margin));
}

/** Returns the characters that each line of a fenced block begins with. */
export const toMargin = (prefix: string): string => prefix.replaceAll(/[^>\s]/g, " ");

/** Returns whether a line belongs to a fenced block with such a margin. */
export const isWithin = (line: string, margin: string): boolean =>
  line.startsWith(margin) ||
  (line.trim() === "" && !margin.includes(">")) ||
  line === margin.trimEnd();

/**
 * Finds the code in a text that begins where no block is open: what every parser of markdown takes for code. If they may
 * disagree, there is none.
 */
export function findCode(text: string): Code[] {
  if (ODD_LINE.test(text)) return [];
  const found: Code[] = [];
  let hasOddHtml = false;
  const visit = (node: Nodes, depth: number): void => {
    const start = node.position?.start.offset ?? 0;
    const end = node.position?.end.offset ?? 0;
    if (node.type === "inlineCode") found.push({ start, end, isBlock: false });
    else if (node.type === "code") {
      const prefix = text.slice(0, start).split(NEWLINE).at(-1) ?? "";
      const fence = FENCE.exec(text.slice(start, end))?.[1];
      found.push({ start, end, isBlock: true, prefix, ...(fence && { fence }) });
    } else if (node.type === "html") hasOddHtml ||= /[`[\]]/.test(text.slice(start, end));
    else if ("children" in node && depth < MAX_DEPTH)
      for (const child of node.children) visit(child, depth + 1);
  };
  visit(parseMarkdown(text), 0);
  const spans = hasOddHtml ? [] : found.filter(({ isBlock }) => !isBlock);
  const certain = new Set(findCertainSpans(text, spans));
  return found.filter((code) => (code.isBlock ? isCertainBlock(text, code) : certain.has(code)));
}
