import { decodeHTML } from "entities/decode";
import { renderLink } from "#channel-kit";

const LINK =
  /<a\b[^>]{0,2000}?\bhref="([^"]{0,2000})"[^>]{0,2000}>((?:(?!<\/a>)[^]){0,2000})<\/a>/gi;
/** A picture that comes along as a file, too; an emoji is not one. */
const PICTURE = /<img\b[^>]{0,1000}\bschema\.skype\.com\/AMSImage\b[^>]{0,1000}>/gi;
const IMAGE = /<(?:img|emoji)\b[^>]{0,2000}?\balt="([^"]{0,500})"[^>]{0,2000}>/gi;
/** The end of a line: also the begin of a list inside of an item. */
const BREAK =
  /<br\s*\/?>|<\/(?:p|div|li|tr|blockquote|pre|codeblock|h\d)>\s*(?:<[ou]l\b[^>]{0,1000}>\s*)?|<[ou]l\b[^>]{0,1000}>/gi;

/** A quote holds a value only behind `=`, as in HTML: others are signs. */
const TAG = /<(?:[^<>=]|=(?!\s*["'])|=\s*(?:"[^"]*"|'[^']*'))*>/g;

/** A `<` that no tag begins with is text, and is read once. */
const strip = (html: string): string => html.replace(TAG, "");

/** The text that a reader sees of HTML, with the addresses behind its words. */
export function toText(html: string): string {
  const said = html
    .replace(LINK, (_, url: string, words: string) => renderLink(strip(words), url))
    .replace(PICTURE, "")
    .replace(IMAGE, "$1")
    .replace(/<\/t[dh]>\s*(?=<t[dh]\b)/gi, " | ")
    .replace(BREAK, "\n");
  return decodeHTML(strip(said)).replaceAll("\u00a0", " ").trim();
}

/** Words of others within the HTML of a message. */
export interface HtmlQuote {
  /** `Reply`, `Forward`. */
  kind: string;
  html: string;
}

const QUOTE = /<(\/?)blockquote\b([^>]{0,8000})>/gi;
const KIND = /\bitemtype="https?:\/\/schema\.skype\.com\/(Reply|Forward)"/i;

/** Returns whether HTML holds words of others, in whichever form. */
export const hasQuotes = (html: string): boolean =>
  /schema\.skype\.com\/(?:Reply|Forward)/i.test(html);

/**
 * Takes the messages that a message answers or forwards out of its HTML: Teams puts their words into the text as well. One
 * may hold others. What comes behind one that does not end belongs to it.
 */
export function takeQuotes(html: string): { own: string; quotes: HtmlQuote[] } {
  const quotes: HtmlQuote[] = [];
  let own = "";
  let at = 0;
  let depth = 0;
  let open: { kind: string; from: number } | undefined;
  for (const { 0: tag, 1: slash, 2: attributes = "", index } of html.matchAll(QUOTE)) {
    const kind = KIND.exec(attributes)?.[1];
    if (open) {
      depth += slash === "" ? 1 : -1;
      if (depth > 0) continue;
      quotes.push({ kind: open.kind, html: html.slice(open.from, index) });
      open = undefined;
      at = index + tag.length;
    } else if (slash === "" && kind !== undefined) {
      own += html.slice(at, index);
      depth = 1;
      open = { kind, from: index + tag.length };
    }
  }
  if (open) quotes.push({ kind: open.kind, html: html.slice(open.from) });
  else own += html.slice(at);
  return { own, quotes };
}
