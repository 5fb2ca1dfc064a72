import { describeShortSecret } from "../../core/secret.ts";
import { hash } from "node:crypto";
import type { DuplicateRule, Scheme, SignatureSource } from "../../config/schema/signature.ts";
import type { Issue } from "../../core/errors.ts";
import { compileSecret, toSecretForm, type SecretCheck } from "./algorithms.ts";
import { createCertificateCheck } from "./certificate.ts";
import { createOidcCheck } from "./oidc.ts";
import {
  coversId,
  getDuplicate,
  getDuplicateRule,
  signsRequest,
  withRetryWindow,
} from "./duplicate.ts";
import { compileSigned, type SignedParts, type SignedText } from "./signed.ts";
import type {
  CompiledVerifier,
  RefusalReason,
  RequestHead,
  SchemeNames,
  SignedRequest,
  Verified,
  Verifier,
  VerifierCheck,
  VerifierOptions,
} from "./types.ts";
import { timeProblem } from "./time.ts";
import { createBody, getFirst, getValue, getValues, isForm, NO_BODY, type Body } from "./values.ts";

interface CompiledSecret extends SecretCheck {
  /** Signatures of this secret's kind begin so; undefined: all count. */
  signaturePrefix: string | undefined;
}

/** Senders send one signature, or two while a secret is rotated. Each one more costs a comparison with each secret. */
const MAX_SIGNATURES = 8;

function presenceProblem(presented: readonly unknown[]): RefusalReason | undefined {
  if (presented.length === 0) return "no_signature";
  return presented.length > MAX_SIGNATURES ? "too_many_signatures" : undefined;
}

const refused = (reason: RefusalReason): Verified => ({ ok: false, reason });

function compileSecrets(
  scheme: Scheme,
  secrets: readonly string[],
  at: string,
  issues: Issue[],
): CompiledSecret[] {
  return secrets.flatMap((given, index): CompiledSecret[] => {
    const path = secrets.length === 1 ? at : `${at}[${index}]`;
    if (given.length < scheme.minSecret)
      issues.push({ path, message: describeShortSecret(given, scheme.minSecret) });
    const { algorithm, key, text, signaturePrefix } = toSecretForm(scheme, given);
    if (algorithm === "oidc" || algorithm === "x509") return [];
    const made = compileSecret(algorithm, text, key, scheme.encoding);
    if (made.ok) return [{ ...made.check, signaturePrefix }];
    issues.push({ path, message: made.message });
    return [];
  });
}

const PORTS: Record<string, string> = { http: ":80", https: ":443" };

