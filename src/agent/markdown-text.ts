import {
  beginsHtmlBlock,
  MAX_CODE,
  readAutolink,
  readCode,
  readDefinition,
  readHtml,
  readImage,
  readResource,
  readTag,
  spanAt,
} from "./markdown-inline.ts";

/** What is known of a block of text that is scanned: a paragraph, a heading, a table. Offsets are those of its view. */
export interface MarkdownBlock {
  /** Everything is escaped: parsers may disagree on what is code here. */
  doubt: boolean;
  /** A `<` was left as it is because of an image: the image's words must not make a tag of it. */
  angle: boolean;
  /** The last bracket opens a link's text that has no other brackets so far. */
  bracket: boolean;
  /** How many brackets are open. */
  depth: number;
  /** A code span of this line would be cut if the line belongs to a table. */
  cut: boolean;
  /** An address that stands for itself has begun. */
  inUrl: boolean;
  /** Where the row under a table's head begins. */
  table: number | undefined;
  /** Where its text begins, that of each of its lines that is still to be scanned, and the last line. */
  start: number;
  lines: number[];
  last: number;
  /** It ends with its line. */
  single: boolean;
}

export const newBlock = (start: number, doubt: boolean, single: boolean): MarkdownBlock => ({
  doubt,
  single,
  start,
  lines: [],
  last: start,
  angle: false,
  bracket: false,
  depth: 0,
  cut: false,
  inUrl: false,
  table: undefined,
});

/** Where the scan goes on, and what stands in place of the text from the sign to `end`. */
interface Step {
  next: number;
  edit?: { end: number; text: string };
}

/** Where the scan of a text looks closer; in an address that stands for itself; and where it is in doubt what is code. */
const SIGNS = /[\\`<![\]|\n]|:\/\/|www\./gi;
const URL_SIGNS = /[\\`<![\]|\s]/g;
const DOUBT_SIGNS = /[<!]/g;
const HAS_CANDIDATE = /<[A-Za-z/!?]|!\[/;
/** What ends a table's row or cell, in code too. */
const CUT = /\n|(?:^|[^\\]|\\\\)\|/;
/** What is taken otherwise inside an address or a title than outside. */
const SPECIAL = /`|!\[|<(?![A-Za-z][A-Za-z0-9+.-]{1,31}:)/;

/** The next sign on which something depends. */
export function nextSign(
  block: MarkdownBlock,
  view: string,
  from: number,
): { at: number; sign: string } | undefined {
  const signs = block.doubt ? DOUBT_SIGNS : block.inUrl ? URL_SIGNS : SIGNS;
  signs.lastIndex = from;
  const found = signs.exec(view);
  return found ? { at: found.index, sign: found[0] } : undefined;
}

/** Decides on a sign. Undefined if what follows decides; `closed` says that nothing of the block does. */
export function readSpan(
  block: MarkdownBlock,
  view: string,
  at: number,
  sign: string,
  closed: boolean,
): Step | undefined {
  if (/^\s/.test(sign)) {
    block.inUrl = false;
    if (sign === "\n") block.cut = block.bracket = false;
    return { next: at + 1 };
  }
  if (sign.length > 1) {
    block.inUrl = true;
    return { next: at + sign.length };
  }
  const following = view[at + 1];
  if (following === undefined && !closed && sign !== "|") return undefined;
  switch (sign) {
    case "\\":
      if (following === undefined || !"\\`<![]|".includes(following)) return { next: at + 1 };
      // Some parsers take a backslash into an address.
      return block.inUrl ? inDoubt(block, at) : { next: at + 2 };
    case "`":
      return decideCode(block, view, at, closed);
    case "<":
      return decideAngle(block, view, at, closed);
    case "!":
      return following === "[" ? decideImage(block, view, at, closed) : { next: at + 1 };
    case "[":
      return decideBracket(block, view, at, closed);
    case "]":
      return decideLabelEnd(block, view, at, closed);
    default:
      block.bracket = false;
      return { next: at + 1 };
  }
}

/** Goes on in doubt from `at`. */
function inDoubt(block: MarkdownBlock, at: number): Step {
  block.doubt = true;
  return { next: at };
}

