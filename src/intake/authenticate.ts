import { isUtf8 } from "node:buffer";
import { readMonotonic, type Stopwatch } from "../core/clock.ts";
import type { Challenge, Failure } from "../core/errors.ts";
import { secretMatcher } from "../core/secret.ts";
import { createAddressList } from "../core/http/address.ts";
import { getFirstValues } from "../core/http/payload.ts";
import type { PathRules } from "../mapping/types.ts";
import type { Denials, RateLimiter, SharedCounts } from "./callers.ts";
import type { ReceivedHook, Snapshot, StageResult } from "./types.ts";

/** The configured credential of a hook. `credential` is its name, which is stored; it never holds the value. */
interface Identity {
  credential: string;
  byHookToken: boolean;
}

type AuthResult =
  | ({ ok: true; byQuery: boolean } & Identity)
  | { ok: false; failure: Failure; reason: string };

/** The parts of a request that may carry a credential. Header names are lower-case. */
interface Presented {
  headers: Record<string, string>;
  query: Record<string, string>;
}

const BEARER = /^bearer(?:\s+(.*))?$/i;
const BASIC = /^basic\s+([A-Za-z0-9+/=_-]+)$/i;

/** Returns `user:password` of HTTP basic authentication, or undefined if there is none. Several clients write it in Latin-1. */
function presentedBasic(headers: Record<string, string>): string | undefined {
  const encoded = BASIC.exec(headers["authorization"] ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  return bytes.toString(isUtf8(bytes) ? "utf8" : "latin1");
}

/**
 * Returns the first token of the request. Further tokens are ignored. `Authorization` with a scheme other than Bearer is not
 * a token: a proxy in front of the gateway may use it for its own basic authentication.
 */
export function presentedToken({
  headers,
  query,
}: Presented): { token: string; byQuery: boolean } | undefined {
  const bearer = BEARER.exec(headers["authorization"] ?? "");
  if (bearer) return { token: bearer[1]?.trim() ?? "", byQuery: false };
  const header = headers["x-gateway-token"];
  if (header !== undefined) return { token: header, byQuery: false };
  const parameter = query["token"];
  return parameter === undefined ? undefined : { token: parameter, byQuery: true };
}

const BY_HOOK_TOKEN: Identity = { credential: "hooks.token", byHookToken: true };

/** Returns the credential that callers of a path need. */
function identify(rules: PathRules | undefined): Identity {
  return rules?.auth ? { credential: `path:${rules.path}`, byHookToken: false } : BY_HOOK_TOKEN;
}

export interface Authenticator {
  /** Checks the address, and the token or basic authentication. On paths with a signature scheme, checks only the address. */
  check(request: Presented & { address: string }, rules: PathRules | undefined): AuthResult;
  /** Returns whether the headers carry the credential that an event was stored with. */
  hasCredential(headers: Record<string, string>, credential: string): boolean;
}

/** The check of one configured credential. */
interface CredentialCheck {
  kind: "token" | "basic" | "signed";
  /** Returns the index of the secret that fits, or -1. */
  matches(presented: string): number;
}

/** Compiles the `auth` of a path. A later stage checks the signature of a path with a scheme. */
function compileAuth(auth: NonNullable<PathRules["auth"]>): CredentialCheck {
  if ("scheme" in auth) return { kind: "signed", matches: () => -1 };
  return "user" in auth
    ? { kind: "basic", matches: secretMatcher([`${auth.user}:${auth.password}`]) }
    : { kind: "token", matches: secretMatcher([auth.token].flat()) };
}

const unauthorized = (
  message: string,
  reason: string,
  challenge: Challenge = "Bearer",
): AuthResult => ({
  ok: false,
  failure: { code: "unauthorized", message, challenge },
  reason,
});

/** Compiles the authentication of a snapshot: the hook token and the `auth` of paths. */
export function createAuthenticator(
  hookTokens: readonly string[],
  paths: readonly PathRules[],
  allowQueryToken: boolean,
): Authenticator {
  const addresses = new Map(
    paths.flatMap(({ path, allowIps }) =>
      allowIps ? [[path, createAddressList(allowIps).list] as const] : [],
    ),
  );
  const hookToken: CredentialCheck = { kind: "token", matches: secretMatcher(hookTokens) };
  /** By the credential's name. */
  const checks = new Map([["hooks.token", hookToken]]);
  for (const rules of paths)
    if (rules.auth) checks.set(identify(rules).credential, compileAuth(rules.auth));

  const byToken = (
    request: Presented,
    { matches }: CredentialCheck,
    identity: Identity,
  ): AuthResult => {
    const presented = presentedToken(request);
    if (!presented)
      return unauthorized("send the token as `Authorization: Bearer <token>`", "no_token");
    if (presented.byQuery && !allowQueryToken)
      return unauthorized(
        "hooks.allowQueryToken is false: send the token as `Authorization: Bearer <token>`",
        "query_token",
      );
    const { token, byQuery } = presented;
    // Senders take an address as it is written: a plus in it is a plus, and forms read it as a blank.
    const isRight = matches(token) >= 0 || (byQuery && matches(token.replaceAll(" ", "+")) >= 0);
    return isRight
      ? { ok: true, byQuery, ...identity }
      : unauthorized("the token is wrong", "wrong_token");
  };

  return {
    check(request, rules) {
      if (rules && addresses.get(rules.path)?.has(request.address) === false) {
        return {
          ok: false,
          failure: {
            code: "address_not_allowed",
            message: "this address is not in the path's allowIps",
          },
          reason: "address",
        };
      }
      const identity = identify(rules);
      const check = checks.get(identity.credential) ?? hookToken;
      if (check.kind === "signed") return { ok: true, byQuery: false, ...identity };
      if (check.kind === "basic") {
        const presented = presentedBasic(request.headers);
        if (presented === undefined)
          return unauthorized(
            "send user and password as HTTP basic authentication",
            "no_basic",
            "Basic",
          );
        return check.matches(presented) >= 0
          ? { ok: true, byQuery: false, ...identity }
          : unauthorized("user or password is wrong", "wrong_basic", "Basic");
      }
      return byToken(request, check, identity);
    },
    hasCredential(headers, credential) {
      // Senders do not sign requests for receipts, so only the operator reads the receipts of signed paths.
      const check = checks.get(credential);
      const presented =
        check?.kind === "basic"
          ? presentedBasic(headers)
          : presentedToken({ headers, query: {} })?.token;
      return check !== undefined && presented !== undefined && check.matches(presented) >= 0;
    },
  };
}

/** Paths that no mapping takes. */
export const WITHOUT_MAPPINGS = new Set(["wake", "agent"]);

const MAX_FAILURES = 20;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

/** Counts failures by address: 20 in a minute are answered 429. A success clears the count. */
export interface FailureLimiter {
  /** Seconds to wait when this address has failed too often, else 0. */
  failed(address: string): number;
  succeeded(address: string): void;
}

/** Creates a limiter. It includes the counts of other gateways. */
export function createFailureLimiter(clock: Stopwatch, shared?: SharedCounts): FailureLimiter {
  const failures = new Map<string, { count: number; since: number }>();
  const add = (address: string, n: number): { count: number; since: number } => {
    const now = readMonotonic(clock);
    const known = failures.get(address);
    const entry = known && now - known.since < WINDOW_MS ? known : { count: 0, since: now };
    entry.count += n;
    failures.delete(address);
    failures.set(address, entry);
    // The oldest go first, so that a flood from many addresses cannot fill the memory.
    if (failures.size > MAX_ADDRESSES) failures.delete(failures.keys().next().value as string);
    return entry;
  };
  // A count of 0: the caller has succeeded at another gateway.
  shared?.on(({ caller, n }) => (n === 0 ? failures.delete(caller) : add(caller, n)));
  return {
    failed(address) {
      const { count, since } = add(address, 1);
      if (count <= MAX_FAILURES) {
        shared?.add({ caller: address, n: 1 });
        return 0;
      }
      return Math.ceil((since + WINDOW_MS - readMonotonic(clock)) / 1000);
    },
    succeeded(address) {
      if (failures.size > 0 && failures.delete(address)) shared?.add({ caller: address, n: 0 });
    },
  };
}

export interface AuthenticateDeps {
  compiled(snapshot: Snapshot): { auth: Authenticator };
  limiter: FailureLimiter;
  denials: Denials;
}

/**
 * Sets the credential of a hook. HTTP callers must present it. Other origins are authenticated elsewhere and count as callers
 * of the path, so that their events share sessions and receipts with the events of HTTP callers.
 */
export function authenticate(
  hook: ReceivedHook,
  { compiled, limiter, denials }: AuthenticateDeps,
): StageResult {
  const { origin, input, address, rules } = hook;
  if (origin.kind !== "http") {
    Object.assign(hook, identify(rules));
    return undefined;
  }
  const { headers, query } = input;
  const result = compiled(hook.snapshot).auth.check(
    { headers, query: getFirstValues(query), address },
    rules,
  );
  if (!result.ok) return denials.denyUnauthenticated(hook, result.failure, result.reason);
  hook.credential = result.credential;
  hook.byHookToken = result.byHookToken;
  // A later stage checks the signature.
  if (hook.verifier) return undefined;
  limiter.succeeded(address);
  if (result.byQuery) {
    denials.warnQueryToken(address, hook.id);
    hook.hints = { tokenInQuery: true };
  }
  return undefined;
}

export interface RateDeps {
  rate: RateLimiter;
  denials: Denials;
}

/** Returns the caller whose bucket of `hooks.rateLimit` a hook uses. */
const callerName = ({ credential, address }: ReceivedHook): string => `${credential} ${address}`;

/**
 * Checks the bucket without taking from it: a hook whose signature is not verified yet must not use up the limit of
 * authenticated hooks. Only authenticated hooks empty a bucket, so `doctor` counts this hook as one of them.
 */
export function checkRate(hook: ReceivedHook, { rate, denials }: RateDeps): StageResult {
  const { rateLimit } = hook.snapshot.config.hooks;
  const tooFast = rateLimit && hook.verifier && rate.check(callerName(hook), rateLimit);
  return tooFast && denials.deny(hook, tooFast, true);
}

/** Takes one request from the caller's bucket of `hooks.rateLimit`. */
export function takeRate(hook: ReceivedHook, { rate, denials }: RateDeps): StageResult {
  const { rateLimit } = hook.snapshot.config.hooks;
  const tooFast = rateLimit && rate.take(callerName(hook), rateLimit);
  return tooFast && denials.deny(hook, tooFast, true);
}
