/** The named characters of U+00A0 to U+00FF, in their order. */
const LATIN =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

const NAMED = new Map<string, string>([
  ...LATIN.split(" ").map((name, index) => [name, String.fromCharCode(160 + index)] as const),
  ...Object.entries({
    amp: "&",
    lt: "<",
    gt: ">",
    quot: '"',
    apos: "'",
    ndash: "–",
    mdash: "—",
    lsquo: "‘",
    rsquo: "’",
    sbquo: "‚",
  }),
  ...Object.entries({
    ldquo: "“",
    rdquo: "”",
    bdquo: "„",
    bull: "•",
    hellip: "…",
    trade: "™",
    euro: "€",
    larr: "←",
    uarr: "↑",
  }),
  ...Object.entries({
    rarr: "→",
    darr: "↓",
    ensp: " ",
    emsp: " ",
    thinsp: " ",
    zwnj: "",
    zwj: "\u200d",
    lrm: "",
    rlm: "",
    OElig: "Œ",
  }),
  ...Object.entries({
    oelig: "œ",
    Scaron: "Š",
    scaron: "š",
    Yuml: "Ÿ",
    lsaquo: "‹",
    rsaquo: "›",
    dagger: "†",
    permil: "‰",
    check: "✓",
  }),
]);

/** Numbers 128 to 159 mean what they mean in windows-1252, as browsers have it. */
const WINDOWS = new TextDecoder("windows-1252");

function numbered(code: number): string {
  if (code >= 0x80 && code <= 0x9f) return WINDOWS.decode(Uint8Array.of(code));
  return code > 0x10ffff || code === 0 || (code >= 0xd800 && code <= 0xdfff)
    ? "\ufffd"
    : String.fromCodePoint(code);
}

/** Decodes `&amp;`, `&#233;`, `&#xe9;`; what is not known stays. */
export function decodeEntities(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,30}));?/g,
    (whole, decimal, hex, name) => {
      if (decimal !== undefined) return numbered(Number(decimal));
      if (hex !== undefined) return numbered(Number.parseInt(String(hex), 16));
      return NAMED.get(String(name)) ?? whole;
    },
  );
}

/** Elements whose content nobody sees. */
const HIDDEN = new Set([
  "script",
  "style",
  "head",
  "title",
  "template",
  "noscript",
  "object",
  "svg",
]);
/** Elements that begin a line, and those that have an empty line around them. */
const LINES = new Set([
  "br",
  "div",
  "tr",
  "li",
  "hr",
  "dt",
  "dd",
  "option",
  "section",
  "article",
  "header",
  "footer",
  "address",
]);
const BLOCKS = new Set([
  "p",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "ul",
  "ol",
  "dl",
  "table",
  "blockquote",
  "pre",
  "form",
  "figure",
]);

const getHref = (tag: string): string | undefined => {
  const found = /\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i.exec(tag);
  const href = decodeEntities(found?.[1] ?? found?.[2] ?? found?.[3] ?? "").trim();
  return /^(?:https?|mailto|tel):/i.test(href) ? href : undefined;
};

/** Finds the end of a tag that begins at `from`; a `>` in a quoted value is none. Undefined if the tag has no end. */
function endOfTag(html: string, from: number): number | undefined {
  const scanner = /"[^"]*"|'[^']*'|>/g;
  scanner.lastIndex = from;
  for (let found = scanner.exec(html); found; found = scanner.exec(html))
    if (found[0] === ">") return found.index;
  return undefined;
}

/** Collects text, with white space as a browser shows it. */
class Lines {
  #parts: string[] = [];
  #breaks = 0;
  #space = false;
  #any = false;

  text(raw: string): void {
    const text = decodeEntities(raw).replaceAll("\u00ad", "");
    const words = text.split(/[\s\u00a0\u200b\ufeff]+/u);
    const [first = ""] = words;
    if (first === "" && words.length > 1) this.#space = true;
    for (const [index, word] of words.entries()) {
      if (word !== "") this.#word(word);
      if (index < words.length - 1 && word !== "") this.#space = true;
    }
  }

  #word(word: string): void {
    if (this.#any && this.#breaks > 0) this.#parts.push("\n".repeat(this.#breaks));
    else if (this.#any && this.#space) this.#parts.push(" ");
    this.#parts.push(word);
    this.#breaks = 0;
    this.#space = false;
    this.#any = true;
  }

  /** Ends the line; with 2, an empty line follows. A further `br` counts up to that. */
  end(lines: number, add = false): void {
    this.#breaks = add ? Math.min(2, this.#breaks + lines) : Math.max(this.#breaks, lines);
    this.#space = false;
  }

  toString(): string {
    return this.#parts.join("");
  }
}

/** The text of an HTML mail: no tags, no scripts or styles, addresses of links behind their texts. Linear in its length. */
export function htmlToText(html: string): string {
  const lines = new Lines();
  let link: { href: string; from: number } | undefined;
  let at = 0;
  /** From here on no tag ends: all is text. */
  let unclosed = html.length;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    if (open < 0 || open >= unclosed) {
      lines.text(html.slice(at));
      break;
    }
    if (open > at) lines.text(html.slice(at, open));
    if (html.startsWith("<!--", open)) {
      const end = html.indexOf("-->", open + 4);
      at = end < 0 ? html.length : end + 3;
      continue;
    }
    const named = /^<(\/?)([a-zA-Z][a-zA-Z0-9:-]*)|^<[!?]/.exec(html.slice(open, open + 64));
    if (!named) {
      lines.text("<");
      at = open + 1;
      continue;
    }
    const end = endOfTag(html, open + named[0].length);
    if (end === undefined) {
      unclosed = open + 1;
      at = open + 1;
      lines.text("<");
      continue;
    }
    at = end + 1;
    const name = (named[2] ?? "").toLowerCase();
    const closing = named[1] === "/";
    if (!closing && HIDDEN.has(name)) at = afterElement(html, name, at);
    else if (BLOCKS.has(name)) lines.end(2);
    else if (LINES.has(name)) lines.end(1, name === "br");
    else if (name === "td" || name === "th") lines.text(" ");
    else if (name === "a" && !closing) {
      // Links do not nest: the one before ends here.
      link = { href: getHref(html.slice(open, end)) ?? "", from: at };
    } else if (name === "a") {
      const shown = link && decodeEntities(html.slice(link.from, open));
      // A link that shows its own address says it once.
      if (link && link.href !== "" && !shown?.includes(link.href))
        lines.text(` (${link.href.replaceAll("&", "&amp;")})`);
      link = undefined;
    }
    if (name === "li" && !closing) lines.text("- ");
  }
  return lines.toString();
}

/** Behind the end tag of a hidden element, or the end of all. */
function afterElement(html: string, name: string, from: number): number {
  const closing = new RegExp(`</${name}[^>]{0,200}>`, "gi");
  closing.lastIndex = from;
  return closing.test(html) ? closing.lastIndex : html.length;
}
