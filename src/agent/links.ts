/** `![alt](address)` and `[text](address "title")`; addresses without white space. */
const IMAGE = /!\[([^\]]*)\]\(\s*<?([^\s)>]+)>?(?:\s+[^)]*)?\)/g;
const LINK = /\[([^\]]*)\]\(\s*<?([^\s)>]+)>?(?:\s+[^)]*)?\)/g;
const REFERENCE = /^[ \t]*\[[^\]]+\]:[ \t]*<?(\S+?)>?(?:[ \t].*)?$/gm;
const BARE = /<?\b((?:https?|ftp):\/\/[^\s<>"')\]]+|www\.[^\s<>"')\]]+)>?/gi;

function hostOf(address: string): string | undefined {
  try {
    return new URL(
      address.startsWith("www.") || address.startsWith("//") ? `https://${address.replace(/^\/\//, "")}` : address,
    ).hostname.toLowerCase();
  } catch {
    return undefined;
  }
}

function isAllowed(address: string, hosts: readonly string[]): boolean {
  const host = hostOf(address);
  // A relative address leads nowhere outside.
  if (host === undefined) return !/^[a-z][a-z0-9+.-]*:/i.test(address) || address.startsWith("mailto:");
  return hosts.some(
    (allowed) => host === allowed.toLowerCase() || (allowed.startsWith("*.") && host.endsWith(allowed.slice(1).toLowerCase())),
  );
}

/**
 * A reply as it may leave: images become their addresses as text, so that no client fetches them; with a list of
 * hosts, links to others are removed and counted.
 */
export function cleanReply(text: string, allowedHosts?: readonly string[]): { text: string; removedLinks: number } {
  const plain = text.replace(IMAGE, (_all, alt: string, address: string) => (alt ? `${alt} (${address})` : address));
  if (!allowedHosts) return { text: plain, removedLinks: 0 };
  let removedLinks = 0;
  const removed = (label: string): string => {
    removedLinks++;
    return label;
  };
  const cleaned = plain
    .replace(LINK, (all, label: string, address: string) => (isAllowed(address, allowedHosts) ? all : removed(label)))
    .replace(REFERENCE, (all, address: string) => (isAllowed(address, allowedHosts) ? all : removed("")))
    .replace(BARE, (all, address: string) => (isAllowed(address, allowedHosts) ? all : removed("[link removed]")));
  return { text: cleaned, removedLinks };
}

/** A picture or a link that goes on longer than this does not hold a stream up. */
const MAX_HELD = 4000;
/** What may still become a picture, or a link. */
const OPEN_IMAGE = /^!\[[^\]]*(?:\](?:\([^)]*)?)?$/;
const OPEN_LINK = /^!?\[[^\]]*(?:\](?:\([^)]*)?)?$/;
const IMAGES = { begin: "![", whole: new RegExp(IMAGE.source, "y"), open: OPEN_IMAGE };
const LINKS = { begin: "[", whole: new RegExp(LINK.source, "y"), open: OPEN_LINK };

/** Up to where a text may go out: what follows may still become a picture or, where lines are held, a link. */
function settledLength(text: string, byLine: boolean): number {
  const { begin, whole, open } = byLine ? LINKS : IMAGES;
  const end = byLine ? text.lastIndexOf("\n") + 1 : text.length - (text.endsWith("!") ? 1 : 0);
  const head = text.slice(0, end);
  /** Where the lines begin at which nothing is open. */
  let safe = 0;
  let past = 0;
  for (let at = head.indexOf(begin); at >= 0; at = head.indexOf(begin, past)) {
    const line = head.lastIndexOf("\n", at) + 1;
    if (line >= past) safe = line;
    whole.lastIndex = at;
    if (whole.test(head)) past = whole.lastIndex;
    else if (open.test(head.slice(at))) return byLine ? safe : at;
    else past = at + 1;
  }
  return end;
}

/** `cleanReply` for a text that comes in pieces: nothing goes out of which it is not clear yet what it becomes. */
export function createReplyCleaner(allowedHosts?: readonly string[]): { push(delta: string): string; end(): string } {
  let held = "";
  const take = (length: number): string => {
    const text = held.slice(0, length);
    held = held.slice(length);
    return cleanReply(text, allowedHosts).text;
  };
  return {
    push(delta) {
      held += delta;
      const out = take(settledLength(held, allowedHosts !== undefined));
      if (held.length <= MAX_HELD) return out;
      // A beginning that never ends is no picture any more once its mark is gone.
      held = held.replace(/^!/, "");
      return out + take(held.length);
    },
    end: () => take(held.length),
  };
}
