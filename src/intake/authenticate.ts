import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { secretMatcher } from "../core/secret.ts";
import type { PathRules } from "../mapping/types.ts";
import { createAddressList, type AddressList } from "../core/address.ts";
import type { HookRequest } from "../http/request.ts";
import type { SharedCounts } from "./shared-counts.ts";

/** By which credential a caller was believed. `name` is what is stored; it holds no value. */
export type AuthResult =
  | { ok: true; credential: string; byHookToken: boolean; byQuery: boolean; /** Its signature is still to be checked. */ signed: boolean }
  | { ok: false; failure: Failure; reason: string };

const MAX_FAILURES = 20;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

/** Counts failures by address: 20 in a minute are answered 429. A success clears the count. */
export interface FailureLimiter {
  /** Seconds to wait when this address has failed too often, else 0. */
  failed(address: string): number;
  succeeded(address: string): void;
}

export function createFailureLimiter(clock: Pick<Clock, "now">, shared?: SharedCounts): FailureLimiter {
  const failures = new Map<string, { count: number; since: number }>();
  const add = (address: string, n: number): { count: number; since: number } => {
    const now = clock.now();
    const known = failures.get(address);
    const entry = known && now - known.since < WINDOW_MS ? known : { count: 0, since: now };
    entry.count += n;
    failures.delete(address);
    failures.set(address, entry);
    // The oldest go first, so that a flood from many addresses cannot fill the memory.
    if (failures.size > MAX_ADDRESSES) failures.delete(failures.keys().next().value as string);
    return entry;
  };
  // None at all: it has succeeded at another gateway.
  shared?.on(({ caller, n }) => (n === 0 ? failures.delete(caller) : add(caller, n)));
  return {
    failed(address) {
      const { count, since } = add(address, 1);
      if (count <= MAX_FAILURES) {
        shared?.add({ caller: address, n: 1 });
        return 0;
      }
      return Math.ceil((since + WINDOW_MS - clock.now()) / 1000);
    },
    succeeded(address) {
      if (failures.size > 0 && failures.delete(address)) shared?.add({ caller: address, n: 0 });
    },
  };
}

const BEARER = /^bearer(?:\s+(.*))?$/i;
/** `user:password` of HTTP basic authentication, or undefined where there is none. */
function presentedBasic(headers: Record<string, string>): string | undefined {
  const encoded = BASIC.exec(headers["authorization"] ?? "")?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8");
}

const BASIC = /^basic\s+([A-Za-z0-9+/=_-]+)$/i;

/**
 * Returns the first form of a token that is present: there is no second try with another. `Authorization` with another
 * scheme is no form of a token: a proxy in front may have its own basic authentication there.
 */
export function presentedToken(request: Pick<HookRequest, "headers" | "query">): { token: string; byQuery: boolean } | undefined {
  const bearer = BEARER.exec(request.headers["authorization"] ?? "");
  if (bearer) return { token: bearer[1]?.trim() ?? "", byQuery: false };
  const header = request.headers["x-gateway-token"];
  if (header !== undefined) return { token: header, byQuery: false };
  const query = request.query["token"];
  return query === undefined ? undefined : { token: query, byQuery: true };
}

export interface Authenticator {
  /** Checks token, basic and address authentication. For paths with a signature scheme only the address. */
  check(request: HookRequest, rules: PathRules | undefined): AuthResult;
  /** Whether a request carries, in a header, the credential that an event was stored under. */
  presents(headers: Record<string, string>, credential: string): boolean;
}

interface PathCheck {
  addresses: AddressList | undefined;
  token: ((presented: string) => number) | undefined;
  basic: ((presented: string) => number) | undefined;
  signed: boolean;
}

function compilePath(rules: PathRules): PathCheck {
  const { auth } = rules;
  return {
    addresses: rules.allowIps ? createAddressList(rules.allowIps).list : undefined,
    token: auth && "token" in auth ? secretMatcher(auth.token) : undefined,
    basic: auth && "user" in auth ? secretMatcher([`${auth.user}:${auth.password}`]) : undefined,
    signed: auth !== undefined && "scheme" in auth,
  };
}

const unauthorized = (message: string, reason: string): AuthResult => ({ ok: false, failure: { code: "unauthorized", message }, reason });

/** Compiles the authentication of a snapshot: the hook token and what paths say of their own. */
export function createAuthenticator(hookTokens: readonly string[], paths: readonly PathRules[], allowQueryToken: boolean): Authenticator {
  const hookToken = secretMatcher(hookTokens);
  const checks = new Map(paths.map((rules) => [rules.path, compilePath(rules)]));

  const byToken = (request: HookRequest, matches: (presented: string) => number, credential: string): AuthResult => {
    const presented = presentedToken(request);
    if (!presented) return unauthorized("send the token as `Authorization: Bearer <token>`", "no_token");
    if (presented.byQuery && !allowQueryToken)
      return unauthorized("hooks.allowQueryToken is false: send the token as `Authorization: Bearer <token>`", "query_token");
    if (matches(presented.token) < 0) return unauthorized("the token is wrong", "wrong_token");
    return { ok: true, credential, byHookToken: credential === "hooks.token", byQuery: presented.byQuery, signed: false };
  };

  return {
    check(request, rules) {
      const check = rules ? checks.get(rules.path) : undefined;
      if (check?.addresses && !check.addresses.has(request.address)) {
        return {
          ok: false,
          failure: { code: "address_not_allowed", message: "this address is not in the path's allowIps" },
          reason: "address",
        };
      }
      if (check?.signed) return { ok: true, credential: `path:${rules?.path}`, byHookToken: false, byQuery: false, signed: true };
      if (check?.token) return byToken(request, check.token, `path:${rules?.path}`);
      if (check?.basic) {
        const presented = presentedBasic(request.headers);
        if (presented === undefined) return unauthorized("send user and password as HTTP basic authentication", "no_basic");
        return check.basic(presented) >= 0
          ? { ok: true, credential: `path:${rules?.path}`, byHookToken: false, byQuery: false, signed: false }
          : unauthorized("user or password is wrong", "wrong_basic");
      }
      return byToken(request, hookToken, "hooks.token");
    },
    presents(headers, credential) {
      const check = checks.get(credential.replace(/^path:/, ""));
      // Nobody signs a question for a receipt: those of signed paths are the operator's.
      if (credential !== "hooks.token" && check?.signed) return false;
      const basic = presentedBasic(headers);
      if (credential !== "hooks.token" && check?.basic) return basic !== undefined && check.basic(basic) >= 0;
      const matches = credential === "hooks.token" ? hookToken : check?.token;
      const presented = presentedToken({ headers, query: {} });
      return matches !== undefined && presented !== undefined && matches(presented.token) >= 0;
    },
  };
}
