import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { HttpBindings } from "@hono/node-server";
import { RouseError } from "../core/errors.ts";
import { type DirectHandler, isUnread } from "./direct-hooks.ts";
import { UPLOAD_MS } from "./request.ts";

/** How long answers under way may take once the gateway closes. */
const CLOSE_MS = 2000;

export interface Listener {
  /** `http://<host>:<port>`, with the port that was really taken. */
  url: string;
  /** Accepts no new connections, closes idle ones immediately, and busy ones when their answer is sent. */
  close(): Promise<void>;
}

function cannotListen(error: NodeJS.ErrnoException, host: string, port: number): RouseError {
  const message =
    error.code === "EADDRINUSE"
      ? `port ${port} of ${host} is taken; set gateway.port, or use --port`
      : `cannot listen on ${host}:${port} (${error.code ?? "error"})`;
  return new RouseError({
    code: "config_invalid",
    message,
    issues: [{ path: "gateway.port", message, transient: true }],
  });
}

type FetchApp = (request: Request, env: HttpBindings) => Response | Promise<Response>;

/**
 * Closes the connection after an answer that went out before the request's body was read: the rest of the body would stand
 * before the next request, and reading it would be work for a caller that is answered already.
 */
function closeIfUnread(response: Response, incoming: IncomingMessage): Response {
  if (isUnread(incoming)) response.headers.set("connection", "close");
  return response;
}

/**
 * Serves an app over HTTP. Port 0 takes a free one. `direct` is asked first.
 * @throws RouseError `config_invalid` where the address cannot be had.
 */
export async function listenHttp(
  fetchApp: FetchApp,
  {
    host,
    port,
    bodyTimeoutMs,
    direct,
  }: { host: string; port: number; bodyTimeoutMs: number; direct?: DirectHandler | undefined },
): Promise<Listener> {
  const { getRequestListener } = await import("@hono/node-server");
  const listener = getRequestListener((request, env) => {
    const bindings = env as HttpBindings;
    const answering = fetchApp(request, bindings);
    return answering instanceof Promise
      ? answering.then((response) => closeIfUnread(response, bindings.incoming))
      : closeIfUnread(answering, bindings.incoming);
  });
  const server = createServer((incoming, outgoing) => {
    if (!direct?.(incoming, outgoing)) void listener(incoming, outgoing);
  });
  // The longest that any route's own clock lets a body take.
  server.requestTimeout = Math.max(UPLOAD_MS, bodyTimeoutMs);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(cannotListen(error, host, port)));
    server.listen(port, host, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        // A connection that is not read from keeps no process alive: the timer does.
        const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
