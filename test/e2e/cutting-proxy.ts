import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** Stands between a gateway and PostgreSQL. While it is cut nothing comes through, and nothing is lost: as on a network that is gone for a while. */
export interface CuttingProxy {
  port: number;
  cut(isCut: boolean): void;
  close(): void;
}

export async function createCuttingProxy(to: URL): Promise<CuttingProxy> {
  let isCut = false;
  const sockets = new Set<Socket>();
  const join = (from: Socket, into: Socket): void => {
    sockets.add(from);
    if (isCut) from.pause();
    from.on("data", (bytes) => into.write(bytes));
    from.on("error", () => into.destroy());
    from.on("close", () => {
      sockets.delete(from);
      // An end does not come through either: PostgreSQL finds out later.
      const pass = (): unknown => (isCut ? setTimeout(pass, 200).unref() : into.destroy());
      pass();
    });
  };
  const server = createServer((client) => {
    const upstream = connect(Number(to.port || 5432), to.hostname);
    join(client, upstream);
    join(upstream, client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    cut(next) {
      isCut = next;
      for (const socket of sockets) {
        if (next) socket.pause();
        else socket.resume();
      }
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
