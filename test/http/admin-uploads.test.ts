import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const CHUNK = Buffer.alloc(100_000, "x");
let world: World;
beforeAll(async () => {
  world = await createWorld({ config: { platform: { knowledge: { fileMb: 1 } } } });
});
afterAll(() => world?.stop());

/** Sends a document of `chunks` times 100 kB, whole only if `rest` is true; then the connection breaks. */
function send(chunks: number, rest = true): ReturnType<typeof request> {
  const sent = request(`${world.url}/admin/v1/knowledge/documents?filename=large.txt`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${world.gateway.operatorToken}`,
      "content-length": String(chunks * CHUNK.length),
    },
  });
  sent.on("error", () => undefined);
  for (let n = 0; n < (rest ? chunks : chunks - 1); n++) sent.write(CHUNK);
  if (rest) sent.end();
  return sent;
}

it("uploads: the answer says why a document is too large, once the sender has sent all of it", async () => {
  for (const chunks of [11, 30, 100]) {
    const [response] = (await once(send(chunks), "response")) as [IncomingMessage];
    const answer = await text(response);
    expect([response.statusCode, JSON.parse(answer || "{}")]).toEqual([
      413,
      {
        ok: false,
        error: { code: "body_too_large", message: "the file has more than 1000000 bytes" },
        requestId: expect.any(String),
      },
    ]);
    expect(response.headers.connection).not.toBe("close");
  }
  expect((await world.admin("/admin/v1/knowledge/documents")).body.documents).toEqual([]);
});

const staged = (): string[] => {
  const folder = join(world.dir, ".rouse/tmp");
  return existsSync(folder) ? readdirSync(folder) : [];
};

it("uploads: nothing is kept of a document whose sender goes away, and no error is logged", async () => {
  const sent = send(5, false);
  await world.until(async () => staged().length === 1);
  sent.destroy();
  await world.until(async () => staged().length === 0);
  const [response] = (await once(send(5), "response")) as [IncomingMessage];
  expect([
    response.statusCode,
    (JSON.parse(await text(response)) as { document: { bytes: number } }).document.bytes,
  ]).toEqual([200, 5 * CHUNK.length]);
  expect((await world.admin("/admin/v1/knowledge/documents")).body.documents).toHaveLength(1);
  expect(world.logged.join("\n")).not.toContain("failed unexpectedly");
});
