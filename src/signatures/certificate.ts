import { verify as verifySignature } from "node:crypto";
import type { Scheme } from "../config/schema/signature.ts";
import type { Issue } from "../core/errors.ts";
import { decodeSignature } from "./algorithms.ts";
import { createCertificates, createSenderHosts } from "./certificates.ts";
import { getSchemeNames } from "./request-names.ts";
import { minKeepMs, timeProblem } from "./time.ts";
import type { CompiledVerifier, RefusalReason, SignedRequest, Verified, Verifier } from "./types.ts";
import { createBody, getValue } from "./values.ts";

export interface CertificateOptions {
  /** The topics whose messages are accepted. */
  topics: readonly string[];
  fetch: typeof fetch;
}

const refused = (reason: RefusalReason): Verified => ({ ok: false, reason });

/** The signed fields as one text: each name and value on lines of their own. Undefined: a field is no text. */
function signedText(json: unknown, names: readonly string[]): Buffer | undefined {
  if (typeof json !== "object" || json === null) return undefined;
  const fields = names.filter((name) => Object.hasOwn(json, name)).map((name) => [name, (json as Record<string, unknown>)[name]] as const);
  if (fields.some(([, value]) => typeof value !== "string")) return undefined;
  return Buffer.from(fields.map(([name, value]) => `${name}\n${value as string}\n`).join(""));
}

/**
 * Checks a signature over named fields of the body, by the RSA key (PKCS #1 v1.5) of a certificate that the body points to
 * and that is fetched from the sender's hosts. The certificate signs for every customer of the sender, so the topic is checked too.
 */
export function createCertificateCheck(scheme: Scheme, options: CertificateOptions | undefined, at: string): CompiledVerifier {
  const { certificate } = scheme;
  const issues: Issue[] = [];
  if (!certificate) issues.push({ path: at, message: "the scheme has the algorithm `x509` and no `certificate` section" });
  if (!options || options.topics.length === 0)
    issues.push({
      path: `${at.replace(/\.secret$/, "")}.topicArn`,
      message: "is required: the topic whose messages are accepted, because the sender signs those of every topic alike",
    });
  if (!certificate || !options || issues.length > 0) return { ok: false, issues };
  const hosts = createSenderHosts(certificate.hosts, options.fetch);
  const certificates = createCertificates(hosts);
  const topics = new Set(options.topics);

  const verify = async (request: SignedRequest, now: number): Promise<Verified> => {
    const body = createBody(request.raw);
    const read = (source: Parameters<typeof getValue>[0]): string | undefined => getValue(source, request, body);
    const signature = decodeSignature(read(scheme.signature) ?? "", scheme.encoding);
    if (!signature || signature.length === 0) return refused("no_signature");
    // Everything that needs no certificate is checked first: a forged message must not start a request of ours.
    if (!topics.has(read(certificate.topic) ?? "")) return refused("wrong_topic");
    const problem = timeProblem(scheme.timestamp, scheme.timestamp && read(scheme.timestamp.at), now);
    if (problem) return refused(problem);
    const { digest, fields } = certificate;
    const names = new Map(Object.entries(fields.values)).get(read(fields.at) ?? "");
    const hash = new Map(Object.entries(digest.values)).get(read(digest.at) ?? "");
    const text = names && signedText(body.json(), names);
    if (!text || !hash) return refused("wrong_signature");
    const key = await certificates.key(read(certificate.url) ?? "", now);
    if (key === "unavailable") return refused("certificate_unavailable");
    if (key === "refused") return refused("wrong_certificate");
    if (!verifySignature(hash, text, key, signature)) return refused("wrong_signature");
    const id = scheme.duplicate ? read(scheme.duplicate) : undefined;
    return {
      ok: true,
      secret: 0,
      duplicate: id === undefined || id.length > 256 ? undefined : { key: `id:${id}`, minKeepMs: minKeepMs(scheme.timestamp) },
    };
  };
  const verifier: Verifier = {
    verify,
    // All of the signature is in the body.
    precheck: () => undefined,
    handshakes: scheme.handshakes,
    sender: scheme.sender,
    names: getSchemeNames(scheme),
    secrets: [],
    verifyToken: undefined,
    wantsVerifyToken: false,
    coveredHeaders: [],
    anyAccount: false,
    coversNothing: false,
    needsUrl: false,
    confirm: async (url) => Buffer.isBuffer(await hosts.get(url)),
  };
  return { ok: true, verifier };
}
