import { disarm, Disarmer } from "./disarm.ts";

/** `[text](address "title")`, an image's too; addresses without white space. */
const LINK = /!?\[([^\]]{0,1000})\]\(\s*<?([^\s)>]{1,2000})>?(?:\s+[^)]{0,1000})?\)/g;
const REFERENCE = /^[ \t]*\[[^\]]{1,1000}\]:[ \t]*<?(\S+?)>?(?:[ \t].*)?$/gm;
const BARE = /<?\b((?:https?|ftp):\/\/[^\s<>"')\]]+|www\.[^\s<>"')\]]+)>?/gi;

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

/** Whether `hooks.allowedLinkHosts` has a host: by its name, or by `*.` and a domain above it. */
export const isAllowedHost = (host: string, hosts: readonly string[]): boolean =>
  hosts.some(
    (allowed) =>
      host === allowed.toLowerCase() ||
      (allowed.startsWith("*.") && host.endsWith(allowed.slice(1).toLowerCase())),
  );

type IsAllowed = (address: string) => boolean;

function isAllowed(address: string, hosts: readonly string[]): boolean {
  const host = getHost(address);
  // A relative address leads nowhere outside.
  if (host === undefined)
    return !/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith("mailto:");
  return isAllowedHost(host, hosts);
}

function removeLinks(text: string, isKept: IsAllowed): { text: string; removedLinks: number } {
  let removedLinks = 0;
  const removed = (label: string): string => {
    removedLinks++;
    return label;
  };
  const cleaned = text
    .replace(LINK, (all, label: string, address: string) =>
      isKept(address) ? all : removed(label),
    )
    .replace(REFERENCE, (all, address: string) => (isKept(address) ? all : removed("")))
    .replace(BARE, (all, address: string) => (isKept(address) ? all : removed("[link removed]")));
  return { text: cleaned, removedLinks };
}

/** Removes links to some hosts, and what else names these hosts. `hosts` are in ASCII and lower case. */
export function removeLinksTo(text: string, hosts: readonly string[]): string {
  const { text: cleaned } = removeLinks(
    text,
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

/**
 * A reply as it may leave: without images and HTML, so that no client fetches or runs anything; with a list of hosts,
 * links to others are removed and counted.
 */
export function cleanReply(
  text: string,
  allowedHosts?: readonly string[],
): { text: string; removedLinks: number } {
  // What is left when links are gone may be an image again, so these are looked for last.
  const linked = allowedHosts
    ? removeLinks(text, (address) => isAllowed(address, allowedHosts))
    : { text, removedLinks: 0 };
  return { ...linked, text: disarm(linked.text) };
}

/** A link that goes on longer than this does not hold a stream up. */
const MAX_HELD = 4000;
const WHOLE_LINK = new RegExp(LINK.source, "y");
/** What may still become a link. */
const OPEN_LINK = /^\[[^\]]*(?:\](?:\([^)]*)?)?$/;

/** Up to where links are known: the beginning of a line after which no link goes on. */
function settledLength(text: string): number {
  const end = text.lastIndexOf("\n") + 1;
  const head = text.slice(0, end);
  /** Where the lines begin at which nothing is open. */
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

/** `cleanReply` for a text that comes in pieces: nothing goes out of which it is not clear yet what it becomes. */
export function createReplyCleaner(allowedHosts?: readonly string[]): {
  push(delta: string): string;
  end(): string;
} {
  const disarmer = new Disarmer();
  let held = "";
  const take = (length: number, hosts: readonly string[]): string => {
    const text = held.slice(0, length);
    held = held.slice(length);
    return disarmer.push(removeLinks(text, (address) => isAllowed(address, hosts)).text);
  };
  return {
    push(delta) {
      if (!allowedHosts) return disarmer.push(delta);
      held += delta;
      const out = take(settledLength(held), allowedHosts);
      return held.length <= MAX_HELD ? out : out + take(held.length, allowedHosts);
    },
    end: () => (allowedHosts ? take(held.length, allowedHosts) : "") + disarmer.end(),
  };
}