function decideCode(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  // Some parsers take backticks into an address.
  if (block.inUrl) return inDoubt(block, at);
  const end = readCode(view, at, closed);
  if (end === "more") return undefined;
  if (end === "far") return inDoubt(block, at);
  if (end === "none") return { next: at + (/^`+/.exec(view.slice(at))?.[0].length ?? 1) };
  const code = view.slice(at, end);
  // A line that begins a block of HTML ends the paragraph.
  if (block.lines.some((line) => line > at && line < end && beginsHtmlBlock(spanAt(view, line))))
    return inDoubt(block, at);
  if (CUT.test(code)) block.cut = true;
  if (!HAS_CANDIDATE.test(code)) return { next: end };
  const sure = [
    block.cut ? isOutsideTable(block, view, end, closed) : true,
    block.depth > 0 ? isKeptByBracket(block, view, end, closed) : true,
  ];
  if (sure.includes(false)) return inDoubt(block, at);
  return sure.includes(undefined) ? undefined : { next: end };
}

/** Whether a line belongs to no table: the next line tells. */
function isOutsideTable(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): boolean | undefined {
  const newline = view.indexOf("\n", at);
  const next = newline < 0 ? view.length : newline + 1;
  if (block.table !== undefined && block.table <= next) return false;
  // Some parsers let a table begin with what looks like a heading.
  if (block.single || next - at > MAX_CODE) return false;
  return closed || (newline >= 0 && block.last >= next) ? true : undefined;
}

/** Whether the text behind a code span inside brackets, up to their end, has no backticks that stay open: after such, some parsers miss the span. */
function isKeptByBracket(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): boolean | undefined {
  const signs = /[\\`[\]]/g;
  let { depth } = block;
  signs.lastIndex = at;
  for (let found = signs.exec(view); found; found = signs.exec(view)) {
    if (found.index - at > MAX_CODE) return false;
    if (found[0] === "\\") signs.lastIndex++;
    else if (found[0] === "[") depth++;
    else if (found[0] === "]" && --depth === 0) return true;
    else if (found[0] === "`") {
      const end = readCode(view, found.index, closed);
      if (end === "more") return undefined;
      if (typeof end !== "number" || CUT.test(view.slice(found.index, end))) return false;
      signs.lastIndex = end;
    }
  }
  return view.length - at > MAX_CODE ? false : closed ? true : undefined;
}

function decideAngle(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const text = spanAt(view, at);
  const isCandidate = HAS_CANDIDATE.test(text.slice(0, 2));
  const escaped: Step = { next: at + 1, edit: { end: at + 1, text: "&lt;" } };
  if (block.doubt) return isCandidate ? escaped : { next: at + 1 };
  const address = readAutolink(text, closed);
  if (address === "more") return undefined;
  if (
    address === "far" ||
    (typeof address === "number" && /[`\x7f]|!\[/.test(text.slice(0, address)))
  )
    return inDoubt(block, at);
  if (typeof address === "number") {
    block.bracket = block.inUrl = false;
    return { next: at + address };
  }
  const html = isCandidate ? readHtml(text, block.lines.includes(at), closed) : "none";
  if (html === "more") return undefined;
  if (html !== "none") return escaped;
  // An image inside what was no tag: without its signs it might be one.
  const mark = text.indexOf("!");
  if (isCandidate && mark > 0 && readTag(text.slice(0, mark), false) === "more") block.angle = true;
  block.inUrl = false;
  return { next: at + 1 };
}

function decideImage(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const image = block.doubt ? "plain" : readImage(spanAt(view, at), closed);
  if (image === "more") return undefined;
  if (image === "none") return { next: at + 2 };
  if (image !== "plain" && "words" in image && !block.angle) {
    const { words, address } = image;
    const end = at + image.end;
    return { next: end, edit: { end, text: words === "" ? address : `${words} (${address})` } };
  }
  block.bracket = false;
  // A sign before it would make it an image again.
  if (image !== "plain" && "reference" in image && view[at - 1] !== "!")
    return { next: at + image.end, edit: { end: at + 1, text: "" } };
  return { next: at + 2, edit: { end: at + 2, text: String.raw`!\[` } };
}

function decideBracket(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  if (at === block.start) {
    const definition = readDefinition(spanAt(view, at), closed);
    if (definition === "more") return undefined;
    if (definition === "yes") return inDoubt(block, at);
  }
  block.depth++;
  block.bracket = view[at - 1] !== "]" && view[at + 1] !== "^";
  return { next: at + 1 };
}

/** Decides on what follows a link's text. Its address and title are no text, if it is a link for sure. */
function decideLabelEnd(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const text = spanAt(view, at + 1);
  const end = text.startsWith("(") ? readResource(text, closed) : "none";
  if (end === "more") return undefined;
  if (end === "far") return inDoubt(block, at);
  const certain = block.bracket && !block.cut && !block.inUrl;
  block.bracket = false;
  block.depth = Math.max(0, block.depth - 1);
  if (end === "none") return { next: at + 1 };
  const resource = text.slice(0, end);
  if (certain && !(SPECIAL.test(resource) && /[|\n]/.test(resource))) return { next: at + 1 + end };
  // If it is no link, it is read as text.
  return SPECIAL.test(resource) || /[[\]]/.test(resource) ? inDoubt(block, at) : { next: at + 1 };
}
