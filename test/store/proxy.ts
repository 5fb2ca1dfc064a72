import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/**
 * Stands between a program and a server: `refusing` ends every connection, `hanging` lets nothing through, and what was sent
 * meanwhile is lost; `paused` holds it back.
 */
export interface Proxy {
  port: number;
  set(state: "open" | "refusing" | "hanging" | "paused"): void;
  close(): void;
}

export async function createProxy(to: URL): Promise<Proxy> {
  let state: Parameters<Proxy["set"]>[0] = "open";
  const sockets = new Set<Socket>();
  const join = (from: Socket, into: Socket): void => {
    sockets.add(from);
    from.on("data", (bytes) => {
      // What was sent while nothing came through is lost, as with a cable that is cut.
      if (state === "open") into.write(bytes);
    });
    from.on("error", () => into.destroy());
    from.on("close", () => {
      sockets.delete(from);
      into.destroy();
    });
  };
  const server = createServer((client) => {
    if (state === "refusing") return void client.destroy();
    const upstream = connect(Number(to.port || 5432), to.hostname);
    join(client, upstream);
    join(upstream, client);
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
