import { isUtf8 } from "node:buffer";
import { isIP } from "node:net";
import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import { getPath } from "hono/utils/url";
import { createAddressList, isLoopback, type AddressList } from "../core/http/address.ts";
import type { ApiKey } from "../chat/api-keys.ts";
import type { Failure } from "../core/errors.ts";
import { createFailureLimiter } from "../intake/authenticate.ts";
import type { RawInput, Snapshot } from "../intake/types.ts";
import type { HttpContext } from "./context.ts";
import { Readable } from "node:stream";

/** An answer before it is written, as a `Response` or straight to a socket. */
export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  /** An object goes out as JSON. */
  body: object | string | null;
  /** The error's code, for the log of rejected requests. */
  reason?: string;
}

/** The text of an answer's body. Adds the headers that its form needs. */
export function writeBody({ headers, body }: HttpAnswer): string | null {
  if (typeof body !== "object" || body === null) return body;
  headers["content-type"] = "application/json";
  return JSON.stringify(body);
}

const reasons = new WeakMap<Response, string>();

/** Keeps an answer's error code for the log. Returns the answer. */
export function withReason(response: Response, reason: string): Response {
  reasons.set(response, reason);
  return response;
}

/** The error code that was kept of an answer. */
export const getReason = (response: Response): string | undefined => reasons.get(response);

/** Writes an answer as a `Response`. */
export function toResponse(answer: HttpAnswer): Response {
  const { status, headers, reason } = answer;
  const response = new Response(writeBody(answer), { status, headers });
  return reason === undefined ? response : withReason(response, reason);
}

/** The socket's message; undefined for a request that was made in this process. */
function getIncoming(c: Context): IncomingMessage | undefined {
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
}

/** The source of a request's body: the socket, or the request itself if it was made in this process. */
export function bodySource(c: Context): IncomingMessage | ReadableStream<Uint8Array> | null {
  return getIncoming(c) ?? c.req.raw.body;
}

/** Returns the headers by their lower-case names; several values of one are joined by `, `. */
export function getHeaders(c: Context): Record<string, string> {
  const incoming = getIncoming(c);
  return incoming ? readHeaders(incoming) : Object.fromEntries(c.req.raw.headers);
}

/** Decodes a header's value: as UTF-8 if it is, which Node never does. */
function decodeHeader(value: string): string {
  if (!/[\x80-\xff]/.test(value)) return value;
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString() : value;
}

/** Returns the headers of a message like `getHeaders`. */
export function readHeaders(incoming: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name in incoming.headers) {
    const value = incoming.headers[name];
    if (name === "__proto__" || value === undefined) continue;
    headers[name] = decodeHeader(typeof value === "string" ? value : value.join(", "));
  }
  return headers;
}

/**
 * Names whose share of the budget a body counts against: the caller's address, for IPv6 its network of 64 bits, since one
 * host has all of it. Undefined for addresses that stand for many callers: loopback, and a proxy that is not trusted
 * (`gateway.trustedProxies`) but forwards for others.
 */
export function shareName(
  address: string,
  {
    peer,
    forwarded,
    trusted,
  }: { peer: string; forwarded: boolean; trusted: AddressList | undefined },
): string | undefined {
  if (isLoopback(address)) return undefined;
  if (forwarded && !trusted?.has(peer)) return undefined;
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const rest = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - groups.length - rest.length;
  return [...groups, ...Array<string>(Math.max(0, zeros)).fill("0"), ...rest].slice(0, 4).join(":");
}

const trustedLists = new WeakMap<Snapshot, AddressList>();

function getTrusted(snapshot: Snapshot): AddressList | undefined {
  const { trustedProxies } = snapshot.config.gateway;
  if (trustedProxies.length === 0) return undefined;
  const known = trustedLists.get(snapshot) ?? createAddressList(trustedProxies).list;
  trustedLists.set(snapshot, known);
  return known;
}

/** The address of the connection's other end, of IPv4 in its own form. */
const plain = (address: string): string =>
  address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;

