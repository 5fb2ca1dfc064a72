import {
  disarmTag,
  type Insert,
  getElement,
  isFetching,
  isOutside,
  LOAD_SIGNS,
  mayLoad,
  OPEN_LOAD,
  readLoad,
} from "./html-loads.ts";

/**
 * The end of a construct inside a line; `none` if there is none, `more` if the text that follows decides, `far` if the
 * end is out of reach.
 */
type Reading = number | "none" | "more" | "far";

/** A code span is looked for in so many characters, any other construct in half of them. */
const MAX_CODE = 2000;
const MAX_SPAN = 1000;

/** The text from which a construct is read: `at` is where it begins, `closed` says that its block ends with `view`. */
const spanAt = (view: string, at: number): string => view.slice(at, at + MAX_SPAN + 1);

const unfinished = (text: string, closed: boolean): Reading =>
  text.length > MAX_SPAN ? "far" : closed ? "none" : "more";

/** Reads the code span that the backticks at `at` open. */
function readCode(view: string, at: number, closed: boolean): Reading {
  const text = view.slice(at, at + MAX_CODE + 1);
  const runs = /`+/g;
  let opening = 0;
  for (let run = runs.exec(text); run; run = runs.exec(text)) {
    const end = run.index + run[0].length;
    if (end === text.length && text.length > MAX_CODE) return "far";
    if (end === text.length && !closed) return "more";
    if (opening === 0) opening = end;
    else if (run[0].length === opening) return at + end;
  }
  return text.length > MAX_CODE ? "far" : closed ? "none" : "more";
}

const TAG_NAME = /<\/?[A-Za-z][A-Za-z0-9-]*/y;
const SPACE = /\s*/y;
const ATTRIBUTE = /[A-Za-z_:][\w.:-]*/y;
const EQUALS = /\s*=\s*/y;
const VALUE = /"[^"]*"|'[^']*'|[^\s"'=<>`]+/y;
const OPEN_VALUE = /$|"[^"]*$|'[^']*$/y;

function matchAt(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

/** Reads an opening or a closing tag. The offset is that in `text`. */
function readTag(text: string, closed: boolean): Reading {
  let at = matchAt(TAG_NAME, text, 0);
  if (at === undefined) return text.length < 3 ? unfinished(text, closed) : "none";
  for (;;) {
    const space: number = matchAt(SPACE, text, at) ?? at;
    const sign = text[space];
    if (sign === ">") return space + 1;
    if (sign === undefined || (sign === "/" && space + 1 === text.length))
      return unfinished(text, closed);
    if (sign === "/" && text[1] !== "/") return text[space + 1] === ">" ? space + 2 : "none";
    const name: number | undefined =
      space > at && text[1] !== "/" ? matchAt(ATTRIBUTE, text, space) : undefined;
    if (name === undefined) return "none";
    const equals = matchAt(EQUALS, text, name);
    at = name;
    if (equals === undefined) continue;
    if (matchAt(OPEN_VALUE, text, equals) !== undefined) return unfinished(text, closed);
    at = matchAt(VALUE, text, equals);
    if (at === undefined) return "none";
  }
}

const ANY_NAME = /<[A-Za-z][^\s/>]*/y;
const GAP = /[\s/]*/y;
const ANY_ATTRIBUTE = /[^\s/>][^\s/>=]*(?:\s*=\s*)?/y;
const ANY_VALUE = /"[^"]*"|'[^']*'|(?!["'])[^\s>]*/y;

/** Reads a tag as a browser does where markdown has no say. */
function readAnyTag(text: string, closed: boolean): Reading {
  let at = text.includes(">") ? matchAt(ANY_NAME, text, 0) : undefined;
  while (at !== undefined) {
    at = matchAt(GAP, text, at) ?? at;
    if (text[at] === ">") return at + 1;
    const name = matchAt(ANY_ATTRIBUTE, text, at);
    at =
      name !== undefined && /=\s*$/.test(text.slice(at, name))
        ? matchAt(ANY_VALUE, text, name)
        : name;
  }
  return unfinished(text, closed);
}

const AUTOLINK =
  // oxlint-disable-next-line no-control-regex -- an address has none
  /^<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\x00-\x20]*|[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+)>/;
