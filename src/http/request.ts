import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import { clientAddress, type AddressList } from "../core/address.ts";
import type { Fence } from "../store/types.ts";
import { bodySource } from "../intake/body.ts";
import { shareName } from "../intake/body-budget.ts";
import { keptParts, type KeptNames } from "../intake/kept-names.ts";

/** A request as the hooks see it, whether it came through a socket or straight to `fetch`. */
export interface HookRequest {
  method: string;
  /** Path below the base, without slashes at its ends. */
  path: string;
  query: Record<string, string>;
  /** Lower-case names; several values joined by `, `. */
  headers: Record<string, string>;
  /** The headers and parameters that the path keeps, none with a credential: only these are stored, matched and rendered. */
  shown: { headers: Record<string, string>; query: Record<string, string> };
  address: string;
  /** Whose share of the budget for unauthenticated bodies its body counts against; undefined: no one's. */
  share?: string | undefined;
  /** The socket's stream, or the body of a `Request`. */
  source: IncomingMessage | ReadableStream<Uint8Array> | null;
  /** Set for what a service of this gateway sends: kept only while it is this gateway's to send it. */
  fence?: Fence;
}

/** What a request comes with besides itself: the socket's message, or who inside the gateway sends it. */
interface Environment {
  incoming?: IncomingMessage;
  fence?: Fence;
}

function nodeHeaders(incoming: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name in incoming.headers) {
    const value = incoming.headers[name];
    if (name === "__proto__" || value === undefined) continue;
    headers[name] = typeof value === "string" ? value : value.join(", ");
  }
  return headers;
}

function queryOf(url: string): Record<string, string> {
  const start = url.indexOf("?");
  const query: Record<string, string> = {};
  if (start < 0) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (name !== "__proto__" && !Object.hasOwn(query, name)) query[name] = value;
  }
  return query;
}

/** Reads what a hook needs of a request; the body stays unread. */
export function hookRequest(c: Context, path: string, kept: KeptNames, trusted: AddressList | undefined): HookRequest {
  const { incoming, fence } = (c.env ?? {}) as Environment;
  const headers = incoming ? nodeHeaders(incoming) : Object.fromEntries(c.req.raw.headers);
  const query = queryOf(c.req.url);
  const peer = incoming?.socket.remoteAddress ?? "127.0.0.1";
  const forwardedFor = headers["x-forwarded-for"];
  const address = clientAddress(peer, forwardedFor, trusted);
  return {
    method: c.req.method,
    path,
    query,
    headers,
    shown: keptParts(kept, { method: c.req.method, headers, query }),
    address,
    share: shareName(address, { peer, forwarded: forwardedFor !== undefined, trusted }),
    source: bodySource(c),
    ...(fence ? { fence } : {}),
  };
}
