import { afterEach, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";

let world: World;
afterEach(() => world.stop());

const CANARY = "canary-c41d";
interface Line {
  level: string;
  msg: string;
  path?: string;
  status?: number;
  reason?: string;
}
const rejected = (): Line[] =>
  world.logged
    .map((line) => JSON.parse(line) as Line)
    .filter(({ msg }) => msg === "a request was rejected");

it("rejected requests: each has one line in the log, with reason and address, and nothing of its body, query or headers", async () => {
  world = await createWorld({
    logLevel: "trace",
    config: {
      gateway: { trustedProxies: ["127.0.0.1"] },
      platform: { apiKeys: [{ id: "k", key: `key-${CANARY}-0123456789` }] },
      hooks: {
        maxBodyBytes: 1000,
        mappings: [
          { id: "p", match: { path: "private" }, allowIps: ["10.0.0.1"], messageTemplate: "x" },
        ],
      },
    },
  });
  const send = async (path: string, init: RequestInit): Promise<number> => {
    const headers = {
      "x-forwarded-for": "203.0.113.9",
      authorization: `Bearer ${TOKEN}`,
      ...(init.headers as object),
    };
    const answer = await fetch(`${world.url}${path}`, {
      method: "POST",
      body: `{"canary":"${CANARY}"}`,
      ...init,
      headers,
    });
    await answer.text();
    return answer.status;
  };
  const json = { "content-type": "application/json" };
  const tried: [number, string, string, RequestInit][] = [
    [
      401,
      "unauthorized",
      "/hooks/agent",
      { headers: { ...json, authorization: `Bearer ${CANARY}` } },
    ],
    [400, "invalid_body", "/hooks/agent", { headers: json }],
    [400, "invalid_json", "/hooks/agent", { headers: json, body: `{${CANARY}` }],
    [403, "address_not_allowed", "/hooks/private", { headers: json }],
    [404, "not_found", "/nothing", {}],
    [405, "method_not_allowed", "/hooks/agent", { method: "PUT" }],
    [413, "body_too_large", "/hooks/agent", { headers: json, body: CANARY.repeat(200) }],
    [415, "unsupported_media_type", "/hooks/agent", { headers: { "content-type": "image/png" } }],
    [401, "invalid_api_key", "/v1/models", { method: "GET", body: null }],
    [404, "not_found", "/channels/imessage/…", {}],
    [404, "not_found", "//channels/imessage/…", {}],
  ];
  for (const [status, , path, init] of tried)
    expect([path, await send(`${path.replace("…", CANARY)}?token=${CANARY}`, init)]).toEqual([
      path,
      status,
    ]);
  expect(rejected()).toEqual(
    tried.map(([status, reason, path, { method = "POST" }]) =>
      expect.objectContaining({
        level: "info",
        method,
        path,
        status,
        reason,
        address: "203.0.113.9",
      }),
    ),
  );
  expect(world.logged.join("")).not.toContain(CANARY);
  const before = rejected().length;
  expect(await send("/hooks/wake", { headers: json, body: '{"text":"hi"}' })).toBe(200);
  expect(rejected()).toHaveLength(before);
});

it("rejected requests: the log has at most ten a second for each reason", async () => {
  let time = 0;
  const clock = { ...REAL.clock, monotonic: () => time };
  world = await createWorld({ logLevel: "trace", start: false, clock });
  const get = (path: string) => world.gateway.fetch(new Request(`http://127.0.0.1${path}`));
  for (let number = 0; number < 322; number++) await get(`/gone/${number}`);
  await get("/v1/models");
  expect(rejected().map(({ reason }) => reason)).toEqual([
    ...Array.from({ length: 10 }, () => "not_found"),
    "invalid_api_key",
  ]);
  time = 1000;
  await get("/gone");
  expect(rejected()).toHaveLength(12);
});