const OPEN_AUTOLINK =
  // oxlint-disable-next-line no-control-regex -- an address has none
  /^<(?:[A-Za-z][A-Za-z0-9+.-]{0,31}(?::[^<>\x00-\x20]*)?|[\w.!#$%&'*+/=?^`{|}~-]*(?:@[A-Za-z0-9.-]*)?)$/;

/** Reads an address in angle brackets. The offset is that in `text`. */
function readAutolink(text: string, closed: boolean): Reading {
  const found = AUTOLINK.exec(text);
  if (found) return found[0].length;
  return OPEN_AUTOLINK.test(text) ? unfinished(text, closed) : "none";
}

// oxlint-disable-next-line no-control-regex -- they end an address
const ADDRESS_END = /[ \t\n()\\<]|[\x00-\x1f\x7f]/g;
const BLANKS = /[ \t\n]*/y;
const TITLES: Readonly<Record<string, RegExp>> = { '"': /["\\]/g, "'": /['\\]/g, "(": /[()\\]/g };
const MAX_PARENS = 20;

/** The offset after a link's address; undefined if `text` ends before it does. */
function addressEnd(text: string, start: number): number | "none" | "far" | undefined {
  const angle = text[start] === "<";
  const signs = angle ? /[\n<>\\]/g : ADDRESS_END;
  signs.lastIndex = angle ? start + 1 : start;
  let depth = 0;
  for (let found = signs.exec(text); found; found = signs.exec(text)) {
    const [sign] = found;
    if (sign === "\\") signs.lastIndex += text[found.index + 1] === "\n" ? 0 : 1;
    else if (angle) return sign === ">" ? found.index + 1 : "none";
    else if (sign === "(") depth++;
    else if (sign === ")" && depth > 0) depth--;
    else if (sign !== "<") return depth > 0 ? "none" : found.index;
    if (depth > MAX_PARENS) return "far";
  }
  return undefined;
}

/** Reads `(address "title")` after a link's text. The offset is that in `text`. */
function readResource(text: string, closed: boolean): Reading {
  const open = unfinished(text, closed);
  const start = matchAt(BLANKS, text, 1) ?? 1;
  if (start === text.length) return open;
  const end = addressEnd(text, start);
  if (end === undefined) return open;
  if (typeof end !== "number") return end;
  const after = matchAt(BLANKS, text, end) ?? end;
  if (after === text.length) return open;
  if (text[after] === ")") return after + 1;
  const quotes = TITLES[text[after] ?? ""];
  if (after === end || !quotes) return "none";
  quotes.lastIndex = after + 1;
  for (let found = quotes.exec(text); found; found = quotes.exec(text)) {
    const [sign] = found;
    if (sign === "\\") quotes.lastIndex++;
    else if (sign === "(") return "none";
    else {
      const last = matchAt(BLANKS, text, quotes.lastIndex) ?? quotes.lastIndex;
      if (last === text.length) return open;
      return text[last] === ")" ? last + 1 : "none";
    }
  }
  return open;
}

const LABEL = /^\[(?:[^[\]\\]|\\[^])*\]/;
const OPEN_LABEL = /^\[(?:[^[\]\\]|\\[^])*\\?$/;
/** An address and a word after it: no definition ends so. */
const NO_DEFINITION = /^:[ \t]*[^\s<]\S*[ \t]+[^\s"'(]/;

/** Returns whether a paragraph may begin with a definition, which takes what would be code elsewhere. */
function readDefinition(text: string, closed: boolean): "yes" | "no" | "more" {
  const label = LABEL.exec(text)?.[0];
  if (label === undefined)
    return !OPEN_LABEL.test(text) ? "no" : text.length > MAX_SPAN ? "yes" : closed ? "no" : "more";
  const rest = text.slice(label.length);
  if (rest === "" && !closed) return "more";
  if (!rest.startsWith(":")) return "no";
  if (label.includes("`") || rest.includes("\n"))
    return label.includes("`") || !NO_DEFINITION.test(rest) ? "yes" : "no";
  if (NO_DEFINITION.test(rest)) return "no";
  return closed || text.length > MAX_SPAN ? "yes" : "more";
}

/** The key under which labels that are one to a parser are found; long ones have one key. */
function toKey(label: string): string {
  const key = label.replace(/\n[\s>]*|\s+/g, " ").trim();
  return key.length > 150 ? "" : key.toLowerCase().toUpperCase();
}

/**
 * An image. `keys` are those of the labels by which it may refer to a definition. `inline`: it has an address, and an `end`
 * if its words and its address can stand for it. `open`: it is not known where it ends.
 */
interface Image {
  kind: "inline" | "reference" | "open";
  words: string;
  address: string;
  end?: number;
  keys: string[];
}

const WORDS = String.raw`[^[\]\\\x60<>\r\n|]*`;
const ADDRESS = String.raw`(?:[^\s()<>\\\x60[\]|]|\([^\s()<>\\\x60[\]|]*\))+`;
const TITLE = String.raw`(?:[ \t]+(?:"[^"()\\\x60<>\r\n[\]|]*"|'[^'()\\\x60<>\r\n[\]|]*'))?`;
const INLINE = new RegExp(
  String.raw`^!\[(|(?:\p{L}|\d(?!\d*[.)]))${WORDS})\]\([ \t]*(?:<(${ADDRESS})>|(${ADDRESS}))${TITLE}[ \t]*\)`,
  "u",
);
/** `(` and the address after a label, as far as they can be read. */
const ADDRESS_START = /^\([\s>]*<?\s*([^\s)>]*)/;

/** The offset after the bracket that closes the one at 1. */
function bracketEnd(text: string): number | undefined {
  if (!text.includes("]")) return undefined;
  const signs = /\\[^]|[[\]]/g;
  signs.lastIndex = 1;
  let depth = 0;
  for (let found = signs.exec(text); found; found = signs.exec(text)) {
    if (found[0] === "[") depth++;
    else if (found[0] === "]" && --depth === 0) return found.index + 1;
  }
  return undefined;
}

/** The words of an image are looked for in so many characters. */
const MAX_ALT = 400;

const OPEN_IMAGE: Image = { kind: "open", words: "", address: "", keys: ["*"] };

/** Reads what follows the words of an image that are not simple. */
function readImageEnd(alt: string, rest: string, mayFollow: boolean): Image | "more" {
  const keys = /[[\]]/.test(alt) || alt.trim() === "" ? [] : [toKey(alt)];
  if (rest.startsWith("(")) {
    const [start = "", address = ""] = ADDRESS_START.exec(rest) ?? [];
    if (start.length === rest.length && mayFollow) return "more";
    return { kind: "inline", words: "", address, keys };
  }
  if (mayFollow && /^(?:$|\[(?:[^[\]\\]|\\[^])*\\?$)/.test(rest)) return "more";
  const label = LABEL.exec(rest)?.[0];
  if (label !== undefined) keys.push(toKey(label.slice(1, -1)));
  return rest.startsWith("[") && label === undefined
    ? OPEN_IMAGE
    : { kind: "reference", words: "", address: "", keys };
}

/** Reads an image at a `![`. */
function readImage(text: string, closed: boolean): Image | "more" {
  const end = bracketEnd(text.slice(0, MAX_ALT));
  if (end === undefined) return closed || text.length > MAX_ALT ? OPEN_IMAGE : "more";
  const [inline, words = "", angle, bare = ""] = INLINE.exec(text) ?? [];
  if (inline !== undefined)
    return { kind: "inline", words, address: angle ?? bare, end: inline.length, keys: [] };
  const alt = text.slice(2, end - 1);
  // Code and tags may hold brackets.
  return /`|<[^>]*(?:[[\]]|$)/.test(alt)
    ? OPEN_IMAGE
    : readImageEnd(alt, text.slice(end), !closed && text.length <= MAX_SPAN);
}

/** The state of a whole text. */
interface MarkdownPage {
  /** The labels of images that may be images by reference, and of definitions, as `toKey` has them. */
  images: Set<string>;
  definitions: Set<string>;
  /** True if all that follows is in doubt: it may stand inside a tag or a style sheet. */
  isLost: boolean;
  /** True if a style sheet is open. */
  isStyle: boolean;
}

export const newPage = (): MarkdownPage => ({
  images: new Set(),
  definitions: new Set(),
  isLost: false,
  isStyle: false,
});

/** The state of a block of text that is scanned: a paragraph, a heading, a table. Offsets are those of its view. */
export interface MarkdownBlock {
  page: MarkdownPage;
  /** Nothing counts as code: parsers may disagree on what is code here. */
  doubt: boolean;
  /** A `<` may begin a tag: the words of an image must not make one of it. */
  angle: boolean;
  /** An image may be open whose end is not known. */
  image: boolean;
  /** The last bracket opens a link's text that has no other brackets so far. */
  bracket: boolean;
  /** The number of open brackets. */
  depth: number;
  /** A code span of this line would be cut if the line belongs to a table. */
  cut: boolean;
  /** An address that stands for itself has begun. */
  inUrl: boolean;
  /** The offset of its text. */
  start: number;
}

export const newBlock = (
  page: MarkdownPage,
  start: number,
  doubt: boolean,
  image = false,
): MarkdownBlock => ({
  page,
  start,
  doubt: doubt || page.isLost,
  angle: false,
  image,
  bracket: false,
  depth: 0,
  cut: false,
  inUrl: false,
});

/** The place at which the scan continues. */
interface Step {
  next: number;
  /** The replacement for the text from the sign to `next`. */
  text?: string;
  inserts?: Insert[];
  /** The text up to `next` is code. */
  isCode?: boolean;
}

/**
 * Signs at which the scan of a text stops; those inside an address that stands for itself; and those in a text in which
 * it is in doubt what is code.
 */
const SIGNS = /[\\`<![\]|\n]|:\/\/|www\./gi;
const URL_SIGNS = /[\\`<![\]|\s]/g;
const DOUBT_SIGNS = /[<![\]]/g;
const LOST_SIGNS = new RegExp(String.raw`[<![\]]|${LOAD_SIGNS}`, "gi");
/** Matches an end of text that may be the beginning of an address. */
const OPEN_ADDRESS = /(?::\/?|w{1,3})$/i;
const HAS_CANDIDATE = /!\[|\](?=[:(])|<[A-Za-z]/;
/** Matches the end of a table's row or cell, in code too. */
const CUT = /\n|(?:^|[^\\]|\\\\)\|/;
/** Matches signs that have another meaning inside an address or a title. */
const SPECIAL = /`|!\[|<(?![A-Za-z][A-Za-z0-9+.-]{1,31}:)/;

/** Returns whether text may be an attribute, or CSS. */
export const isLoose = ({ isLost, isStyle }: MarkdownPage): boolean => isLost || isStyle;

/** The next sign on which something depends. */
export function nextSign(
  { doubt, inUrl, page }: MarkdownBlock,
  view: string,
  from: number,
): { at: number; sign: string } | undefined {
  const signs = !doubt ? (inUrl ? URL_SIGNS : SIGNS) : isLoose(page) ? LOST_SIGNS : DOUBT_SIGNS;
  signs.lastIndex = from;
  const found = signs.exec(view);
  return found ? { at: found.index, sign: found[0] } : undefined;
}

/** Returns the length of the end of a text that may be the beginning of a sign. */
export const openLength = ({ page }: MarkdownBlock, view: string): number =>
  (isLoose(page) ? OPEN_LOAD : OPEN_ADDRESS).exec(view.slice(-40))?.[0].length ?? 0;

/** Decides on a sign. Undefined if what follows decides; `closed` says that nothing of the block does. */
export function readSpan(
  block: MarkdownBlock,
  view: string,
  at: number,
  sign: string,
  closed: boolean,
): Step | undefined {
  if (isLoose(block.page) && /^(?:\\|..)/.test(sign)) return decideLoad(view, at, closed);
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

/** Puts a space behind a sign: then it is none. */
const part = (at: number): Step => ({ next: at + 1, inserts: [{ at: at + 1, text: " " }] });

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
  if (CUT.test(code)) block.cut = true;
  // A table's cell would end in it, and in brackets some parsers miss it.
  if ((block.cut || block.depth > 0) && HAS_CANDIDATE.test(code)) return inDoubt(block, at);
  return { next: end, isCode: true };
}

/** Decides on an attribute or on CSS where it is not known what is text. */
function decideLoad(view: string, at: number, closed: boolean): Step | undefined {
  const text = spanAt(view, at);
  const load = readLoad(text, closed || text.length > MAX_SPAN);
  if (load === "more") return undefined;
  if (load === "none") return { next: at + 1 };
  return { next: at + load.at, inserts: [{ ...load, at: at + load.at }] };
}

function decideAngle(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const text = spanAt(view, at);
  const address = block.doubt ? "none" : readAutolink(text, closed);
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
  block.inUrl = false;
  // The content of a comment or the like is no code.
  if (/^<[!?]/.test(text)) return block.doubt ? { next: at + 1 } : inDoubt(block, at);
  const { page } = block;
  if (page.isStyle && !closed && "</style".startsWith(text.toLowerCase())) return undefined;
  if (/^<\/style/i.test(text)) page.isStyle = false;
  if (!/^<[A-Za-z]/.test(text)) return { next: at + 1 };
  return decideTag(block, text, at, closed);
}

function decideTag(
  block: MarkdownBlock,
  text: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const { page } = block;
  const end = (block.doubt ? readAnyTag : readTag)(text, closed);
  if (end === "more") return undefined;
  const element = getElement(text);
  const tag = typeof end === "number" ? text.slice(0, end) : "";
  if (tag === "" && !block.doubt && end === "none") {
    block.angle = true;
    return { next: at + 1 };
  }
  // It goes on for long, or with the marks of a quote in it.
  const isOpen = tag === "" || (block.doubt && /\n[\s>]*>./.test(tag));
  if (isOpen ? isFetching(element) : mayLoad(tag) && readTag(tag, true) !== end) return part(at);
  if (isOpen) page.isLost = block.doubt = true;
  if (element === "style") page.isStyle = block.doubt = true;
  const inserts = disarmTag(tag).map((one) => ({ ...one, at: at + one.at }));
  if (inserts.length > 0) return { next: at + tag.length, inserts };
  return /[`[\]]/.test(tag) && !block.doubt ? inDoubt(block, at) : { next: at + 1 };
}

function decideImage(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const { page } = block;
  const image = readImage(spanAt(view, at), closed);
  if (image === "more") return undefined;
  if (image.kind === "inline" && isOutside(image.address, true)) {
    const { words, address } = image;
    const end = at + (image.end ?? 0);
    // Without words the address begins the text: with a letter or a slash it is no mark.
    if (image.end === undefined || block.doubt || block.angle) return part(at);
    if (words === "" && !/^[A-Za-z/]/.test(address)) return part(at);
    return { next: end, text: words === "" ? address : `${words} (${address})` };
  }
  const isDefined = image.keys.some((key) => page.definitions.has(key));
  if (isDefined || (image.kind === "open" && page.definitions.size > 0)) return part(at);
  for (const key of image.keys) page.images.add(key);
  block.image ||= image.kind === "open";
  block.bracket = false;
  block.depth++;
  return { next: at + 2 };
}

function decideBracket(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  if (at === block.start && !block.doubt) {
    const definition = readDefinition(spanAt(view, at), closed);
    if (definition === "more") return undefined;
    if (definition === "yes") return inDoubt(block, at);
  }
  block.depth++;
  block.bracket = view[at - 1] !== "]" && view[at + 1] !== "^";
  return { next: at + 1 };
}

/** The distance at which the label of a definition is looked for: longer ones have one key. */
export const MAX_LABEL = 160;
const LABEL_END = /(?:^|[\s>])\[((?:[^[\]\\]|\\[^])*)$/;

/** Decides on `]:`, which may define the address of an image. */
function decideDefinition({ page, image }: MarkdownBlock, view: string, at: number): boolean {
  const before = view.slice(Math.max(0, at - MAX_LABEL - 3), at);
  const isLong = before.length > MAX_LABEL && !/(?<!\\)\[/.test(before);
  const label = LABEL_END.exec(before)?.[1] ?? (isLong ? before : undefined);
  if (label === undefined) return false;
  const key = toKey(label);
  page.definitions.add(key);
  return image || page.images.has(key) || page.images.has("*");
}

/** Decides on what follows a link's text. Its address and title are no text, if it is a link for sure. */
function decideLabelEnd(
  block: MarkdownBlock,
  view: string,
  at: number,
  closed: boolean,
): Step | undefined {
  const text = spanAt(view, at + 1);
  if (text.startsWith(":") && decideDefinition(block, view, at)) return part(at);
  if (block.image && text.startsWith("(")) {
    const [start = "", address = ""] = ADDRESS_START.exec(text) ?? [];
    if (isOutside(address, true)) return part(at);
    if (start.length === text.length && !closed && text.length <= MAX_SPAN) return undefined;
  }
  return decideLink(block, text, at, closed);
}

function decideLink(
  block: MarkdownBlock,
  text: string,
  at: number,
  closed: boolean,
): Step | undefined {
  if (block.doubt) return { next: at + 1 };
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
