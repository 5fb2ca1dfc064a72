import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** Stands between a program and PostgreSQL, and tells when a program sends a statement. */
export interface WatchingProxy {
  port: number;
  /** Calls `seen` as soon as a statement with this text is sent, before PostgreSQL has it. */
  watch(text: string | undefined, seen?: () => void): void;
  close(): void;
}

export async function createWatchingProxy(to: URL): Promise<WatchingProxy> {
  let wanted: string | undefined;
  let tell = (): void => undefined;
  const sockets = new Set<Socket>();
  const join = (from: Socket, into: Socket, look: (piece: Buffer) => void): void => {
    sockets.add(from);
    from.on("data", (piece: Buffer) => {
      look(piece);
      into.write(piece);
    });
    from.on("error", () => into.destroy());
    from.on("close", () => {
      sockets.delete(from);
      // What was sent arrives, also of a program that has been killed meanwhile.
      into.end();
    });
  };
  const server = createServer((client) => {
    const upstream = connect(Number(to.port || 5432), to.hostname);
    let last = "";
    join(client, upstream, (piece) => {
      if (wanted === undefined) return;
      const text = last + piece.toString("latin1");
      last = text.slice(-wanted.length);
      if (!text.includes(wanted)) return;
      wanted = undefined;
      tell();
    });
    join(upstream, client, () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    watch(text, seen = () => undefined) {
      wanted = text;
      tell = seen;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
