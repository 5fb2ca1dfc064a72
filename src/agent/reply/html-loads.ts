/** Attributes and rules of HTML and CSS that fetch something without an act of the reader. */

/** Says that an attribute was taken out of use. */
const SUFFIX = "-disarmed";

const FRAME = "src srcdoc";
const HREF = "href xlink:href";
const IMAGE = `src srcset lowsrc dynsrc ${HREF}`;
const OBJECT = "src data code codebase archive classid";
const ANIMATION = `to from by values ${HREF}`;

/** The attributes with an address that an element fetches, by the element's name. */
const FETCHED = new Map(
  [
    ["img image", IMAGE],
    ["input mglyph bgsound audio track", "src"],
    ["iframe frame portal fencedframe", FRAME],
    ["object embed applet", OBJECT],
    ["param", "value"],
    ["html", "manifest"],
    ["video", "src poster"],
    ["source", "src srcset"],
    ["link", "href imagesrcset"],
    ["base", "href"],
    ["script", `src ${HREF}`],
    ["meta", "content"],
    ["use feimage mpath textpath tref filter pattern lineargradient radialgradient", HREF],
    ["set animate", ANIMATION],
  ].flatMap(([elements = "", names = ""]) =>
    elements
      .split(" ")
      .map((element): [string, Set<string>] => [element, new Set(names.split(" "))]),
  ),
);
/** Attributes of any element that hold CSS. */
const STYLES = new Set(
  "style fill stroke filter mask clip-path cursor marker marker-start marker-mid marker-end".split(
    " ",
  ),
);

const STYLE_NAME = new RegExp(
  String.raw`\b(?:${[...STYLES, "background"].join("|")})(?=\s*=)`,
  "i",
);

/**
 * Matches a part of an outside address that no relative one has: a scheme, two slashes, or signs that parsers may read
 * as one.
 */
