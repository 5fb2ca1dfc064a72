import type { JWTVerifyGetKey } from "jose";
import { timingSafeEqual } from "node:crypto";
import type { DuplicateRule, Scheme } from "../../config/schema/signature.ts";
import { getDuplicate } from "./duplicate.ts";
import { getSchemeNames } from "./request-names.ts";
import type { CompiledVerifier, SignedRequest, Verified, Verifier } from "./types.ts";
import { createBody, getValue } from "./values.ts";

/** The claims that a token of OpenID Connect must have, besides its issuer. */
export interface OidcOptions {
  audience: string;
  /** The account that calls; undefined only for an issuer that signs for the operator's own senders alone. */
  email?: string | undefined;
  /** Another address of the issuer's keys, for tests and for the operator's own issuers. */
  jwks?: string | undefined;
  fetch: typeof fetch;
}

const CLOCK_SECONDS = 60;
/** The shortest interval between lookups of unknown keys, in milliseconds. */
const COOLDOWN_MS = 30_000;

/**
 * Checks a bearer token by the issuer's published keys (OpenID Connect Core 1.0, 3.1.3.7): signature by RS256 or ES256,
 * issuer, audience, time, and the account. The keys are fetched when first needed, and kept.
 */
export function createOidcCheck(
  scheme: Scheme,
  duplicate: DuplicateRule,
  options: OidcOptions | undefined,
  at: string,
): CompiledVerifier {
  const { oidc } = scheme;
  if (!oidc)
    return {
      ok: false,
      issues: [{ path: at, message: "the scheme has the algorithm `oidc` and no `oidc` section" }],
    };
  if (!options || options.audience === "")
    return {
      ok: false,
      issues: [
        {
          path: `${at.replace(/\.secret$/, "")}.audience`,
          message: "is required: the audience that the sender puts into its tokens",
        },
      ],
    };
  if (options.email === undefined && !oidc.privateIssuer) {
    const message =
      "is required: the issuer signs tokens for everybody, and anyone can have one for your audience; name the account that sends";
    return { ok: false, issues: [{ path: `${at.replace(/\.secret$/, "")}.email`, message }] };
  }
  let keys: JWTVerifyGetKey | undefined;

  const verify = async (request: SignedRequest, now: number): Promise<Verified> => {
    const body = createBody(request);
    const token = getValue(scheme.signature, request, body);
    if (token === undefined) return { ok: false, reason: "no_signature" };
    try {
      const { createRemoteJWKSet, customFetch, jwtVerify } = await import("jose");
      keys ??= createRemoteJWKSet(new URL(options.jwks ?? oidc.jwks), {
        cooldownDuration: COOLDOWN_MS,
        [customFetch]: options.fetch,
      });
      const { payload } = await jwtVerify(token, keys, {
        issuer: [...oidc.issuers],
        audience: options.audience,
        algorithms: ["RS256", "ES256"],
        clockTolerance: CLOCK_SECONDS,
        requiredClaims: ["exp", "iat"],
        currentDate: new Date(now),
      });
      if (oidc.emailVerified && payload["email_verified"] !== true)
        return { ok: false, reason: "wrong_token" };
      if (options.email !== undefined && !sameText(payload["email"], options.email))
        return { ok: false, reason: "wrong_token" };
      return { ok: true, secret: 0, duplicate: getDuplicate(duplicate, scheme, request, body) };
    } catch {
      return { ok: false, reason: "wrong_token" };
    }
  };
  const verifier: Verifier = {
    verify,
    precheck: (head) =>
      getValue(
        scheme.signature,
        { ...head, raw: Buffer.alloc(0) },
        createBody({ raw: Buffer.alloc(0), headers: {} }),
      ) === undefined
        ? "no_signature"
        : undefined,
    handshakes: scheme.handshakes,
    sender: scheme.sender,
    duplicate,
    names: getSchemeNames(scheme),
    secrets: [],
    verifyToken: undefined,
    wantsVerifyToken: false,
    coveredHeaders: [],
    coversNothing: true,
    anyAccount: options.email === undefined,
    needsUrl: false,
  };
  return { ok: true, verifier };
}

function sameText(left: unknown, right: string): boolean {
  if (typeof left !== "string") return false;
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}
