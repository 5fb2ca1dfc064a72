import { describeShortSecret } from "../../core/secret.ts";
import { hash } from "node:crypto";
import type { DuplicateRule, Scheme } from "../../config/schema/signature.ts";
import type { Issue } from "../../core/errors.ts";
import { compileSecret, toSecretForm, type SecretCheck } from "./algorithms.ts";
import { createCertificateCheck, type CertificateOptions } from "./certificate.ts";
import { createOidcCheck, type OidcOptions } from "./oidc.ts";
import {
  coversId,
  getDuplicate,
  getDuplicateRule,
  signsRequest,
  withRetryWindow,
} from "./duplicate.ts";
import { getSchemeNames } from "./request-names.ts";
import { compileSigned, type SignedText } from "./signed.ts";
import type {
  CompiledVerifier,
  RefusalReason,
  RequestHead,
  SignedRequest,
  Verified,
  Verifier,
} from "./types.ts";
import { timeProblem } from "./time.ts";
import { createBody, getFirst, getValue, getValues, type Body } from "./values.ts";

interface Check extends SecretCheck {
  /** Signatures of this secret's kind begin so; undefined: all count. */
  signaturePrefix: string | undefined;
}

const NO_BODY = Buffer.alloc(0);
/** Senders send one signature, or two while a secret is rotated. Each one more costs a comparison with each secret. */
const MAX_SIGNATURES = 8;

function presenceProblem(presented: readonly unknown[]): RefusalReason | undefined {
  if (presented.length === 0) return "no_signature";
  return presented.length > MAX_SIGNATURES ? "too_many_signatures" : undefined;
}

const refused = (reason: RefusalReason): Verified => ({ ok: false, reason });

function compileChecks(
  scheme: Scheme,
  secrets: readonly string[],
  at: string,
  issues: Issue[],
): Check[] {
  return secrets.flatMap((given, index): Check[] => {
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

interface Parts extends Pick<Verifier, "secrets" | "verifyToken" | "duplicate"> {
  scheme: Scheme;
  checks: readonly Check[];
  signed: SignedText;
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

class SchemeVerifier implements Verifier {
  readonly handshakes: Scheme["handshakes"];
  readonly sender: Scheme["sender"];
  readonly duplicate: DuplicateRule;
  readonly names: Verifier["names"];
  readonly secrets: readonly string[];
  readonly verifyToken: string | undefined;
  readonly wantsVerifyToken: boolean;
  readonly anyAccount = false;
  readonly coveredHeaders: readonly string[];
  readonly coversNothing: boolean;
  readonly needsUrl: boolean;
  readonly #scheme: Scheme;
  readonly #checks: readonly Check[];
  readonly #signed: SignedText;

  constructor({ scheme, secrets, verifyToken, duplicate, checks, signed }: Parts) {
    this.#scheme = scheme;
    this.duplicate = duplicate;
    this.#checks = checks;
    this.#signed = signed;
    this.handshakes = scheme.handshakes;
    this.sender = scheme.sender;
    this.names = getSchemeNames(scheme);
    this.secrets = secrets;
    this.verifyToken = verifyToken;
    this.wantsVerifyToken = scheme.handshakes.some(
      (handshake) => handshake.when.verifyToken !== undefined,
    );
    this.coversNothing = !signsRequest(scheme);
    this.needsUrl = ["url", "decodedUrl", "path"].some((name) => signed.names.has(name));
    const named = [scheme.timestamp?.at, ...(scheme.id ?? [])].flatMap((source) =>
      source?.header === undefined ? [] : [source.header.toLowerCase()],
    );
    const inText = (name: string): boolean => signed.names.has(name);
    this.coveredHeaders = [
      ...signed.headers,
      ...(inText("timestamp") || inText("id") ? named : []),
    ];
  }

  precheck(head: RequestHead, now: number): RefusalReason | undefined {
    const { signature, timestamp } = this.#scheme;
    const request = { ...head, raw: NO_BODY };
    const body = createBody(request);
    if (signature.body === undefined) {
      const problem = presenceProblem(getValues(signature, request, body));
      if (problem) return problem === "no_signature" ? this.#whyNoSignature(head) : problem;
    }
    if (!timestamp || timestamp.at.body !== undefined) return undefined;
    return timeProblem(timestamp, getValue(timestamp.at, request, body), now);
  }

  /** A sender that has not been given the secret still sends the headers that describe its events. */
  #whyNoSignature({ headers }: RequestHead): RefusalReason {
    const { keepHeaders = [] } = this.#scheme;
    const isSender = keepHeaders.some((name) => headers[name.toLowerCase()] !== undefined);
    return isSender ? "not_signed" : "no_signature";
  }

  verify(request: SignedRequest, now: number): Verified {
    const scheme = this.#scheme;
    const body = createBody(request);
    const presented = getValues(scheme.signature, request, body);
    const problem = presenceProblem(presented);
    if (problem) return refused(problem);
    // A list with a missing entry is not a list of signatures.
    if (presented.includes(undefined)) return refused("wrong_signature");
    const { timestamp: time } = scheme;
    const { names } = this.#signed;
    // A time inside the body counts only once the signature has said that the body is the sender's.
    const isInBody = time?.at.body !== undefined;
    const timestamp =
      time && (!isInBody || names.has("timestamp")) ? getValue(time.at, request, body) : undefined;
    const early = isInBody ? undefined : timeProblem(time, timestamp, now);
    if (early) return refused(early);
    const id = scheme.id && names.has("id") ? getFirst(scheme.id, request, body) : "";
    if (id === undefined) return refused("no_signature");
    const parts = { request, timestamp: timestamp ?? "", id };
    const secret = this.#match(parts, presented as string[], now);
    if (secret < 0) return refused("wrong_signature");
    const late = isInBody ? timeProblem(time, getValue(time.at, request, body), now) : undefined;
    if (late) return refused(late);
    if (!this.#bodyHashFits(request, body)) return refused("wrong_body_hash");
    return { ok: true, secret, duplicate: getDuplicate(this.duplicate, scheme, request, body) };
  }

  #match(
    parts: { request: SignedRequest; timestamp: string; id: string },
    presented: readonly string[],
    now: number,
  ): number {
    const texts = this.#addresses(parts.request.url).map((url) =>
      this.#signed.pieces({ ...parts, request: { ...parts.request, url } }),
    );
    let found = -1;
    // All secrets are tried, so that the time does not show which one matched.
    for (const [index, check] of this.#checks.entries()) {
      const { signaturePrefix } = check;
      const own =
        this.#scheme.variants === undefined
          ? presented
          : presented.flatMap((text) =>
              signaturePrefix === undefined
                ? []
                : text.startsWith(signaturePrefix)
                  ? [text.slice(signaturePrefix.length)]
                  : [],
            );
      if (texts.some((pieces) => check.matches(pieces, own, now)) && found < 0) found = index;
    }
    return found;
  }

  /** The forms of the address that may be signed. */
  #addresses(url: string): string[] {
    return this.needsUrl ? withAndWithoutPort(url) : [url];
  }

  #bodyHashFits(request: SignedRequest, body: Body): boolean {
    const { bodyHash } = this.#scheme;
    if (!bodyHash) return true;
    const given = getValue(bodyHash, request, body);
    const isForm = (request.headers["content-type"] ?? "")
      .toLowerCase()
      .startsWith("application/x-www-form-urlencoded");
    // Without the hash only a form, or nothing at all, is covered by the signature.
    if (given === undefined) return isForm || request.raw.length === 0;
    return given.toLowerCase() === hash("sha256", request.raw, "hex");
  }
}

