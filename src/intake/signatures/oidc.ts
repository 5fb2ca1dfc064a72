import type { JWTVerifyGetKey } from "jose";
import type { DuplicateRule, Scheme } from "../../config/schema/signature.ts";
import type { Issue } from "../../core/errors.ts";
import { sameSecret } from "../../core/secret.ts";
import { getDuplicate } from "./duplicate.ts";
import type { SignedRequest, Verified, VerifierCheck, VerifierOptions } from "./types.ts";
import { createBody, getValue, NO_BODY } from "./values.ts";

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
  { auth: { audience = "", email: account, jwks }, at, fetch }: VerifierOptions,
  issues: Issue[],
): VerifierCheck | undefined {
  const { oidc } = scheme;
  const fail = (path: string, message: string): undefined => void issues.push({ path, message });
  if (!oidc)
    return fail(`${at}.secret`, "the scheme has the algorithm `oidc` and no `oidc` section");
  if (audience === "")
    return fail(`${at}.audience`, "is required: the audience that the sender puts into its tokens");
  // Without an account the issuer must sign for the operator's own senders alone.
  if (account === undefined && !oidc.privateIssuer)
    return fail(
      `${at}.email`,
      "is required: the issuer signs tokens for everybody, and anyone can have one for your audience; name the account that sends",
    );
  let keys: JWTVerifyGetKey | undefined;

  const verify = async (request: SignedRequest, now: number): Promise<Verified> => {
    const body = createBody(request);
    const token = getValue(scheme.signature, request, body);
    if (token === undefined) return { ok: false, reason: "no_signature" };
    try {
      const { createRemoteJWKSet, customFetch, jwtVerify } = await import("jose");
      keys ??= createRemoteJWKSet(new URL(jwks ?? oidc.jwks), {
        cooldownDuration: COOLDOWN_MS,
        [customFetch]: fetch,
      });
      const { payload } = await jwtVerify(token, keys, {
        issuer: [...oidc.issuers],
        audience,
        algorithms: ["RS256", "ES256"],
        clockTolerance: CLOCK_SECONDS,
        requiredClaims: ["exp", "iat"],
        currentDate: new Date(now),
      });
      if (oidc.emailVerified && payload["email_verified"] !== true)
        return { ok: false, reason: "wrong_token" };
      const { email } = payload;
      if (account !== undefined && (typeof email !== "string" || !sameSecret(email, account)))
        return { ok: false, reason: "wrong_token" };
      return { ok: true, secret: 0, duplicate: getDuplicate(duplicate, scheme, request, body) };
    } catch {
      return { ok: false, reason: "wrong_token" };
    }
  };
  return {
    verify,
    precheck(head) {
      const request = { ...head, raw: NO_BODY };
      const token = getValue(scheme.signature, request, createBody(request));
      return token === undefined ? "no_signature" : undefined;
    },
  };
}
