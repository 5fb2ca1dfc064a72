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
import {
  ADDRESS_START,
  MAX_SPAN,
  readAnyTag,
  readAutolink,
  readCode,
  readDefinition,
  readImage,
  readResource,
  readTag,
  spanAt,
  toKey,
} from "./markdown-inline.ts";

/** What is known of a whole text. */
export interface MarkdownPage {
  /** The labels of images that may be images by reference, and of definitions, as `toKey` has them. */
  images: Set<string>;
  definitions: Set<string>;
  /** Whether all that follows is in doubt: it may stand inside a tag or a style sheet. */
  isLost: boolean;
  /** Whether a style sheet is open. */
  isStyle: boolean;
}

export const newPage = (): MarkdownPage => ({
  images: new Set(),
  definitions: new Set(),
  isLost: false,
  isStyle: false,
});

/** What is known of a block of text that is scanned: a paragraph, a heading, a table. Offsets are those of its view. */
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
  /** How many brackets are open. */
  depth: number;
  /** A code span of this line would be cut if the line belongs to a table. */
  cut: boolean;
  /** An address that stands for itself has begun. */
  inUrl: boolean;
  /** Where its text begins. */
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

/** Where the scan goes on. */
interface Step {
  next: number;
  /** What stands in place of the text from the sign to `next`. */
  text?: string;
  inserts?: Insert[];
  /** The text up to `next` is code. */
  isCode?: boolean;
}

/** Where the scan of a text looks closer; in an address that stands for itself; and where it is in doubt what is code. */
const SIGNS = /[\\`<![\]|\n]|:\/\/|www\./gi;
const URL_SIGNS = /[\\`<![\]|\s]/g;
const DOUBT_SIGNS = /[<![\]]/g;
const LOST_SIGNS = new RegExp(String.raw`[<![\]]|${LOAD_SIGNS}`, "gi");
/** What may be the beginning of an address. */
const OPEN_ADDRESS = /(?::\/?|w{1,3})$/i;
const HAS_CANDIDATE = /!\[|\](?=[:(])|<[A-Za-z]/;
/** What ends a table's row or cell, in code too. */
const CUT = /\n|(?:^|[^\\]|\\\\)\|/;
/** What is taken otherwise inside an address or a title than outside. */
const SPECIAL = /`|!\[|<(?![A-Za-z][A-Za-z0-9+.-]{1,31}:)/;

/** Whether text may be an attribute, or CSS. */
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

/** How much of the end of a text may be the beginning of a sign. */
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
  // What a comment or the like has in it is no code.
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

/** How far back the label of a definition is looked for: longer ones have one key. */
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
