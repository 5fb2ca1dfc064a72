import { BlockList, isIP } from "node:net";

/** A list of addresses and CIDR ranges, checked when the config is loaded. */
export interface AddressList {
  has(address: string): boolean;
}

const family = (address: string): "ipv4" | "ipv6" => (isIP(address) === 6 ? "ipv6" : "ipv4");

/**
 * Compiles addresses such as `10.0.0.1`, `10.0.0.0/8`, `::1`.
 * @returns the list, and each entry that is neither an address nor a range.
 */
export function createAddressList(entries: readonly string[]): {
  list: AddressList;
  wrong: string[];
} {
  const block = new BlockList();
  const wrong: string[] = [];
  for (const entry of entries) {
    const [address = "", bits, ...rest] = entry.split("/");
    const widest = isIP(address) === 6 ? 128 : 32;
    if (
      isIP(address) === 0 ||
      rest.length > 0 ||
      (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= widest))
    )
      wrong.push(entry);
    else if (bits === undefined) block.addAddress(address, family(address));
    else block.addSubnet(address, Number(bits), family(address));
  }
  return {
    list: {
      // An IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) is in the ranges of IPv4.
      has: (address) => isIP(address) !== 0 && block.check(address, family(address)),
    },
    wrong,
  };
}

/** Addresses that are not out on the internet: this machine, private networks, link-local, shared, test and multicast ranges. */
const PRIVATE: readonly string[] = [
  ..."0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.168.0.0/16".split(
    " ",
  ),
  ..."198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4".split(" "),
  ..."::/127 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/32 2001:db8::/32 2002::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8".split(
    " ",
  ),
];
/** Made when the first name has been looked up. */
let privateList: AddressList | undefined;
const isPrivate = (address: string): boolean =>
  (privateList ??= createAddressList(PRIVATE).list).has(address);

/** Hosts that the operator has listed, by name or by address. */
export type HostList = ReturnType<typeof createHostList>;

/** Compiles entries such as `example.com`, `*.example.com` (any depth below), `10.0.0.0/8`, `127.0.0.1`. */
export function createHostList(entries: readonly string[]) {
  const isAddress = (entry: string): boolean => isIP(entry.split("/")[0] ?? "") !== 0;
  const { list } = createAddressList(entries.filter(isAddress));
  const names = entries.filter((entry) => !isAddress(entry)).map((entry) => entry.toLowerCase());
  const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, "").toLowerCase();
  return {
    /** True if a host of an address may be called at all. */
    allows(hostname: string): boolean {
      const host = bare(hostname);
      if (isIP(host) !== 0) return list.has(host);
      return names.some((name) =>
        name.startsWith("*.") ? host.endsWith(name.slice(1)) : host === name,
      );
    },
    /** Returns whether an address that a name was resolved to may be called. Private addresses must be listed as such. */
    allowsAddress: (address: string): boolean =>
      list.has(address) || (isIP(address) !== 0 && !isPrivate(address)),
  };
}

/** True for names that only reach this machine. */
export function isLoopback(host: string): boolean {
  return (
    host === "localhost" ||
    host.endsWith(".localhost") ||
    host === "::1" ||
    host === "[::1]" ||
    /^127(?:\.\d{1,3}){3}$/.test(host)
  );
}
