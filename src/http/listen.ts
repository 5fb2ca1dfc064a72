import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { RouseError } from "../core/errors.ts";

/** How long answers under way may take once the gateway closes. */
const CLOSE_MS = 2000;

export interface Listener {
  /** `http://<host>:<port>`, with the port that was really taken. */
  url: string;
  /** No new connections, idle ones closed at once, the others when their answer is out. */
  close(): Promise<void>;
}

function cannotListen(error: NodeJS.ErrnoException, host: string, port: number): RouseError {
  const message =
    error.code === "EADDRINUSE"
      ? `port ${port} of ${host} is taken; set gateway.port, or use --port`
      : `cannot listen on ${host}:${port} (${error.code ?? "error"})`;
  return new RouseError({ code: "config_invalid", message, issues: [{ path: "gateway.port", message }] });
}

/**
 * Serves an app over HTTP. Port 0 takes a free one.
 * @throws RouseError `config_invalid` where the address cannot be had.
 */
export async function listen(
  fetchApp: (request: Request, env: object) => Response | Promise<Response>,
  { host, port }: { host: string; port: number },
): Promise<Listener> {
  const { createAdaptorServer } = await import("@hono/node-server");
  const server = createAdaptorServer({ fetch: fetchApp }) as Server;
  // Bodies have a limit of their own, hooks.bodyTimeoutSeconds.
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(cannotListen(error, host, port)));
    server.listen(port, host, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
      }),
  };
}
