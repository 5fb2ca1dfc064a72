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