/** An entry of `X-Forwarded-For` without the port and the brackets that some proxies add. */
const withoutPort = (entry: string): string =>
  entry.replace(/^\[([^\]]*)\](?::\d+)?$|^([\d.]+):\d+$/, "$1$2");

/**
 * Returns the caller's address: the connection's own, or, if that is a trusted proxy, the last entry of
 * `X-Forwarded-For` that is not one.
 */
function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  trusted: AddressList | undefined,
): string {
  const connection = plain(peer);
  if (!trusted || forwardedFor === undefined || !trusted.has(connection)) return connection;
  const chain = forwardedFor.split(",").map((entry) => plain(withoutPort(entry.trim())));
  for (const address of chain.toReversed()) {
    if (isIP(address) === 0) return connection;
    if (!trusted.has(address)) return address;
  }
  return chain[0] ?? connection;
}

export interface ResolvedCaller {
  /** The client's address. */
  address: string;
  /** Names the share of the budget for unauthenticated bodies that its body counts against. Undefined: none. */
  share(): string | undefined;
}

/** Returns the client of a request. */
export const getCaller = (c: Context, snapshot: Snapshot): ResolvedCaller =>
  resolveCaller(getPeer(c), c.req.header("x-forwarded-for"), snapshot);

/** The address of the connection's other end; undefined for a request that was made in this process. */
export const getPeer = (c: Context): string | undefined => getIncoming(c)?.socket.remoteAddress;

/** Returns the client behind a connection. */
export function resolveCaller(
  peer = "127.0.0.1",
  forwardedFor: string | undefined,
  snapshot: Snapshot,
): ResolvedCaller {
  const trusted = getTrusted(snapshot);
  const address = clientAddress(peer, forwardedFor, trusted);
  return {
    address,
    share: () => shareName(address, { peer, forwarded: forwardedFor !== undefined, trusted }),
  };
}

/** The host of requests that name none, as those of HTTP/1.0 may. */
export const NO_HOST = "localhost";

/** Options of all routers. Proxies and addresses that are put together double slashes; in a path they count as one. */
export const ROUTING = {
  getPath: (request: Request): string => getPath(request).replaceAll(/\/{2,}/g, "/"),
};

/** A dot segment, plain or encoded: `/./`, `/../`, `/%2e%2e/`, also with a backslash, which URLs take for a slash. */
const DOT_SEGMENT = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/\\]|%2f|%5c)/i;
/** Addresses that a proxy may keep from the outside by their prefix. */
const RESERVED =
  /^\/+(?:admin|console|metrics|readyz|livez|docs|openapi\.json|channels|plugins|v1)(?:$|\/)/i;

/** Returns the path and the query of an absolute address as they are written: a URL parser writes some characters in another way. */
function getTarget(address: string): string {
  const start = address.indexOf("/", address.indexOf("//") + 2);
  return start < 0 ? "/" : address.slice(start);
}

function rawTarget(c: Context): string {
  const raw = getIncoming(c)?.url ?? c.req.url;
  return raw.startsWith("/") ? raw : getTarget(raw);
}

/** Returns the address that was called, with path and query as the client sent them: its sender may have signed them. */
export function getAddress(c: Context): NonNullable<RawInput["url"]> {
  const { url } = c.req;
  return { origin: url.slice(0, url.length - getTarget(url).length), target: rawTarget(c) };
}