/** An address without its port and with it, be it the default: which of them a sender signs depends on its version. */
function withAndWithoutPort(address: string): string[] {
  const [, scheme = "", host = "", port] =
    /^(https?):\/\/([^/?#]+?)(:\d+)?(?=[/?#]|$)/i.exec(address) ?? [];
  const start = `${scheme}://${host}`;
  const rest = address.slice(start.length + (port?.length ?? 0));
  return [start + rest, start + (port ?? PORTS[scheme.toLowerCase()] ?? "") + rest];
}

/** Says why a request has no signature. A sender without the secret still sends the headers that describe its events. */
function whyNoSignature({ keepHeaders = [] }: Scheme, { headers }: RequestHead): RefusalReason {
  const isSender = keepHeaders.some((name) => headers[name.toLowerCase()] !== undefined);
  return isSender ? "not_signed" : "no_signature";
}

/** Returns the signatures that may be of a secret, without the prefix that names its kind. */
function getOwnSignatures(
  presented: readonly string[],
  { signaturePrefix }: CompiledSecret,
  { variants }: Scheme,
): readonly string[] {
  if (variants === undefined) return presented;
  if (signaturePrefix === undefined) return [];
  return presented
    .filter((text) => text.startsWith(signaturePrefix))
    .map((text) => text.slice(signaturePrefix.length));
}

function bodyHashFits({ bodyHash }: Scheme, request: SignedRequest, body: Body): boolean {
  if (!bodyHash) return true;
  const given = getValue(bodyHash, request, body);
  // Without the hash only a form, or nothing at all, is covered by the signature.
  if (given === undefined) return isForm(request) || request.raw.length === 0;
  return given.toLowerCase() === hash("sha256", request.raw, "hex");
}

/** Names the headers that the signature covers. */
function getCoveredHeaders({ timestamp, id = [] }: Scheme, { headers, names }: SignedText) {
  if (!names.has("timestamp") && !names.has("id")) return headers;
  const sources = [timestamp?.at, ...id];
  return [...headers, ...sources.flatMap((source) => source?.header?.toLowerCase() ?? [])];
}

/** Checks signatures of the signed text by the secrets that the sender and the config share. */
function createSecretCheck(
  scheme: Scheme,
  duplicate: DuplicateRule,
  secrets: readonly CompiledSecret[],
  { names, headers, pieces }: SignedText,
): VerifierCheck {
  const { signature, timestamp: time } = scheme;
  const needsUrl = ["url", "decodedUrl", "path"].some((name) => names.has(name));
  // A time inside the body counts only once the signature has said that the body is the sender's.
  const isTimeInBody = time?.at.body !== undefined;

  /** Returns the index of the secret that fits, or -1. */
  const match = (parts: SignedParts, presented: readonly string[], now: number): number => {
    const { request } = parts;
    const urls = needsUrl ? withAndWithoutPort(request.url) : [request.url];
    const texts = urls.map((url) => pieces({ ...parts, request: { ...request, url } }));
    let found = -1;
    // All secrets are tried, so that the time does not show which one matched.
    for (const [index, secret] of secrets.entries()) {
      const own = getOwnSignatures(presented, secret, scheme);
      if (texts.some((text) => secret.matches(text, own, now)) && found < 0) found = index;
    }
    return found;
  };

  return {
    needsUrl,
    coveredHeaders: getCoveredHeaders(scheme, { names, headers, pieces }),
    precheck(head, now) {
      const request = { ...head, raw: NO_BODY };
      const body = createBody(request);
      if (signature.body === undefined) {
        const problem = presenceProblem(getValues(signature, request, body));
        if (problem) return problem === "no_signature" ? whyNoSignature(scheme, head) : problem;
      }
      return isTimeInBody
        ? undefined
        : timeProblem(time, time && getValue(time.at, request, body), now);
    },
    verify(request, now) {
      const body = createBody(request);
      const presented = getValues(signature, request, body);
      const problem = presenceProblem(presented);
      if (problem) return refused(problem);
      // A list with a missing entry is not a list of signatures.
      if (presented.includes(undefined)) return refused("wrong_signature");
      const timestamp =
        time && (!isTimeInBody || names.has("timestamp"))
          ? getValue(time.at, request, body)
          : undefined;
      const early = isTimeInBody ? undefined : timeProblem(time, timestamp, now);
      if (early) return refused(early);
      const id = scheme.id && names.has("id") ? getFirst(scheme.id, request, body) : "";
      if (id === undefined) return refused("no_signature");
      const secret = match({ request, timestamp: timestamp ?? "", id }, presented as string[], now);
      if (secret < 0) return refused("wrong_signature");
      const late = isTimeInBody
        ? timeProblem(time, getValue(time.at, request, body), now)
        : undefined;
      if (late) return refused(late);
      if (!bodyHashFits(scheme, request, body)) return refused("wrong_body_hash");
      return { ok: true, secret, duplicate: getDuplicate(duplicate, scheme, request, body) };
    },
  };
}

function getNames(sources: readonly (SignatureSource | undefined)[]) {
  const headers = sources.flatMap((source) => source?.header?.toLowerCase() ?? []);
  return { headers, query: sources.flatMap((source) => source?.query ?? []) };
}

/**
 * Returns the headers and parameters that a scheme reads as data, and those that carry its credential; `readsBody` is true if it
 * reads fields of the body too.
 */
function getSchemeNames(scheme: Scheme): SchemeNames {
  const { headers, query } = getNames([
    scheme.timestamp?.at,
    ...(scheme.id ?? []),
    scheme.bodyHash,
  ]);
  const signed = [...scheme.signed.matchAll(/\{header:([^}]+)\}/g)].map((found) => found[1] ?? "");
  const data = {
    headers: [
      ...headers,
      ...[...signed, ...(scheme.keepHeaders ?? [])].map((name) => name.toLowerCase()),
    ],
    query,
  };
  const credentials = getNames([scheme.signature]);
  credentials.query.push(...scheme.handshakes.flatMap(({ when }) => when.verifyToken ?? []));
  const sources = [scheme.signature, scheme.timestamp?.at, ...(scheme.id ?? [])];
  const readsBody =
    sources.some((source) => source?.body !== undefined) ||
    scheme.algorithm === "x509" ||
    scheme.handshakes.some(({ signed, when }) => signed && when.body !== undefined);
  return { data, credentials, readsBody };
}

const hasSecrets = ({ algorithm }: Scheme): boolean => algorithm !== "oidc" && algorithm !== "x509";

/** Creates the check of a scheme by its kind. Adds what is wrong to `issues`. */
function createCheck(
  scheme: Scheme,
  duplicate: DuplicateRule,
  signed: ReturnType<typeof compileSigned>,
  options: VerifierOptions,
  issues: Issue[],
): VerifierCheck | undefined {
  if (scheme.algorithm === "oidc") return createOidcCheck(scheme, duplicate, options, issues);
  if (scheme.algorithm === "x509")
    return createCertificateCheck(scheme, duplicate, options, issues);
  const { secrets } = options;
  const at = `${options.at}.secret`;
  if (secrets.length === 0) issues.push({ path: at, message: "is required" });
  // While the secret is pending, only the handshake is answered.
  const usable = secrets.filter((secret) => secret !== "pending");
  const compiled = compileSecrets(scheme, usable, at, issues);
  return signed.ok ? createSecretCheck(scheme, duplicate, compiled, signed.text) : undefined;
}

/** Compiles the verifier of a scheme and its secrets, or returns all problems together. */
export function compileVerifier(options: VerifierOptions): CompiledVerifier {
  const { scheme: given, secrets, auth } = options;
  const at = `${options.at}.secret`;
  const issues: Issue[] = [];
  if (
    given.handshakes.some(
      (handshake) => handshake.confirm && !(handshake.signed && given.algorithm === "x509"),
    )
  )
    issues.push({
      path: at,
      message: "the scheme confirms a handshake that is not signed by a certificate",
    });
  const signed = compileSigned(given.signed);
  if (!signed.ok)
    issues.push({
      path: at,
      message: `the scheme's \`signed\` has no placeholder {${signed.wrong}}`,
    });
  const duplicate = getDuplicateRule(given, auth.duplicate);
  if (duplicate === "id" && !given.id)
    issues.push({
      path: auth.duplicate === undefined ? at : `${options.at}.duplicate`,
      message:
        'is "id", and the scheme names no `id`: say where the sender\'s id of the event stands, or use { by: "body", for: "10m" } or "none"',
    });
  const isCopySafe = duplicate === "id" && signed.ok && coversId(given, signed.text);
  const scheme = isCopySafe ? withRetryWindow(given) : given;
  const check = createCheck(scheme, duplicate, signed, options, issues);
  if (issues.length > 0 || !check) return { ok: false, issues };
  const verifier: Verifier = {
    coveredHeaders: [],
    needsUrl: false,
    ...check,
    handshakes: scheme.handshakes,
    sender: scheme.sender,
    duplicate,
    names: getSchemeNames(scheme),
    secrets: hasSecrets(scheme) ? secrets : [],
    verifyToken: auth.verifyToken,
    wantsVerifyToken: scheme.handshakes.some(({ when }) => when.verifyToken !== undefined),
    coversNothing: !signsRequest(scheme),
    anyAccount: scheme.algorithm === "oidc" && auth.email === undefined,
  };
  return { ok: true, verifier };
}
