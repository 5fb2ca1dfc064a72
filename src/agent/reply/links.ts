import { findCode, getHtmlEnd } from "./markdown-code.ts";

/** `[text](address "title")`, an image's too; addresses without white space. */
const LINK = /!?\[([^\]]{0,1000})\]\(\s*<?([^\s)>]{1,2000})>?(?:\s+[^)]{0,1000})?\)/g;
const REFERENCE = /^[ \t]*\[[^\]]{1,1000}\]:[ \t]*<?(\S+?)>?(?:[ \t].*)?$/gm;
const BARE = /<?\b((?:https?|ftp):\/\/[^\s<>"')\]\0]+|www\.[^\s<>"')\]\0]+)>?/gi;

function getHost(address: string): string | undefined {
  try {
    return new URL(
      address.startsWith("www.") || address.startsWith("//")
        ? `https://${address.replace(/^\/\//, "")}`
        : address,
    ).hostname.toLowerCase();
  } catch {
    return undefined;
  }
}

/** Returns whether `hooks.allowedLinkHosts` has a host: by its name, or by `*.` and a domain above it. */
export const isAllowedHost = (host: string, hosts: readonly string[]): boolean =>
  hosts.some(
    (allowed) =>
      host === allowed.toLowerCase() ||
      (allowed.startsWith("*.") && host.endsWith(allowed.slice(1).toLowerCase())),
  );

type IsAllowed = (address: string) => boolean;

/** Returns whether an address leads to one of the hosts, or nowhere outside. */
function isAllowed(address: string, hosts: readonly string[]): boolean {
  const host = getHost(address);
  // A relative address leads nowhere outside.
  if (host === undefined)
    return !/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith("mailto:");
  return isAllowedHost(host, hosts);
}

/** A text, and the same with another sign for each of its code: links are looked for in that. */
interface Masked {
  text: string;
  mask: string;
}

/** Replaces what of the mask matches: by a part of itself, by other words, or not at all. */
function replaceMasked(
  { text, mask }: Masked,
  pattern: RegExp,
  replace: (match: RegExpMatchArray) => string | { from: number; length: number } | undefined,
): Masked {
  const done = { text: "", mask: "" };
  let last = 0;
  for (const match of mask.matchAll(pattern)) {
    const by = replace(match);
    if (by === undefined) continue;
    const at = match.index ?? 0;
    const part = (whole: string): string =>
      typeof by === "string" ? by : whole.slice(at + by.from, at + by.from + by.length);
    done.text += text.slice(last, at) + part(text);
    done.mask += mask.slice(last, at) + part(mask);
    last = at + match[0].length;
  }
  return { text: done.text + text.slice(last), mask: done.mask + mask.slice(last) };
}

/** Removes links whose addresses are not kept, and counts them. */
export function removeLinks(
  masked: Masked,
  isKept: IsAllowed,
): { text: string; removedLinks: number } {
  let removedLinks = 0;
  const removed = <R>(by: R): R => {
    removedLinks++;
    return by;
  };
  const inline = replaceMasked(masked, LINK, ([all, label = "", address = ""]) =>
    isKept(address) ? undefined : removed({ from: all.indexOf("[") + 1, length: label.length }),
  );
  const defined = replaceMasked(inline, REFERENCE, ([, address = ""]) =>
    isKept(address) ? undefined : removed(""),
  );
  const { text } = replaceMasked(defined, BARE, ([, address = ""]) =>
    isKept(address) ? undefined : removed("[link removed]"),
  );
  return { text, removedLinks };
}

/** Removes links to some hosts, and what else names these hosts. `hosts` are in ASCII and lower case. */
export function removeLinksTo(text: string, hosts: readonly string[]): string {
  const { text: cleaned } = removeLinks(
    { text, mask: text },
    (address) => !hosts.includes(getHost(address)?.replace(/\.+$/, "") ?? ""),
  );
  return hosts.reduce((rest, host) => rest.replace(toPattern(host), "[link removed]"), cleaned);
}

/** Matches a host without a scheme, with what follows it up to white space. */
const toPattern = (host: string): RegExp =>
  new RegExp(
    `(?<![\\p{L}\\p{N}@.-])${host.replace(/[.[\]]/g, "\\$&")}(?![\\p{L}\\p{N}-])[^\\s<>")\\]]*`,
    "giu",
  );

/** A section is held so long for its end. Nothing is code in what is longer. */
const MAX_SECTION = 64_000;
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const FENCE_END = /^ {0,3}(`{3,}|~{3,})\s*$/;

/** The same text, with a NUL for each sign of its code but the ends of lines. */
const maskCode = (text: string): string =>
  findCode(text).reduce(
    (mask, { start, end }) =>
      mask.slice(0, start) + mask.slice(start, end).replace(/[^\n]/g, "\0") + mask.slice(end),
    text,
  );

/** Removes links to other hosts than some from a text that comes in pieces. Links in code stay. */
export class LinkRemover {
  removed = 0;
  readonly #hosts: readonly string[];
  /** The text since the last line at which no block was open, and the begin of the line that is looked at. */
  #section = "";
  #lineStart = 0;
  #isAfterBlank = false;
  #fence: string | undefined;
  #htmlEnd: RegExp | undefined;
  /** True if the section is the rest of one that was too long. */
  #isCut = false;

  constructor(hosts: readonly string[]) {
    this.#hosts = hosts;
  }

  /** Takes a piece of text. Returns the sections that are whole. */
  push(delta: string): string {
    this.#section += delta;
    let out = "";
    for (;;) {
      if (this.#isAtSection()) {
        out += this.#take(this.#lineStart);
        this.#isCut = false;
      }
      const newline = this.#section.indexOf("\n", this.#lineStart);
      const end = newline < 0 ? this.#section.length : newline;
      if (end >= MAX_SECTION) {
        out += this.#take(MAX_SECTION);
        this.#isCut = true;
      } else if (newline < 0) return out;
      else this.#endLine(newline);
    }
  }

  /** Returns what is left at the end of the text. */
  end(): string {
    return this.#take(this.#section.length);
  }

  #isAtSection(): boolean {
    const isOpen = this.#fence !== undefined || this.#htmlEnd !== undefined;
    return !isOpen && this.#isAfterBlank && /\S/.test(this.#section.charAt(this.#lineStart));
  }

  #endLine(newline: number): void {
    const line = this.#section.slice(this.#lineStart, newline);
    this.#lineStart = newline + 1;
    this.#isAfterBlank = line.trim() === "";
    if (this.#fence !== undefined) {
      if (FENCE_END.exec(line)?.[1]?.startsWith(this.#fence)) this.#fence = undefined;
    } else if (this.#htmlEnd) {
      if (this.#htmlEnd.test(line)) this.#htmlEnd = undefined;
    } else {
      this.#fence = FENCE.exec(line)?.[1];
      this.#htmlEnd = getHtmlEnd(line);
    }
  }

  #take(length: number): string {
    const text = this.#section.slice(0, length);
    this.#section = this.#section.slice(length);
    this.#lineStart = 0;
    this.#isAfterBlank = false;
    const mask = this.#isCut ? text : maskCode(text);
    const cleaned = removeLinks({ text, mask }, (address) => isAllowed(address, this.#hosts));
    this.removed += cleaned.removedLinks;
    return cleaned.text;
  }
}
