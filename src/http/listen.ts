import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import type { HttpBindings } from "@hono/node-server";
import { RouseError } from "../core/errors.ts";
import { discard, NO_HOST, UPLOAD_MS } from "./transport.ts";

/** The longest time for answers under way when the gateway closes. */
const CLOSE_MS = 2000;
/** The time between two looks for connections whose last answer was sent, when the gateway closes. */
const LOOK_MS = 50;
/** The least time for a request's headers, and how much longer than an idle connection they may take. */
const HEADERS_MS = 60_000;
const HEADERS_GRACE_MS = 5000;

/** Finds the first free port of an address from `port` on, over a hundred; undefined if none is free there. */
export async function findFreePort(host: string, port: number): Promise<number | undefined> {
  for (let tried = port; tried < Math.min(port + 100, 65_536); tried++) {
    const server = createTcpServer();
    const isFree = await new Promise<boolean>((done) => {
      server.once("error", () => done(false));
      server.listen(tried, host, () => server.close(() => done(true)));
    });
    if (isFree) return tried;
  }
  return undefined;
}

async function explainListenError(
  error: NodeJS.ErrnoException,
  host: string,
  port: number,
): Promise<RouseError> {
  const free = error.code === "EADDRINUSE" ? await findFreePort(host, port + 1) : undefined;
  const hint =
    free === undefined
      ? "set another gateway.port"
      : `${free} is free: \`--port ${free}\`, or gateway.port`;
  const message =
    error.code === "EADDRINUSE"
      ? `port ${port} of ${host} is taken; ${hint}`
      : `cannot listen on ${host}:${port} (${error.code ?? "error"})`;
  return new RouseError({
    code: "config_invalid",
    message,
    issues: [{ path: "gateway.port", message, transient: true }],
  });
}

/** The most connections that are read on at the same time: an attack cannot hold more. */
const MAX_LINGERING = 64;

/**
 * Creates what closes connections after an answer that went out before the body was read. A connection that is closed with
 * bytes unread takes the answer with it, and many clients, and proxies, read only after they have sent all: what still comes
 * is read for a while and thrown away.
 */
function createLinger() {
  const requests = new WeakMap<Socket, IncomingMessage>();
  const lingering = new Set<Socket>();
  return {
    open(socket: Socket): void {
      const close = socket.destroySoon.bind(socket);
      // So Node ends a connection whose answer says `close`.
      socket.destroySoon = () => {
        const incoming = requests.get(socket);
        const isWanted = incoming && isUnread(incoming) && !incoming.isPaused();
        if (!isWanted || lingering.size >= MAX_LINGERING) return close();
        lingering.add(socket);
        socket.once("close", () => lingering.delete(socket));
        socket.end();
        void discard(incoming).then(close);
      };
    },
    /** Returns false if the request follows an answer that said `close`. */
    begin(incoming: IncomingMessage): boolean {
      requests.set(incoming.socket, incoming);
      return !lingering.has(incoming.socket);
    },
  };
}

/** True if the message has a body that was not read to its end. */
function isUnread({ headers, complete }: IncomingMessage): boolean {
  const hasBody =
    headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  return hasBody && !complete;
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
 * Serves an app over HTTP. Port 0 takes a free one.
 * @throws RouseError `config_invalid` where the address cannot be had.
 */
export async function listenHttp(
  fetchApp: FetchApp,
  {
    host,
    port,
    bodyTimeoutMs,
    keepAliveSeconds,
    draining,
  }: {
    host: string;
    port: number;
    bodyTimeoutMs: number;
    keepAliveSeconds: number;
    /** True once the gateway is stopping: from then on each answer ends its connection, so that proxies let go of theirs. */
    draining(): boolean;
  },
) {
  const { getRequestListener } = await import("@hono/node-server");
  const listener = getRequestListener(
    (request, env) => {
      const bindings = env as HttpBindings;
      const answering = fetchApp(request, bindings);
      return answering instanceof Promise
        ? answering.then((response) => closeIfUnread(response, bindings.incoming))
        : closeIfUnread(answering, bindings.incoming);
    },
    { hostname: NO_HOST },
  );
  const linger = createLinger();
  const server = createServer((incoming, outgoing) => {
    if (draining()) outgoing.shouldKeepAlive = false;
    if (linger.begin(incoming)) void listener(incoming, outgoing);
  });
  // The longest that any route's own clock lets a body take.
  server.requestTimeout = Math.max(UPLOAD_MS, bodyTimeoutMs);
  const setKeepAlive = (seconds: number): void => {
    server.keepAliveTimeout = seconds * 1000;
    // Node counts the time for headers from the answer before on some connections: it must not end before the connection.
    server.headersTimeout = Math.max(HEADERS_MS, seconds * 1000 + HEADERS_GRACE_MS);
  };
  setKeepAlive(keepAliveSeconds);
  const connections = new Set<Socket>();
  server.on("connection", (socket) => {
    connections.add(socket);
    linger.open(socket);
    socket.once("close", () => connections.delete(socket));
  });
  try {
    await once(server.listen(port, host), "listening");
  } catch (error) {
    throw await explainListenError(error as NodeJS.ErrnoException, host, port);
  }
  const { port: bound } = server.address() as AddressInfo;
  return {
    /** With the port that was really taken. */
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    /** Keeps idle connections for so long from now on. */
    setKeepAlive,
    /** Accepts no new connections, closes idle ones immediately, and busy ones when their answer is sent. */
    close: () =>
      new Promise<void>((resolve) => {
        // A connection that is not read from keeps no process alive: the timer does.
        const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
        const looking = setInterval(() => server.closeIdleConnections(), LOOK_MS);
        server.close(() => {
          clearTimeout(timer);
          clearInterval(looking);
          resolve();
        });
        server.closeIdleConnections();
        // To Node a connection without any request yet is none that is idle.
        for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
      }),
  };
}
