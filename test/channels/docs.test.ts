import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { createWorld } from "../e2e/world.ts";
import { serve } from "./wire.ts";

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
  const { url: apiUrl, close } = await serve(async ({ method, path, query, headers, bytes }) => {
    expect(headers.authorization).toBe("Bearer a-token");
    if (method === "POST") {
      answered.push({ room: path.split("/")[2] ?? "", text: bytes.toString() });
      return { status: 200 };
    }
    const after = Number(query.get("after"));
    asked.push(String(after));
    const messages = written.slice(after);
    await new Promise((done) => setTimeout(done, messages.length > 0 ? 0 : 20));
    return { status: 200, json: { messages, next: String(after + messages.length) } };
  });
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
  await close();
});
