import { isOutside } from "./html-loads.ts";

const LABEL = /^\[(?:[^[\]\\]|\\[^])*\]/;

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

/** Reads an image at a `![`. `closed` says that nothing that follows belongs to it. */
export function readImage(text: string, closed: boolean): Image | "more" {
  const end = bracketEnd(text.slice(0, MAX_ALT));
  if (end === undefined) return closed || text.length > MAX_ALT ? OPEN_IMAGE : "more";
  const [inline, words = "", angle, bare = ""] = INLINE.exec(text) ?? [];
  if (inline !== undefined)
    return { kind: "inline", words, address: angle ?? bare, end: inline.length, keys: [] };
  const alt = text.slice(2, end - 1);
  // Code and tags may hold brackets.
  return /`|<[^>]*(?:[[\]]|$)/.test(alt) ? OPEN_IMAGE : readImageEnd(alt, text.slice(end), !closed);
}

/** Matches the addresses of links and images, as far as they can be read. */
const ADDRESSES = /\]\([\s>]*<?\s*([^\s)>]*)/g;

/** Returns whether an image that begins with a text leads outside, as far as that is known. */
export const loadsOutside = ({ kind, address }: Image, text: string): boolean =>
  kind === "inline"
    ? isOutside(address, true)
    : kind === "open" &&
      [...text.matchAll(ADDRESSES)].some(([, found = ""]) => isOutside(found, true));

/** The distance at which the label of a definition is looked for: longer ones have one key. */
export const MAX_LABEL = 160;
const LABEL_END = /(?:^|[\s>])\[((?:[^[\]\\]|\\[^])*)$/;

/** Returns the key of the label that ends before `]:`; undefined if there is none. */
export function readDefinition(before: string): string | undefined {
  const end = before.slice(-MAX_LABEL - 3);
  const isLong = end.length > MAX_LABEL && !/(?<!\\)\[/.test(end);
  const label = LABEL_END.exec(end)?.[1] ?? (isLong ? end : undefined);
  return label === undefined ? undefined : toKey(label);
}
