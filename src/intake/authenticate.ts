import type { Challenge, Failure } from "../core/errors.ts";
import { secretMatcher } from "../core/secret.ts";
import { createAddressList, type AddressList } from "../core/http/address.ts";
import { getFirstValues, type QueryValues } from "../core/http/payload.ts";
import type { PathRules } from "../mapping/types.ts";
import type { Denials, FailureLimiter } from "./callers.ts";
import type { RawInput, ReceivedHook, Snapshot, StageResult } from "./types.ts";
import { isCredentialName } from "../core/http/credential-name.ts";

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

/** Returns `user:password` of HTTP basic authentication, or undefined if there is none. */
function presentedBasic(headers: Record<string, string>): string | undefined {
  const encoded = BASIC.exec(headers["authorization"] ?? "")?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8");
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
  const hookToken = secretMatcher(hookTokens);
  const checks = new Map(paths.map((rules) => [rules.path, compilePath(rules)]));

  const byToken = (
    request: Presented,
    matches: (presented: string) => number,
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
    if (matches(presented.token) < 0) return unauthorized("the token is wrong", "wrong_token");
    return { ok: true, byQuery: presented.byQuery, ...identity };
  };

  return {
    check(request, rules) {
      const check = rules ? checks.get(rules.path) : undefined;
      if (check?.addresses && !check.addresses.has(request.address)) {
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
      if (check?.signed) return { ok: true, byQuery: false, ...identity };
      if (check?.basic) {
        const presented = presentedBasic(request.headers);
        if (presented === undefined)
          return unauthorized(
            "send user and password as HTTP basic authentication",
            "no_basic",
            "Basic",
          );
        return check.basic(presented) >= 0
          ? { ok: true, byQuery: false, ...identity }
          : unauthorized("user or password is wrong", "wrong_basic", "Basic");
      }
      return byToken(request, check?.token ?? hookToken, identity);
    },
    hasCredential(headers, credential) {
      const check = checks.get(credential.replace(/^path:/, ""));
      // Senders do not sign requests for receipts, so only the operator reads the receipts of signed paths.
      if (credential !== "hooks.token" && check?.signed) return false;
      const basic = presentedBasic(headers);
      if (credential !== "hooks.token" && check?.basic)
        return basic !== undefined && check.basic(basic) >= 0;
      const matches = credential === "hooks.token" ? hookToken : check?.token;
      const presented = presentedToken({ headers, query: {} });
      return matches !== undefined && presented !== undefined && matches(presented.token) >= 0;
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

/** Which headers (lower-case) and query parameters of a path's requests are stored, matched and rendered. */
export interface KeptNames {
  headers: ReadonlySet<string>;
  query: ReadonlySet<string>;
}

/** Headers that are kept on all paths. */
const HARMLESS = ["accept", "content-length", "content-type", "date", "host", "user-agent"];
/** Paths that no mapping takes. */
export const WITHOUT_MAPPINGS = new Set(["wake", "agent"]);

/** Collects the names that the mappings and the scheme of a path use, without credentials. */
function collectNames(
  path: string,
  { mappings, verifiers }: Pick<Snapshot, "mappings" | "verifiers">,
): KeptNames {
  const byHookToken = mappings.rules.get(path)?.auth === undefined && !WITHOUT_MAPPINGS.has(path);
  const taking = mappings.mappings.filter(({ paths }) =>
    paths.length === 0 ? byHookToken : paths.includes(path),
  );
  const names = verifiers.get(path)?.names;
  const keep = (kind: "headers" | "query", more: readonly string[]): ReadonlySet<string> => {
    const all = [
      ...more,
      ...(names?.data[kind] ?? []),
      ...taking.flatMap((mapping) => mapping[kind]),
    ];
    return new Set(
      all.filter((name) => !isCredentialName(name) && !names?.credentials[kind].includes(name)),
    );
  };
  return { headers: keep("headers", HARMLESS), query: keep("query", []) };
}

/** Creates the lookup of a snapshot. Names are collected once for each path; all paths without a mapping share one entry. */
export function createKeptNames(
  snapshot: Pick<Snapshot, "mappings" | "verifiers">,
): (path: string) => KeptNames {
  const known = new Map<string, KeptNames>();
  return (path) => {
    const name = snapshot.mappings.rules.get(path) || WITHOUT_MAPPINGS.has(path) ? path : "";
    const kept = known.get(name) ?? collectNames(name, snapshot);
    known.set(name, kept);
    return kept;
  };
}

function pick<T>(values: Record<string, T>, names: ReadonlySet<string>): Record<string, T> {
  const kept: Record<string, T> = {};
  for (const name in values) if (names.has(name)) kept[name] = values[name] as T;
  return kept;
}

/**
 * Returns the headers and parameters that are kept. The query of a GET request is its payload: all of it is kept except
 * credentials. Header names are lower-case.
 */
export function keptParts(
  kept: KeptNames,
  { method, headers, query }: Pick<RawInput, "method" | "headers" | "query">,
) {
  const payload = (): QueryValues =>
    Object.fromEntries(Object.entries(query).filter(([name]) => !isCredentialName(name)));
  return {
    headers: pick(headers, kept.headers),
    query: method === "GET" ? payload() : pick(query, kept.query),
  };
}

/** A snapshot's rules for callers, compiled once. */
export interface CallerRules {
  auth: Authenticator;
  keptNames: ReturnType<typeof createKeptNames>;
}

/** Compiles the rules for callers of each snapshot at its first use. */
export function createCallerRules({
  reloader,
}: {
  /** Has the token of the state folder, for a config without `hooks.token`. */
  reloader: { keptToken(): string };
}): (snapshot: Snapshot) => CallerRules {
  const known = new WeakMap<Snapshot, CallerRules>();
  return (snapshot) => {
    const before = known.get(snapshot);
    if (before) return before;
    const { mappings, config } = snapshot;
    const { token = reloader.keptToken(), allowQueryToken } = config.hooks;
    const made: CallerRules = {
      auth: createAuthenticator([token].flat(), mappings.paths, allowQueryToken),
      keptNames: createKeptNames(snapshot),
    };
    known.set(snapshot, made);
    return made;
  };
}
