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

/** Names of elements that begin a block of HTML even if their tag never ends. */
const BLOCK_HTML =
  /^<\/?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|meta|nav|noframes|ol|optgroup|option|p|param|pre|script|search|section|source|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul)(?=\s|\/?>)/i;

/** Whether a line that begins so is HTML, whatever stands in the lines before and after. */
export const beginsHtmlBlock = (text: string): boolean =>
  /^<(?:\?|![A-Za-z[-])/.test(text) || BLOCK_HTML.test(text);

/** Reads HTML at a `<`: a tag, or the beginning of a comment, a declaration, an instruction or, at the start of a line, a block. */
export function readHtml(text: string, atStart: boolean, closed: boolean): Reading {
  if (/^<(?:\?|![A-Za-z[-])/.test(text)) return 2;
  if (text === "<!" && !closed) return "more";
  return atStart && beginsHtmlBlock(closed ? `${text}\n` : text) ? 1 : readTag(text, closed);
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

/** An image that can be written as its words and its address; or as a link; `plain` if its signs can only be escaped. */
export type Image =
  | { end: number; words: string; address: string }
  | { end: number; reference: true }
  | "plain"
  | "none"
  | "more";

const WORDS = String.raw`[^[\]\\\x60<>\r\n|]*`;
const ADDRESS = String.raw`(?:[^\s()<>\\\x60[\]|]|\([^\s()<>\\\x60[\]|]*\))+`;
const TITLE = String.raw`(?:[ \t]+(?:"[^"()\\\x60<>\r\n[\]|]*"|'[^'()\\\x60<>\r\n[\]|]*'))?`;
const INLINE = new RegExp(
  String.raw`^!\[(|(?:\p{L}|\d(?!\d*[.)]))${WORDS})\]\([ \t]*(?:<(${ADDRESS})>|(${ADDRESS}))${TITLE}[ \t]*\)`,
  "u",
);
const REFERENCE = new RegExp(
  String.raw`^!\[(?!\^)(?=${WORDS}[^\s\]])${WORDS}\](?:\[${WORDS}\])?(?![(:[])`,
);
const NO_IMAGE = /^!\[[ \t]*\](?![([])/;
const OPEN_IMAGE = new RegExp(
  String.raw`^!\[${WORDS}(?:\](?:\[${WORDS}\]?|\((?:[^()\\\x60\r\n[\]|]|\([^()\\\x60\r\n[\]|]*\))*(?:\([^()\\\x60\r\n[\]|]*)?)?)?$`,
);

/** Reads an image. */
export function readImage(text: string, closed: boolean): Image {
  const [inline, words = "", angle, bare = ""] = INLINE.exec(text) ?? [];
  const address = angle ?? bare;
  // Without words the address begins the text: with a letter or a slash it is no mark.
  if (inline !== undefined)
    return words !== "" || /^[A-Za-z/]/.test(address)
      ? { end: inline.length, words, address }
      : "plain";
  if (!closed && text.length <= MAX_SPAN && OPEN_IMAGE.test(text)) return "more";
  if (NO_IMAGE.test(text)) return "none";
  const reference = REFERENCE.exec(text)?.[0];
  // At the end of what is looked at it is not known what follows.
  if (reference === undefined || reference.length > MAX_SPAN) return "plain";
  return { end: reference.length, reference: true };
}
