/**
 * What a construct inside a line is: where it ends, `none` if there is none, `more` if the text that follows decides,
 * `far` if it goes on for longer than is looked at.
 */
export type Reading = number | "none" | "more" | "far";

/** A code span is looked for in so many characters, any other construct in half of them. */
export const MAX_CODE = 2000;
export const MAX_SPAN = 1000;

/** The text from which a construct is read: `at` is where it begins, `closed` says that its block ends with `view`. */
export const spanAt = (view: string, at: number): string => view.slice(at, at + MAX_SPAN + 1);

const unfinished = (text: string, closed: boolean): Reading =>
  text.length > MAX_SPAN ? "far" : closed ? "none" : "more";

/** Reads the code span that the backticks at `at` open. */
export function readCode(view: string, at: number, closed: boolean): Reading {
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
export function readTag(text: string, closed: boolean): Reading {
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
export function readAnyTag(text: string, closed: boolean): Reading {
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
export function readAutolink(text: string, closed: boolean): Reading {
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
export function readResource(text: string, closed: boolean): Reading {
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

/** Whether a paragraph may begin with a definition, which takes what would be code elsewhere. */
export function readDefinition(text: string, closed: boolean): "yes" | "no" | "more" {
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
export function toKey(label: string): string {
  const key = label.replace(/\n[\s>]*|\s+/g, " ").trim();
  return key.length > 150 ? "" : key.toLowerCase().toUpperCase();
}

/**
 * An image. `keys` are those of the labels by which it may refer to a definition. `inline`: it has an address, and an `end`
 * if its words and its address can stand for it. `open`: it is not known where it ends.
 */
export interface Image {
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
export const ADDRESS_START = /^\([\s>]*<?\s*([^\s)>]*)/;

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
export function readImage(text: string, closed: boolean): Image | "more" {
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
