import type { JWTPayload, JWTVerifyGetKey } from "jose";
import {
  classifyError,
  retryAfter,
  classifyResponse,
  ChannelError,
  type ErrorRules,
} from "./errors.ts";

/** A token is renewed so long before it ends, so that none ends on its way. */
const SPARE_MS = 5 * 60_000;
const METADATA_MS = 24 * 3_600_000;
const CLOCK_TOLERANCE_S = 300;
const TIMEOUT_MS = 10_000;
const UNFETCHED = new Set(["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"]);

interface TokenOptions {
  fetch: typeof fetch;
  clock: { now(): number };
}

/** The client of a client-credentials grant of OAuth 2.0, and the address that issues tokens. */
export interface Client {
  /** Tells how asking fails. */
  vendor: ErrorRules;
  url: string;
  id: string;
  secret: string;
  scope: string;
}

/**
 * An app's token, asked for once and kept until shortly before it ends. Throws a `ChannelError`: nothing was sent yet, so
 * a temporary error may be retried. `ask` requests a new token, to see whether the credentials are good; `use` calls with
 * the token, and once more with a new one if it is refused.
 */
export function clientToken(
  { fetch, clock }: TokenOptions,
  { vendor, url, id, secret, scope }: Client,
) {
  let kept: { token: string; until: number } | undefined;
  const request = async (signal: AbortSignal): Promise<string> => {
    const body = new URLSearchParams({
      grant_type: "client_credentials",
      client_id: id,
      client_secret: secret,
      scope,
    });
    const response = await fetch(url, { method: "POST", body, redirect: "manual", signal });
    const answer = (await response.json().catch(() => undefined)) as
      | { access_token?: unknown; expires_in?: unknown }
      | undefined;
    if (!response.ok)
      throw new ChannelError(
        classifyResponse(vendor, {
          status: response.status,
          afterMs: retryAfter(response.headers),
        }),
      );
    if (typeof answer?.access_token !== "string")
      throw new ChannelError(`${vendor.name} gave no token`);
    const lasts = Number(answer.expires_in) * 1000 || 0;
    kept = {
      token: answer.access_token,
      until: clock.now() + lasts - Math.min(SPARE_MS, lasts / 2),
    };
    return answer.access_token;
  };
  const ask = (signal: AbortSignal): Promise<string> =>
    request(signal).catch((error: unknown) => {
      const failure = classifyError(vendor, error);
      throw new ChannelError(
        failure.status === "unknown" ? { ...failure, status: "retry" } : failure,
      );
    });
  const get = async (signal: AbortSignal): Promise<string> =>
    kept && clock.now() < kept.until ? kept.token : ask(signal);
  return {
    ask,
    async use<T>(
      call: (headers: Record<string, string>) => Promise<T>,
      signal: AbortSignal,
    ): Promise<T> {
      const attempt = (token: string): Promise<T> => call({ authorization: `Bearer ${token}` });
      const token = await get(signal);
      return attempt(token).catch(async (error: unknown) => {
        if (!(error instanceof ChannelError) || error.response?.status !== 401) throw error;
        if (kept?.token === token) kept = undefined;
        return attempt(await get(signal));
      });
    },
  };
}

interface Keys {
  issuer: string;
  keys: JWTVerifyGetKey & { jwks(): { keys: readonly { kid?: string }[] } | undefined };
  until: number;
}

/**
 * Checks tokens of an issuer that publishes OpenID metadata at `url`: RS256, for this audience, now. Gives the claims and
 * the key that signed, or undefined if the token is invalid. Throws if the keys cannot be fetched.
 */
export function tokenVerifier(
  { fetch, clock }: TokenOptions,
  { url, audience }: { url: string; audience: string },
) {
  const load = async (): Promise<Keys> => {
    const { createRemoteJWKSet, customFetch } = await import("jose");
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const { issuer, jwks_uri: uri } = (await response.json()) as {
      issuer?: unknown;
      jwks_uri?: unknown;
    };
    if (!response.ok || typeof issuer !== "string" || typeof uri !== "string")
      throw new Error("no metadata");
    return {
      issuer,
      keys: createRemoteJWKSet(new URL(uri), { [customFetch]: fetch }),
      until: clock.now() + METADATA_MS,
    };
  };
  let held: Keys | undefined;
  let loading: Promise<Keys> | undefined;
  /** Fetched once a day; concurrent requests share one fetch. If new metadata cannot be fetched, the old metadata stays valid. */
  const known = async (): Promise<Keys> => {
    if (held && clock.now() < held.until) return held;
    loading ??= load().finally(() => (loading = undefined));
    try {
      held = await loading;
    } catch (error) {
      if (!held) throw error;
    }
    return held;
  };
  return async (
    token: string,
  ): Promise<{ claims: JWTPayload; key: Record<string, unknown> } | undefined> => {
    const { decodeProtectedHeader, errors, jwtVerify } = await import("jose");
    const { issuer, keys } = await known();
    const currentDate = new Date(clock.now());
    const options = {
      issuer,
      audience,
      algorithms: ["RS256"],
      requiredClaims: ["exp"],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate,
    };
    try {
      const { payload: claims } = await jwtVerify(token, keys, options);
      const { kid } = decodeProtectedHeader(token);
      return { claims, key: { ...keys.jwks()?.keys.find((entry) => entry.kid === kid) } };
    } catch (error) {
      // Nothing is known of the token where the keys could not be had.
      if (!(error instanceof errors.JOSEError) || UNFETCHED.has(error.code)) throw error;
      return undefined;
    }
  };
}
