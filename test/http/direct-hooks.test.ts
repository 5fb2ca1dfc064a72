import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { createDirectHooks } from "../../src/http/direct-hooks.ts";
import type { Snapshot } from "../../src/intake/types.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { speak } from "./raw.ts";

const BASIC = { user: "u", password: "basic-password-0123456789" };

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: {
      hooks: {
        maxBodyBytes: 5000,
        mappings: [
          { id: "skips", match: { path: "skips", payload: { yes: 1 } }, messageTemplate: "x" },
          { id: "deep", match: { path: "deep/er" }, messageTemplate: "{{title}}", deliver: false },
          {
            id: "basic",
            match: { path: "basic" },
            auth: BASIC,
            messageTemplate: "x",
            deliver: false,
          },
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const json = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
const form = { ...json, "content-type": "application/x-www-form-urlencoded" };
const basic = `Basic ${Buffer.from(`${BASIC.user}:${BASIC.password}`).toString("base64")}`;
const requests: [what: string, path: string, init: RequestInit][] = [
  ["a wake", "/hooks/wake", { headers: json, body: '{"text":"hi"}' }],
  [
    "a run",
    "/hooks/agent",
    { headers: json, body: '{"message":"hi","deliver":false,"sessionKey":"k"}' },
  ],
  [
    "a run with an unknown field",
    "/hooks/agent",
    { headers: json, body: '{"message":"hi","deliver":false,"x":1}' },
  ],
  ["slashes at the end", "/hooks/wake//", { headers: json, body: '{"text":"hi"}' }],
  ["a path of two parts", "/hooks/deep/er", { headers: json, body: '{"title":"t"}' }],
  ["an encoded path", "/hooks/%77ake", { headers: json, body: '{"text":"hi"}' }],
  ["a dot segment", "/hooks/./wake", { headers: json, body: '{"text":"hi"}' }],
  ["a path in capitals", "/hooks/WAKE", { headers: json, body: '{"text":"hi"}' }],
  [
    "a token in the query",
    `/hooks/wake?token=${TOKEN}`,
    { headers: { "content-type": "application/json" }, body: '{"text":"hi"}' },
  ],
  [
    "basic authentication",
    "/hooks/basic",
    { headers: { ...json, authorization: basic }, body: "{}" },
  ],
  ["a form", "/hooks/wake", { headers: form, body: "text=hi" }],
  ["no body", "/hooks/wake", { headers: json, body: "" }],
  ["an event that no mapping takes", "/hooks/skips", { headers: json, body: "{}" }],
  [
    "no token",
    "/hooks/wake",
    { headers: { "content-type": "application/json" }, body: '{"text":"hi"}' },
  ],
  ["an unknown path", "/hooks/nothing", { headers: json, body: "{}" }],
  ["invalid JSON", "/hooks/wake", { headers: json, body: "{" }],
  ["a wrong type", "/hooks/wake", { headers: json, body: '{"text":1}' }],
  [
    "a body that is too large",
    "/hooks/wake",
    { headers: json, body: JSON.stringify({ text: "x".repeat(6000) }) },
  ],
  ["an image", "/hooks/wake", { headers: { ...json, "content-type": "image/png" }, body: "x" }],
  ["another method", "/hooks/wake", { method: "PUT", headers: json, body: "{}" }],
];

/** The answer without its ids and times, which differ. Both paths must give the same. */
async function comparable(answer: Response): Promise<object> {
  const body = (await answer.text())
    .replaceAll(/(evt|run|req|sev)_[0-9a-v]+/g, "$1_…")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "…");
  const headers = Object.fromEntries(
    ["content-type", "location", "allow", "deprecation", "retry-after", "x-request-id"].map(
      (name) => [name, answer.headers.get(name)?.replaceAll(/(evt|run|req)_[0-9a-v]+/g, "$1_…")],
    ),
  );
  return { status: answer.status, body, headers };
}

describe("a hook over the socket is answered as through `fetch`", () => {
  it.each(requests)("%s", async (_what, path, given) => {
    const init = { method: "POST", ...given };
    const overSocket = await comparable(await fetch(`${world.url}${path}`, init));
    expect(overSocket).toEqual(
      await comparable(await world.gateway.fetch(new Request(`${world.url}${path}`, init))),
    );
  });
});

const head = (path: string, length: number, token = TOKEN): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

it("answers pipelined requests in their order, and closes a connection whose body it has not read", async () => {
  const wake = '{"text":"hi"}';
  const answer = await speak(
    world.url,
    `${head("/hooks/wake", wake.length)}${wake}${head("/hooks/nothing", 2)}{}${head("/hooks/wake", 90, "wrong")}{`,
  );
  expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 404", "HTTP/1.1 401"]);
  expect(
    answer.match(/connection: (?:close|keep-alive)/gi)?.map((line) => line.toLowerCase()),
  ).toEqual(["connection: keep-alive", "connection: keep-alive", "connection: close"]);
});

it("direct hooks: what happens when an answer cannot be written", async () => {
  const lines: string[] = [];
  const direct = createDirectHooks({
    answer: async () => ({ status: 200, headers: { "x-name": "Zażółć" }, body: null }),
    snapshot: () => ({ config: { hooks: { path: "/hooks" } } }) as Snapshot,
    rejections: { note: () => undefined },
    log: createLogger("error", { write: (line) => void lines.push(line) }),
  });
  const server = createServer((incoming, outgoing) => void direct(incoming, outgoing));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await expect(fetch(`http://127.0.0.1:${port}/hooks/wake`, { method: "POST" })).rejects.toThrow();
  expect(lines).toEqual([expect.stringContaining("ERR_INVALID_CHAR")]);
  server.close();
});
