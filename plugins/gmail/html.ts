import { decodeHTML } from "entities/decode";

/** Signs without width, with which mails pad the beginnings that lists of mails show. */
const PADDING = /&(?:zwnj|lrm|rlm);/g;

/** Decodes `&amp;`, `&#233;`, `&#xe9;` as browsers do; what is not known stays. */
export const decodeEntities = (text: string): string => decodeHTML(text.replace(PADDING, ""));

/** Elements whose content nobody sees. */
const HIDDEN = /^(?:script|style|title|template|noscript|object|svg)$/;
/** Styles of elements that are not seen, such as the lines for lists of mails. */
const UNSEEN =
  /\sstyle\s*=\s*["'](?:[^"']*[;\s])?(?:display\s*:\s*none|mso-hide\s*:\s*all|max-height\s*:\s*0(?:px)?\s*[;!"'])/i;
/** Elements that begin a line, and those that have an empty line around them. */
const LINES = /^(?:br|div|tr|li|hr|d[td]|option|section|article|header|footer|address)$/;
const BLOCKS = /^(?:p|h[1-6]|[uod]l|table|blockquote|pre|form|figure)$/;

const getHref = (tag: string): string | undefined => {
  const found = /\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i.exec(tag);
  const href = decodeEntities(found?.[1] ?? found?.[2] ?? found?.[3] ?? "").trim();
  return /^(?:https?|mailto|tel):/i.test(href) ? href : undefined;
};

/**
 * Finds the end of a tag that begins at `from`; a `>` in a quoted value is none, and a quote that follows no `=` begins none.
 * Undefined if the tag has no end.
 */
function endOfTag(html: string, from: number): number | undefined {
  const scanner = /=\s*(?:"[^"]*"|'[^']*')|>/g;
  scanner.lastIndex = from;
  for (let found = scanner.exec(html); found; found = scanner.exec(html))
    if (found[0] === ">") return found.index;
  return undefined;
}

/** Collects text, with white space as a browser shows it. */
class Lines {
  /** Within `pre`, where white space stays as it is. */
  isExact = false;
  #parts: string[] = [];
  #breaks = 0;
  #space = false;
  #any = false;

  text(raw: string): void {
    const text = decodeEntities(raw).replace(/[\u00ad\u200b\ufeff]/g, "");
    if (this.isExact)
      return text.split(/\r?\n/).forEach((line, index) => {
        if (index > 0) this.end(1, true);
        if (line !== "") this.#word(line);
      });
    const words = text.split(/\s+/);
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
  /** The names of elements of which an unseen one does not end, as pictures do not. */
  const endless = new Set<string>();
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
    if (name === "pre") lines.isExact = !closing;
    const isUnseen = !closing && !endless.has(name) && UNSEEN.test(html.slice(open, at));
    const behind = isUnseen ? afterUnseen(html, name, at) : undefined;
    if (isUnseen && behind === undefined) endless.add(name);
    if (behind !== undefined) at = behind;
    else if (!closing && HIDDEN.test(name)) at = afterElement(html, name, at);
    else if (BLOCKS.test(name)) lines.end(2);
    else if (LINES.test(name)) lines.end(1, name === "br");
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

/** Behind an unseen element, which may have others of its name in it; undefined if it does not end. */
function afterUnseen(html: string, name: string, from: number): number | undefined {
  const tags = new RegExp(`<(/?)${name}(?![a-z0-9:-])[^<>]*>?`, "gi");
  tags.lastIndex = from;
  let depth = 1;
  for (let found = tags.exec(html); found; found = tags.exec(html)) {
    depth += found[1] === "/" ? -1 : 1;
    if (depth === 0) return tags.lastIndex;
  }
  return undefined;
}

/** Behind the end tag of a hidden element, or the end of all. */
function afterElement(html: string, name: string, from: number): number {
  const closing = new RegExp(`</${name}[^>]{0,200}>`, "gi");
  closing.lastIndex = from;
  return closing.test(html) ? closing.lastIndex : html.length;
}
