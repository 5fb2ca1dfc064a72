import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/**
 * Stands between a program and a server: `refusing` ends every connection; `hanging` loses what is sent, and a connection that
 * has lost bytes stays silent for ever, since TCP delivers nothing behind a hole; `paused` holds back what is sent.
 */
export interface Proxy {
  port: number;
  set(state: "open" | "refusing" | "hanging" | "paused"): void;
  close(): void;
}

/** When both sides know by their keepalives that nothing comes over a connection any more. */
const KEEPALIVES_MS = 25_000;

/** @param listen called for each connection; what it returns hears what the program sends on it */
export async function createProxy(to: URL, listen?: () => (bytes: Buffer) => void): Promise<Proxy> {
  let state: Parameters<Proxy["set"]>[0] = "open";
  const sockets = new Set<Socket>();
  const join = (
    from: Socket,
    into: Socket,
    connection: { isSilent: boolean; upstream: Socket },
  ): void => {
    sockets.add(from);
    const end = (): void => [from, into].forEach((socket) => socket.destroy());
    // Before the listener: a socket that was not paused would flow with it.
    if (state === "paused") from.pause();
    from.on("data", (bytes) => {
      if (state === "hanging" && !connection.isSilent) {
        connection.isSilent = true;
        setTimeout(end, KEEPALIVES_MS).unref();
      }
      if (!connection.isSilent) into.write(bytes);
    });
    from.on("error", () => into.destroy());
    from.on("close", () => {
      sockets.delete(from);
      // The end of a connection does not get through a hole, either.
      if (!connection.isSilent || from !== connection.upstream || state === "refusing")
        into.destroy();
    });
  };
  const server = createServer((client) => {
    if (state === "refusing") return void client.destroy();
    const upstream = connect(Number(to.port || 5432), to.hostname);
    const connection = { isSilent: false, upstream };
    const hear = listen?.();
    if (hear) client.on("data", hear);
    join(client, upstream, connection);
    join(upstream, client, connection);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      state = next;
      for (const socket of sockets) socket[next === "paused" ? "pause" : "resume"]();
      if (next === "refusing") for (const socket of sockets) socket.destroy();
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
