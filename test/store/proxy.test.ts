import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProxy, type Proxy } from "./proxy.ts";

const pause = (ms = 50): Promise<void> => new Promise((done) => setTimeout(done, ms));

describe("the proxy of tests", () => {
  let proxy: Proxy;
  /** What the server got. */
  let got = "";
  const clients: Socket[] = [];
  const server = createServer((socket) => {
    socket.on("data", (bytes) => {
      got += bytes.toString();
      socket.write(`re:${bytes.toString()}`);
    });
    socket.on("error", () => undefined);
  });

  beforeEach(async () => {
    got = "";
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    proxy = await createProxy(new URL(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy();
    proxy.close();
    await new Promise((done) => server.close(done));
  });

  /** A connection, and what it has been answered. */
  const open = async (): Promise<{ send(text: string): Promise<void>; heard(): string }> => {
    const client = connect(proxy.port, "127.0.0.1");
    clients.push(client);
    let heard = "";
    client.on("data", (bytes) => (heard += bytes.toString()));
    await once(client, "connect");
    return {
      async send(text) {
        client.write(text);
        await pause();
      },
      heard: () => heard,
    };
  };

  it("keeps a connection silent that has lost bytes, in both directions", async () => {
    const [a, b] = [await open(), await open()];
    await a.send("1");
    await b.send("2");
    proxy.set("hanging");
    await a.send("lost");
    const c = await open();
    await c.send("lost too");
    proxy.set("open");
    await a.send("late");
    await c.send("late");
    expect([got, a.heard(), c.heard()]).toEqual(["12", "re:1", ""]);
    // A connection that has lost nothing goes on, and a new one works.
    await b.send("3");
    await (await open()).send("4");
    expect([got, b.heard()]).toEqual(["1234", "re:2re:3"]);
  });

  it("holds back while it is paused, also on a connection that is made meanwhile", async () => {
    const a = await open();
    proxy.set("paused");
    await a.send("1");
    const b = await open();
    await b.send("2");
    expect(got).toBe("");
    proxy.set("open");
    await pause();
    expect([...got].toSorted().join("")).toBe("12");
    expect([a.heard(), b.heard()]).toEqual(["re:1", "re:2"]);
  });
});
