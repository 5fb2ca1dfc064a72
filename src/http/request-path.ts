import type { IncomingMessage } from "node:http";
import type { Context } from "hono";

/** A dot segment, plain or encoded: `/./`, `/../`, `/%2e%2e/`, also with a backslash, which URLs take for a slash. */
const DOT_SEGMENT = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/\\]|%2f|%5c)/i;
/** Addresses that a proxy may keep from the outside by their prefix. */
const RESERVED = /^\/+(?:admin|console|metrics|readyz|livez|docs|openapi\.json|channels|v1)(?:$|\/)/i;

/** The path as the client sent it, before any URL parser has resolved or decoded it. */
function rawPath(c: Context): string {
  const incoming = (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
  const target = incoming?.url ?? c.req.url.slice(c.req.url.indexOf("/", c.req.url.indexOf("//") + 2));
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
 * reserved paths in percent-encoding (`/%61dmin`). What a proxy in front lets through by its characters must not reach
 * what it keeps from the outside; both are answered 404.
 */
export function isDisguisedPath(c: Context): boolean {
  const path = rawPath(c);
  // The usual path has none of these characters.
  if (!/[%\\]|\/\.|\.$/.test(path)) return false;
  return DOT_SEGMENT.test(path) || (path.includes("%") && !RESERVED.test(path) && RESERVED.test(decoded(path)));
}
