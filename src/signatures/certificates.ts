import { X509Certificate, type KeyObject } from "node:crypto";

const REGION = "[a-z]{2}(?:-[a-z]+)+-\\d";
const MAX_URL = 2048;
const MAX_BYTES = 64 * 1024;
const FETCH_MS = 5_000;
/** Certificates that are kept; senders replace theirs about once a year. */
const MAX_KEPT = 16;
/** The maximum of requests to a sender's hosts in a minute. Any caller can name addresses on these hosts. */
const MAX_FETCHES = 10;
const MINUTE_MS = 60_000;

/** What was not fetched: `refused` for good, since the address is not allowed or answers 3xx or 4xx; or `unavailable` for now. */
type NotFetched = "refused" | "unavailable";

/** The hosts of a sender, and what is fetched from them. */
interface SenderHosts {
  /** Returns the body of a 2xx answer of at most 64 KB. Never throws. */
  get(address: string): Promise<Buffer | NotFetched>;
}

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Makes the access to a sender's hosts: HTTPS without user and port, no redirect, bounded in time and size. */
export function createSenderHosts(hosts: readonly string[], fetchFrom: typeof fetch): SenderHosts {
  const patterns = hosts.map((host) => new RegExp(`^${host.split("{region}").map(escape).join(REGION)}$`));
  return {
    async get(address) {
      if (address.length > MAX_URL || !URL.canParse(address)) return "refused";
      const { hostname, href } = new URL(address);
      // What the parser made of the text must be what is written there: no user, no port, no other spelling.
      if (!address.startsWith(`https://${hostname}/`) || !patterns.some((pattern) => pattern.test(hostname))) return "refused";
      try {
        // A redirect comes back as it is, and is not followed.
        const response = await fetchFrom(href, { redirect: "manual", signal: AbortSignal.timeout(FETCH_MS) });
        if (!response.ok) return response.status >= 500 || response.status === 429 ? "unavailable" : "refused";
        const chunks: Uint8Array[] = [];
        let length = 0;
        for await (const chunk of response.body ?? []) {
          length += (chunk as Uint8Array).length;
          if (length > MAX_BYTES) return "refused";
          chunks.push(chunk as Uint8Array);
        }
        return Buffer.concat(chunks);
      } catch {
        return "unavailable";
      }
    },
  };
}

interface Certificates {
  /** The RSA key of a certificate that is valid now, fetched if it is not known. Never throws. */
  key(address: string, now: number): Promise<KeyObject | NotFetched>;
}

function parseCertificate(fetched: Buffer | NotFetched): X509Certificate | NotFetched {
  if (typeof fetched === "string") return fetched;
  try {
    const made = new X509Certificate(fetched);
    return made.publicKey.asymmetricKeyType === "rsa" ? made : "refused";
  } catch {
    return "refused";
  }
}

const isPem = (address: string): boolean => {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  return url !== undefined && url.pathname.endsWith(".pem") && url.search === "" && url.hash === "";
};

/** Creates the cache of a sender's certificates, by address. */
export function createCertificates(hosts: SenderHosts): Certificates {
  const kept = new Map<string, X509Certificate>();
  const pending = new Map<string, Promise<X509Certificate | NotFetched>>();
  let fetches: number[] = [];

  const keep = (address: string, found: X509Certificate): void => {
    kept.delete(address);
    kept.set(address, found);
    // The least recently used certificate is dropped.
    if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value as string);
  };

  const load = async (address: string, now: number): Promise<X509Certificate | NotFetched> => {
    const known = pending.get(address);
    if (known) return known;
    fetches = fetches.filter((at) => now - at < MINUTE_MS);
    if (fetches.length >= MAX_FETCHES) return "unavailable";
    fetches.push(now);
    const loading = hosts
      .get(address)
      .then(parseCertificate)
      .finally(() => pending.delete(address));
    pending.set(address, loading);
    return loading;
  };

  return {
    async key(address, now) {
      if (!isPem(address)) return "refused";
      const found = kept.get(address) ?? (await load(address, now));
      if (typeof found === "string") return found;
      if (now < Date.parse(found.validFrom) || now > Date.parse(found.validTo)) return "refused";
      keep(address, found);
      return found.publicKey;
    },
  };
}
