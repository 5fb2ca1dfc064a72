import { BlockList, isIP } from "node:net";

/** A list of addresses and CIDR ranges, checked when the config is loaded. */
export interface AddressList {
  has(address: string): boolean;
}

const plain = (address: string): string => (address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address);
const family = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4");

/**
 * Compiles addresses such as `10.0.0.1`, `10.0.0.0/8`, `::1`.
 * @returns the list, and each entry that is neither an address nor a range.
 */
export function createAddressList(entries: readonly string[]): { list: AddressList; wrong: string[] } {
  const block = new BlockList();
  const wrong: string[] = [];
  for (const entry of entries) {
    const [address = "", bits, ...rest] = entry.split("/");
    const widest = isIP(address) === 6 ? 128 : 32;
    if (isIP(address) === 0 || rest.length > 0 || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= widest)))
      wrong.push(entry);
    else if (bits === undefined) block.addAddress(address, family(address));
    else block.addSubnet(address, Number(bits), family(address));
  }
  return { list: { has: (address) => isIP(plain(address)) !== 0 && block.check(plain(address), family(plain(address))) }, wrong };
}

/**
 * The caller's address: the connection's own, or, where that is a trusted proxy, the last entry of
 * `X-Forwarded-For` that is not one.
 */
export function clientAddress(peer: string, forwardedFor: string | undefined, trusted: AddressList | undefined): string {
  const connection = plain(peer);
  if (!trusted || forwardedFor === undefined || !trusted.has(connection)) return connection;
  const chain = forwardedFor.split(",").map((entry) => plain(entry.trim()));
  for (const address of chain.toReversed()) {
    if (isIP(address) === 0) return connection;
    if (!trusted.has(address)) return address;
  }
  return chain[0] ?? connection;
}

/** True for names that only reach this machine. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || host === "::1" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(host);
}
