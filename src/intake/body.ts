import type { Failure } from "../core/errors.ts";
import type { BodyBudget } from "./body-budget.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";
import type { Denials } from "./callers.ts";
import { isCredentialName } from "../core/http/credential-name.ts";
import { decodePayload, findQueryProblem, type QueryValues } from "../core/http/payload.ts";
import { decompress, collectBody, type BodyLimits, type BodyProblem } from "../core/http/body.ts";
import type { BodySource, RawInput, ReceivedHook, StageResult, Snapshot } from "./types.ts";
import type { PathRules } from "../mapping/types.ts";

/** The headers (lower-case) and query parameters of a path's requests that are stored, matched and rendered. */
export interface KeptNames {
  headers: ReadonlySet<string>;
  query: ReadonlySet<string>;
}

/** Headers that are kept on all paths. */
const HARMLESS = ["accept", "content-length", "content-type", "date", "host", "user-agent"];

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

/** The largest body of a path: its own, else that of all hooks, or what its sender sends if that is larger. */
export function getMaxBodyBytes(
  path: string,
  { mappings, verifiers, config }: Pick<Snapshot, "mappings" | "verifiers" | "config">,
): number {
  const largest = verifiers.get(path)?.sender?.maxBodyBytes ?? 0;
  return mappings.rules.get(path)?.maxBodyBytes ?? Math.max(largest, config.hooks.maxBodyBytes);
}

/** The place in the config of what a path says about its requests: of its mapping, or of its preset. */
export const getRulesAt = ({ path, authAt = path }: PathRules): string =>
  authAt.replace(/\.auth$/, "");

export type BodyResult = { ok: true; bytes: Buffer } | { ok: false; failure: Failure };

/** The answer to a body that broke a limit. Its connection must be closed: the rest of the body is still on its way. */
export function bodyFailure(
  problem: BodyProblem,
  { maxBytes }: Pick<BodyLimits, "maxBytes">,
): Failure {
  switch (problem) {
    case "too_large":
      return {
        code: "body_too_large",
        message: `the body has more than ${maxBytes} bytes; send less, or raise maxBodyBytes`,
      };
    case "too_slow":
      return {
        code: "body_timeout",
        message: "the body did not arrive in time; see hooks.bodyTimeoutSeconds",
      };
    case "cut_off":
      return { code: "invalid_body", message: "the body was cut off before its end" };
    case "no_room":
      return {
        code: "overloaded",
        message: "too many bodies are on their way; try again in a moment",
        retryAfterSeconds: 5,
      };
  }
}

/** Reads a body within its limits. Rejects a declared length over the limit before it reads a byte. Never throws. */
export async function collectBytes(
  source: BodySource,
  declared: string | undefined,
  limits: BodyLimits,
): Promise<BodyResult> {
  const body = await collectBody(source, declared, limits);
  return body.ok ? body : { ok: false, failure: bodyFailure(body.problem, limits) };
}

/**
 * The gateway waits before it answers an unauthenticated body that is too large, or for which there is no room: this many
 * milliseconds for each such answer that waits, this one included. Nothing of the body is kept while it waits. One sender
 * hardly notices; many connections that send such bodies again and again slow themselves down.
 */
const HOLD_MS = 250;
const MAX_HOLD_MS = 5_000;
/** The most answers that wait at the same time. Further answers are sent immediately: then the number of connections is the load. */
const MAX_HELD = 2_000;

/** Creates the function that delays these answers. */
export function createHold(): () => Promise<void> {
  let held = 0;
  return async () => {
    if (held >= MAX_HELD) return;
    held++;
    const ms = Math.min(held * HOLD_MS, MAX_HOLD_MS);
    await new Promise((resolve) => setTimeout(resolve, ms).unref());
    held--;
  };
}

export interface ReadBodyDeps {
  /** The memory for bodies of callers that are not authenticated yet. */
  bodyBudget: BodyBudget;
  denials: Denials;
  /** Resolves once the answer to an unauthenticated body that broke a limit may go out. */
  hold(): Promise<void>;
}

/**
 * Reads the body within the path's limits, as it is; a GET has none. The body of a hook that has still to show its signature
 * is read within a budget that all such share. Nothing of it is kept if that fails.
 */
export function readHookBody(
  hook: ReceivedHook,
  { bodyBudget, denials, hold }: ReadBodyDeps,
): StageResult | Promise<StageResult> {
  const { input, origin, snapshot, verifier } = hook;
  if (input.method === "GET") return undefined;
  if (verifier)
    hook.allowance = bodyBudget.open(origin.kind === "http" ? origin.share?.() : undefined);
  const fail = (error: Failure): StageResult => {
    if (!verifier) return { kind: "rejected", error };
    hook.allowance?.release();
    return denials.deny(hook, error);
  };
  const limits = {
    maxBytes: getMaxBodyBytes(hook.path, snapshot),
    timeoutMs: snapshot.config.hooks.bodyTimeoutSeconds * 1000,
    ...(hook.allowance ? { allowance: hook.allowance } : {}),
  };
  return collectBytes(input.body, input.headers["content-length"], limits).then((body) => {
    if (body.ok) {
      hook.bytes = body.bytes;
      return undefined;
    }
    hook.hints = { ...hook.hints, bodyUnread: true };
    const denied = fail(body.failure);
    const { code } = body.failure;
    const isHeld = verifier && (code === "body_too_large" || code === "overloaded");
    return isHeld ? hold().then(() => denied) : denied;
  });
}

/** Reads the payload of a hook from its bytes, by its type. */
function setPayload(hook: ReceivedHook): StageResult {
  const contentType = hook.input.headers["content-type"];
  const decoded = decodePayload(hook.bytes, { contentType, format: hook.rules?.body });
  if (!decoded.ok) return { kind: "rejected", error: decoded.failure };
  hook.payload = decoded.payload;
  if (decoded.warnings) hook.warnings = decoded.warnings;
  return undefined;
}

/**
 * Decodes the body of a hook: undoes its content encoding, and reads its payload. That of a GET request is its query. Nothing is
 * decompressed before the caller is known, since little data can become much.
 */
export function decodeHookBody(hook: ReceivedHook): StageResult | Promise<StageResult> {
  const { input, kept, origin } = hook;
  if (input.method === "GET") {
    const error = input.url === undefined ? undefined : findQueryProblem(input.url.target);
    if (error) return { kind: "rejected", error };
    hook.payload = kept.query;
    return undefined;
  }
  const encoding = input.headers["content-encoding"];
  // Bodies are recorded without it.
  if (encoding === undefined || origin.kind === "replay") return setPayload(hook);
  const take = (bytes: Buffer): StageResult => {
    hook.bytes = bytes;
    return setPayload(hook);
  };
  if (hook.content) return take(hook.content);
  const maxBytes = getMaxBodyBytes(hook.path, hook.snapshot);
  return decompress(hook.bytes, encoding, maxBytes).then((decompressed) =>
    decompressed.ok ? take(decompressed.bytes) : { kind: "rejected", error: decompressed.failure },
  );
}
