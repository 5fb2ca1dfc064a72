import { connect, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { createWorld, TOKEN, type World, type WorldOptions } from "./world.ts";

let world: World;
afterEach(() => world.stop());
const open = async (options: WorldOptions = {}): Promise<World> => {
  world = await createWorld({ workers: false, ...options });
  return world;
};

/** Sends raw bytes and reads until the answer is there or the connection ends. */
function raw(send: (socket: Socket) => void, until = /\r\n\r\n[^]*$/): Promise<string> {
  const { hostname, port } = new URL(world.url);
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(Number(port), hostname, () => send(socket));
    const end = (): void => {
      socket.destroy();
      resolve(text);
    };
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (until.test(text)) end();
    });
    socket.on("close", end);
    socket.on("error", end);
  });
}
const head = (more: string): string =>
  `POST /hooks/agent HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n${more}\r\n`;

it("bodies: one that is declared too large is rejected before it is sent, and one that grows too large while it arrives", async () => {
  await open({ config: { hooks: { maxBodyBytes: 1000 } } });
  expect(await raw((socket) => socket.write(head("Content-Length: 99999999\r\n")))).toContain(
    "413",
  );
  expect(
    await raw((socket) =>
      socket.write(`${head("Transfer-Encoding: chunked\r\n")}7d0\r\n${"x".repeat(2000)}\r\n`),
    ),
  ).toContain("body_too_large");
});

it("bodies: the gateway gives up on one that does not arrive, and continues after one that was cut off", async () => {
  await open({ config: { hooks: { bodyTimeoutSeconds: 0.3 } } });
  expect(await raw((socket) => socket.write(`${head("Content-Length: 50\r\n")}{"mess`))).toMatch(
    /408[^]*body_timeout/,
  );
  await raw((socket) => {
    socket.write(`${head("Content-Length: 50\r\n")}{"mess`);
    setTimeout(() => socket.destroy(), 50);
  });
  const body = '{"message":"after"}';
  expect(
    await raw((socket) =>
      socket.write(
        `${head("Transfer-Encoding: chunked\r\n")}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      ),
    ),
  ).toContain("202");
  await world.until(async () => {
    const { body: list } = await world.admin("/admin/v1/events");
    return JSON.stringify(list).includes("cut off");
  });
});