export interface VerifierOptions {
  scheme: Scheme;
  secrets: readonly string[];
  /** The path of the secret in the config, for what is wrong with it. */
  at: string;
  verifyToken?: string | undefined;
  /** The path's own rule, instead of the scheme's. */
  duplicate?: DuplicateRule | undefined;
  oidc?: OidcOptions;
  certificate?: CertificateOptions;
}

/** Compiles the verifier of a scheme and its secrets, or returns all problems together. */
export function compileVerifier(options: VerifierOptions): CompiledVerifier {
  const { scheme: given, secrets, at, verifyToken, oidc, certificate } = options;
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
  const duplicate = getDuplicateRule(given, options.duplicate);
  if (duplicate === "id" && !given.id)
    issues.push({
      path: options.duplicate === undefined ? at : at.replace(/\.secret$/, ".duplicate"),
      message:
        'is "id", and the scheme names no `id`: say where the sender\'s id of the event stands, or use { by: "body", for: "10m" } or "none"',
    });
  const isCopySafe = duplicate === "id" && signed.ok && coversId(given, signed.text);
  const scheme = isCopySafe ? withRetryWindow(given) : given;
  if (scheme.algorithm === "oidc" || scheme.algorithm === "x509") {
    const made =
      scheme.algorithm === "oidc"
        ? createOidcCheck(scheme, duplicate, oidc, at)
        : createCertificateCheck(scheme, duplicate, certificate, at);
    return made.ok && issues.length === 0
      ? made
      : { ok: false, issues: [...issues, ...(made.ok ? [] : made.issues)] };
  }
  // While the secret is pending, only the handshake is answered.
  const usable = secrets.filter((secret) => secret !== "pending");
  if (secrets.length === 0) issues.push({ path: at, message: "is required" });
  const checks = compileChecks(scheme, usable, at, issues);
  if (issues.length > 0 || !signed.ok) return { ok: false, issues };
  return {
    ok: true,
    verifier: new SchemeVerifier({
      scheme,
      secrets,
      verifyToken,
      duplicate,
      checks,
      signed: signed.text,
    }),
  };
}