/** The path as the client sent it, before any URL parser has resolved or decoded it. */
function rawPath(c: Context): string {
  const target = rawTarget(c);
  const end = target.search(/[?#]/);
  return end < 0 ? target : target.slice(0, end);
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/**
 * Tells whether a request's path means another path than its characters say: dot segments (`/hooks/../admin`), and
 * reserved paths in percent-encoding (`/%61dmin`) or behind further slashes (`//admin`). What a proxy in front lets through by its characters must not reach
 * what it keeps from the outside; both are answered 404.
 */
export function isDisguisedPath(c: Context): boolean {
  const path = rawPath(c);
  // The usual path has none of these characters.
  if (!/[%\\]|\/\.|\.$|^\/\//.test(path)) return false;
  return (
    DOT_SEGMENT.test(path) ||
    (path.startsWith("//") && RESERVED.test(path)) ||
    (path.includes("%") && !RESERVED.test(path) && RESERVED.test(decoded(path)))
  );
}

/** Milliseconds for which the rest of a refused upload is read, so that its sender gets to read the answer. */
const LINGER_MS = 5_000;

/** Milliseconds for a whole upload: the longest that any body may take, unless `hooks.bodyTimeoutSeconds` is longer. */
export const UPLOAD_MS = 30 * 60_000;

/** A request's body as a stream of Node. */
export function toReadable(c: Context): Readable {
  const source = bodySource(c);
  if (source === null) return Readable.from([]);
  return source instanceof Readable ? source : Readable.fromWeb(source);
}

/**
 * Reads what is left of a body that is not wanted. A sender that is still writing does not read: it would see a broken
 * connection in place of the answer. Returns false if there is still more: the connection must be closed then.
 */
export async function discard(source: Readable): Promise<boolean> {
  if (source.readableEnded || source.destroyed) return source.readableEnded;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, LINGER_MS);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    source.on("end", done).on("close", done).on("error", done).resume();
  });
  return source.readableEnded;
}

const NO_KEY: Failure = {
  code: "unauthorized",
  message: "send an API key as `Authorization: Bearer <key>`; `rouse keys create` makes one",
};
const WRONG_KEY: Failure = {
  code: "unauthorized",
  message: "the API key is wrong, or was revoked",
};
const TOO_MANY: Failure = {
  code: "rate_limited",
  message: "too many wrong keys from this address; wait",
};

/** Pages that a browser opens with a session or without any credential. */
const BROWSER_PATH = /^\/(?:console|admin|docs)(?:\/|$)/;

/**
 * Checks the Host header of requests for the operator's pages and the docs: on a loopback bind a page in a browser must
 * not reach them under a name of its own (DNS rebinding). Everything else has its own credential, and a tunnel's name is
 * the normal case there.
 */
export function findHostProblem(c: Context, snapshot: Snapshot): Failure | undefined {
  if (!BROWSER_PATH.test(c.req.path)) return undefined;
  const { host, publicUrl } = snapshot.config.gateway;
  if (!isLoopback(host)) return undefined;
  const hostname = URL.parse(c.req.url)?.hostname ?? "";
  if (isLoopback(hostname) || (publicUrl !== undefined && new URL(publicUrl).hostname === hostname))
    return undefined;
  return {
    code: "address_not_allowed",
    message:
      "the Host header must be a loopback name or gateway.publicUrl's: open this page under one of them, or set gateway.publicUrl",
  };
}

/** Finds the API key of a request, or why it has none. */
export type CheckKey = (
  c: Context,
) => Promise<{ ok: true; key: ApiKey } | { ok: false; failure: Failure }>;

/** Creates the check of API keys for one kind of routes, which counts wrong keys by address under `name`. */
export function createKeyCheck(
  name: string,
  { clock, keys, snapshot, sharedCounts }: HttpContext,
): CheckKey {
  const limiter = createFailureLimiter(clock, sharedCounts?.(name));
  return async (c) => {
    // Only a header, and only this form of it: an address ends up in logs.
    const presented = /^bearer\s+(\S+)\s*$/i.exec(c.req.header("authorization") ?? "")?.[1];
    const key = presented === undefined ? undefined : await keys.find(presented);
    if (key) return { ok: true, key };
    const { address } = getCaller(c, snapshot());
    const wait = limiter.failed(address);
    if (wait > 0) return { ok: false, failure: { ...TOO_MANY, retryAfterSeconds: wait } };
    return { ok: false, failure: presented === undefined ? NO_KEY : WRONG_KEY };
  };
}
