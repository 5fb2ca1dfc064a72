import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { createWorld } from "../e2e/world.ts";

const PAGE = readFileSync(join(resolve(import.meta.dirname, "../.."), "docs/plugins.md"), "utf8");
const CODE =
  [...PAGE.matchAll(/```ts\n([^]*?)```/g)]
    .map((found) => found[1] ?? "")
    .find((code) => code.includes("plugins/knock.ts")) ?? "";

it("docs/plugins.md: the page's channel receives messages, answers in their room, and keeps its cursor over a restart", async () => {
  const written = [
    { id: "1", author: "ann", room: "kitchen", text: "Who is there?" },
    { id: "2", author: "eve", room: "kitchen", text: "Let me in" },
  ];
  const answered: { room: string; text: string }[] = [];
  const asked: string[] = [];
  const server = createServer((request, response) => {
    expect(request.headers.authorization).toBe("Bearer a-token");
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      if (request.method === "POST") {
        answered.push({ room: pathname.split("/")[2] ?? "", text });
        return void response.end();
      }
      const after = Number(searchParams.get("after"));
      asked.push(String(after));
      const messages = written.slice(after);
      setTimeout(
        () => response.end(JSON.stringify({ messages, next: String(after + messages.length) })),
        messages.length > 0 ? 0 : 20,
      );
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = { channels: { knock: { apiUrl, token: "a-token", allowFrom: ["ann"] } } };
  const files = { "plugins/knock.ts": CODE };
  let world = await createWorld({ files, config });
  const { dir } = world;
  await world.until(async () => answered.length > 0);
  expect(answered).toMatchObject([
    { room: "kitchen", text: expect.stringContaining("[no model]") as unknown },
  ]);
  await world.until(async () => asked.at(-1) === "2");
  const { events } = (await world.admin("/admin/v1/events")).body;
  expect(events.map((event: { outcome: string }) => event.outcome)).toEqual([
    "skipped",
    "accepted",
  ]);
  await world.gateway.stop();
  asked.length = 0;
  world = await createWorld({ dir, files, config });
  await world.until(async () => asked.length > 0);
  expect(asked[0]).toBe("2");
  await world.stop();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});
