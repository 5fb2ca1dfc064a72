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
export function isAllowed(address: string, hosts: readonly string[]): boolean {
  const host = getHost(address);
  // A relative address leads nowhere outside.
  if (host === undefined)
    return !/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith("mailto:");
  return isAllowedHost(host, hosts);
}

/** A text, and the same with another sign for each of its code: links are looked for in that. */
export interface Masked {
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

/** A link that goes on longer than this does not hold a stream up. */
export const MAX_HELD = 4000;
const WHOLE_LINK = new RegExp(LINK.source, "y");
/** Matches an end of text that may still become a link. */
const OPEN_LINK = /^\[[^\]]*(?:\](?:\([^)]*)?)?$/;

/** Returns up to where links are known: the beginning of a line after which no link goes on. */
export function settledLength(text: string): number {
  const end = text.lastIndexOf("\n") + 1;
  const head = text.slice(0, end);
  /** The beginning of the last line at which nothing is open. */
  let safe = 0;
  let past = 0;
  for (let at = head.indexOf("["); at >= 0; at = head.indexOf("[", past)) {
    const line = head.lastIndexOf("\n", at) + 1;
    if (line >= past) safe = line;
    WHOLE_LINK.lastIndex = at;
    if (WHOLE_LINK.test(head)) past = WHOLE_LINK.lastIndex;
    else if (OPEN_LINK.test(head.slice(at))) return safe;
    else past = at + 1;
  }
  return end;
}