const OUTSIDE = /[:\\\p{Cc}]|\/\/|&(?:#|colon;|sol;|bsol;|tab;|newline;)/iu;
const DATA = /^data:image\/(?:png|jpe?g|gif|webp|avif|bmp|x-icon)[;,]/i;
/** An image shows SVG without fetching what it names; a frame fetches it. */
const DATA_SVG = /^data:image\/svg\+xml[;,]/i;

/**
 * Returns whether an address leads outside, and may carry data away. Relative addresses and images inside the address
 * do not.
 */
export function isOutside(address: string, isImage = false): boolean {
  const start = address.trim();
  return !DATA.test(start) && !(isImage && DATA_SVG.test(start)) && OUTSIDE.test(start);
}

/** A word as CSS may spell it, with escapes. */
const spell = (word: string): string =>
  [...word]
    .map((letter) => {
      const codes = [letter, letter.toUpperCase()].map((one) => one.charCodeAt(0).toString(16));
      const escaped = String.raw`\\0{0,4}(?:${codes.join("|")})(?:\r\n|[ \t\r\n\f])?`;
      return `(?:${letter}|${escaped}${/[a-f]/.test(letter) ? "" : String.raw`|\\${letter}`})`;
    })
    .join("");
const LISTS = ["src", "image-set", "image", "cross-fade"].map(spell).join("|");
const IMPORT = `@${spell("import")}`;
/** Matches the parts of CSS that fetch something, with the address. */
const CSS_LOAD = String.raw`(${spell("url")}\()\s*["']?\s*([^"')\s]*)|((?:${LISTS})\(|${IMPORT})([^;}]*)`;
const CSS_LOADS = new RegExp(CSS_LOAD, "gi");
const FIRST_CSS_LOAD = new RegExp(`^(?:${CSS_LOAD})`, "i");
const ODD_ENTITY = /&(?!(?:quot|amp|apos|nbsp|lt|gt);)/i;

const isOutsideCss = ([, , address, , list = ""]: readonly (string | undefined)[]): boolean =>
  address === undefined ? OUTSIDE.test(list) : !/^data:/i.test(address) && OUTSIDE.test(address);

const hasOutsideCss = (css: string): boolean =>
  [...css.matchAll(CSS_LOADS)].some((found) => isOutsideCss(found)) ||
  (ODD_ENTITY.test(css) && OUTSIDE.test(css));

/** The element of a tag, without a prefix. */
export const getElement = (tag: string): string =>
  (/^<\/?(?:[^\s/>:]*:)?([^\s/>]*)/.exec(tag)?.[1] ?? "")
    .toLowerCase()
    .replace(/^animate.*/, "animate");

/** Returns whether an attribute fetches something from outside. `tag` is the tag, as far as it is known. */
function isLoad(element: string, name: string, value: string, tag = ""): boolean {
  if (name === "background") return isOutside(value);
  if (STYLES.has(name) && hasOutsideCss(value)) return true;
  if (!FETCHED.get(element)?.has(name)) return false;
  if (name === "srcdoc") return value.trim() !== "";
  if (name.endsWith("srcset"))
    return value.split(/\s+/).some((address) => isOutside(address, true));
  if (element === "meta") return /http-equiv/i.test(tag) && OUTSIDE.test(value);
  return isOutside(value, element === "img");
}

const VALUE = /"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)/.source;
const ATTRIBUTE = new RegExp(
  String.raw`(?<=[\s"'])([A-Za-z_:][\w.:-]*)(?:\s*=\s*(?:${VALUE}))?`,
  "g",
);

/** An insertion into a text, and its place. */
export interface Insert {
  at: number;
  text: string;
}

/**
 * Finds where a whole tag has to be changed to fetch nothing from outside: behind the names of attributes, and where markdown
 * might read an image in it.
 */
export function disarmTag(tag: string): Insert[] {
  const element = getElement(tag);
  const inserts = [...tag.matchAll(ATTRIBUTE)].flatMap(
    ({ index, 1: name = "", 2: a, 3: b, 4: c }) =>
      isLoad(element, name.toLowerCase(), a ?? b ?? c ?? "", tag)
        ? [{ at: index + name.length, text: SUFFIX }]
        : [],
  );
  if (inserts.length === 0) return [];
  const marks = [...tag.matchAll(/!(?=\[)|\](?=[(:])/g)];
  return [...inserts, ...marks.map(({ index }) => ({ at: index + 1, text: " " }))].toSorted(
    (one, other) => one.at - other.at,
  );
}

/** Returns whether an element may fetch something. */
export const isFetching = (element: string): boolean => FETCHED.has(element);

/** Returns whether a tag that is none to markdown may fetch something from outside. */
export const mayLoad = (tag: string): boolean =>
  OUTSIDE.test(tag) && (isFetching(getElement(tag)) || STYLE_NAME.test(tag));

/** Signs at which something may be fetched inside a tag of which it is not known where it ends, or in a style sheet. */
export const LOAD_SIGNS = String.raw`(?<=[\s"'/])${STYLE_NAME.source}|(?:${spell("url")}|${LISTS})\(|${IMPORT}`;
/** Matches an end of text that may become a load. */
export const OPEN_LOAD = /[\s"'/]?[\w@\\:-]{0,30}\s*$/;
const STYLE_ATTRIBUTE = /^([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)(?=[\s>])|(?=>))/;

/**
 * Reads one of `LOAD_SIGNS`. Returns what to put in if it fetches from outside.
 * @param isAll whether nothing follows `text` that belongs to it
 */
export function readLoad(text: string, isAll: boolean): Insert | "none" | "more" {
  const css = FIRST_CSS_LOAD.exec(text);
  if (css) {
    const sign = css[1] ?? css[3] ?? "";
    if (isOutsideCss(css)) return { at: sign.startsWith("@") ? 1 : sign.length - 1, text: " " };
    return !isAll && css[0].length === text.length ? "more" : "none";
  }
  const [whole, , ...values] = STYLE_ATTRIBUTE.exec(text) ?? [];
  if (whole === undefined && !isAll) return "more";
  const [name = ""] = /^[\w-]+/.exec(text) ?? [];
  const value = values.find((one) => one !== undefined) ?? "";
  // One that does not end may have anything in it.
  return whole === undefined || isLoad("", name.toLowerCase(), value)
    ? { at: name.length, text: SUFFIX }
    : "none";
}

/** The length of a tag; `none` if it is none, `more` if the text that follows decides, `far` if its end is out of reach. */
type Reading = number | "none" | "more" | "far";

/** The end of a tag is looked for in so many characters. */
const MAX_TAG = 1000;

const unfinished = (text: string, closed: boolean): Reading =>
  text.length > MAX_TAG ? "far" : closed ? "none" : "more";

const TAG_NAME = /<\/?[A-Za-z][A-Za-z0-9-]*/y;
const SPACE = /\s*/y;
const PLAIN_ATTRIBUTE = /[A-Za-z_:][\w.:-]*/y;
const EQUALS = /\s*=\s*/y;
const PLAIN_VALUE = /"[^"]*"|'[^']*'|[^\s"'=<>`]+/y;
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
      space > at && text[1] !== "/" ? matchAt(PLAIN_ATTRIBUTE, text, space) : undefined;
    if (name === undefined) return "none";
    const equals = matchAt(EQUALS, text, name);
    at = name;
    if (equals === undefined) continue;
    if (matchAt(OPEN_VALUE, text, equals) !== undefined) return unfinished(text, closed);
    at = matchAt(PLAIN_VALUE, text, equals);
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
