import { X509Certificate, type KeyObject, verify as verifySignature } from "node:crypto";
import type { DuplicateRule, Scheme } from "../../config/schema/signature.ts";
import type { Issue } from "../../core/errors.ts";
import { decodeSignature } from "./algorithms.ts";
import { getDuplicate } from "./duplicate.ts";
import { timeProblem } from "./time.ts";
import type {
  RefusalReason,
  SignedRequest,
  Verified,
  VerifierCheck,
  VerifierOptions,
} from "./types.ts";
import { createBody, getValue } from "./values.ts";

const REGION = "[a-z]{2}(?:-[a-z]+)+-\\d";
const MAX_URL = 2048;
const MAX_BYTES = 64 * 1024;
const FETCH_MS = 5_000;
/** Certificates that are kept; senders replace theirs about once a year. */
const MAX_KEPT = 16;
/** The maximum of requests to a sender's hosts in a minute. Any caller can name addresses on these hosts. */
const MAX_FETCHES = 10;
const MINUTE_MS = 60_000;

/**
 * The reason for a failed fetch: `refused` for good, since the address is not allowed or answers 3xx or 4xx; or
 * `unavailable` for now.
 */
type NotFetched = "refused" | "unavailable";

/**
 * Makes the access to a sender's hosts: HTTPS without user and port, no redirect, bounded in time and size. Returns the
 * function that gets the body of a 2xx answer of at most 64 KB, and never throws.
 */
function createSenderFetch(hosts: readonly string[], fetchFrom: typeof fetch) {
  const patterns = hosts.map(
    (host) =>
      new RegExp(
        `^${host
          .split("{region}")
          .map((text) => RegExp.escape(text))
          .join(REGION)}$`,
      ),
  );
  return async (address: string): Promise<Buffer | NotFetched> => {
    if (address.length > MAX_URL || !URL.canParse(address)) return "refused";
    const { hostname, href } = new URL(address);
    // The parsed address must be the written one: no user, no port, no other spelling.
    if (
      !address.startsWith(`https://${hostname}/`) ||
      !patterns.some((pattern) => pattern.test(hostname))
    )
      return "refused";
    try {
      // A redirect comes back as it is, and is not followed.
      const response = await fetchFrom(href, {
        redirect: "manual",
        signal: AbortSignal.timeout(FETCH_MS),
      });
      if (!response.ok)
        return response.status >= 500 || response.status === 429 ? "unavailable" : "refused";
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
  };
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

/**
 * Creates the cache of a sender's certificates, by address. Returns the function that gets the RSA key of a certificate that
 * is valid now, fetched if it is not known. It never throws.
 */
function createCertificates(get: ReturnType<typeof createSenderFetch>) {
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
    const loading = get(address)
      .then(parseCertificate)
      .finally(() => pending.delete(address));
    pending.set(address, loading);
    return loading;
  };

  return async (address: string, now: number): Promise<KeyObject | NotFetched> => {
    if (!isPem(address)) return "refused";
    const found = kept.get(address) ?? (await load(address, now));
    if (typeof found === "string") return found;
    if (now < Date.parse(found.validFrom) || now > Date.parse(found.validTo)) return "refused";
    keep(address, found);
    return found.publicKey;
  };
}

const refused = (reason: RefusalReason): Verified => ({ ok: false, reason });

/** The signed fields as one text: each name and value on lines of their own. Undefined: a field is no text. */
function signedText(json: unknown, names: readonly string[]): Buffer | undefined {
  if (typeof json !== "object" || json === null) return undefined;
  const fields = names
    .filter((name) => Object.hasOwn(json, name))
    .map((name) => [name, (json as Record<string, unknown>)[name]] as const);
  if (fields.some(([, value]) => typeof value !== "string")) return undefined;
  return Buffer.from(fields.map(([name, value]) => `${name}\n${value as string}\n`).join(""));
}

/**
 * Checks a signature over named fields of the body, by the RSA key (PKCS #1 v1.5) of a certificate that the body points to
 * and that is fetched from the sender's hosts. The certificate signs for every customer of the sender, so the topic is checked too.
 */
export function createCertificateCheck(
  scheme: Scheme,
  duplicate: DuplicateRule,
  { auth, at, fetch }: VerifierOptions,
  issues: Issue[],
): VerifierCheck | undefined {
  const { certificate } = scheme;
  const topics = new Set([auth.topicArn ?? []].flat());
  if (!certificate)
    issues.push({
      path: `${at}.secret`,
      message: "the scheme has the algorithm `x509` and no `certificate` section",
    });
  if (topics.size === 0)
    issues.push({
      path: `${at}.topicArn`,
      message:
        "is required: the topic whose messages are accepted, because the sender signs those of every topic alike",
    });
  if (!certificate || issues.length > 0) return undefined;
  const get = createSenderFetch(certificate.hosts, fetch);
  const getKey = createCertificates(get);

  const verify = async (request: SignedRequest, now: number): Promise<Verified> => {
    const body = createBody(request);
    const read = (source: Parameters<typeof getValue>[0]): string | undefined =>
      getValue(source, request, body);
    const signature = decodeSignature(read(scheme.signature) ?? "", scheme.encoding);
    if (!signature || signature.length === 0) return refused("no_signature");
    // Everything that needs no certificate is checked first: a forged message must not start a request of ours.
    if (!topics.has(read(certificate.topic) ?? "")) return refused("wrong_topic");
    const problem = timeProblem(
      scheme.timestamp,
      scheme.timestamp && read(scheme.timestamp.at),
      now,
    );
    if (problem) return refused(problem);
    const { digest, fields } = certificate;
    const names = new Map(Object.entries(fields.values)).get(read(fields.at) ?? "");
    const hash = new Map(Object.entries(digest.values)).get(read(digest.at) ?? "");
    const text = names && signedText(body(), names);
    if (!text || !hash) return refused("wrong_signature");
    const key = await getKey(read(certificate.url) ?? "", now);
    if (key === "unavailable") return refused("certificate_unavailable");
    if (key === "refused") return refused("wrong_certificate");
    if (!verifySignature(hash, text, key, signature)) return refused("wrong_signature");
    return { ok: true, secret: 0, duplicate: getDuplicate(duplicate, scheme, request, body) };
  };
  return {
    verify,
    // All of the signature is in the body.
    precheck: () => undefined,
    confirm: async (url) => Buffer.isBuffer(await get(url)),
  };
}
