import { get } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

let world: World | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

const operator = (): Record<string, string> => ({
  authorization: `Bearer ${world?.gateway.operatorToken}`,
});

describe("the operator's routes", () => {
  it("want the gateway token, and no other", async () => {
    world = await createWorld({ workers: false });
    for (const path of [
      "/metrics",
      "/readyz?detail",
      "/admin/v1/events",
      "/admin/v1/status",
      "/admin/v1/refusals",
    ]) {
      const inQuery = `${path}${path.includes("?") ? "&" : "?"}token=${world.gateway.operatorToken}`;
      const refused = [
        await world.get(path, {}),
        await world.get(path),
        await world.get(inQuery, {}),
      ];
      expect([path, ...refused.map(({ status }) => status)]).toEqual([path, 401, 401, 401]);
      const { status, headers } = await world.get(path, operator());
      expect([path, status, headers.get("cache-control")]).toEqual([path, 200, "no-store"]);
    }
  });

  it("are on adminPort alone where one is set", async () => {
    world = await createWorld({
      start: false,
      workers: false,
      config: { gateway: { adminPort: 0 } },
    });
    const { url, adminUrl } = await world.gateway.start();
    expect(adminUrl).not.toBe(url);
    const headers = operator();
    for (const path of ["/metrics", "/readyz?detail", "/admin/v1/events"]) {
      expect([path, (await fetch(url + path, { headers })).status]).toEqual([path, 404]);
      expect([path, (await fetch(adminUrl + path, { headers })).status]).toEqual([path, 200]);
      expect([path, (await fetch(adminUrl + path)).status]).toEqual([path, 401]);
    }
    expect((await fetch(`${url}/console`)).status).toBe(404);
    expect((await fetch(`${adminUrl}/console`)).status).toBe(401);
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    const hook = {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: '{"text":"x"}',
    };
    expect((await fetch(`${url}/hooks/wake`, hook)).status).toBe(200);
    // There is nothing there without the gateway token.
    expect((await fetch(`${adminUrl}/hooks/wake`, hook)).status).toBe(401);
  });

  it("tell in detail what is not as it should be", async () => {
    world = await createWorld({ workers: false });
    world.write("rouse.json5", "{ hooks: { enabled: true, token: 'short' }, nonsense: 1 }");
    const reloaded = await world.admin("/admin/v1/reload", { method: "POST" });
    expect(reloaded.body.error ?? reloaded.body).toMatchObject({
      issues: expect.arrayContaining([expect.objectContaining({ path: "nonsense" })]),
    });
    const { body } = await world.get("/readyz?detail", operator());
    expect(body).toMatchObject({
      ready: true,
      reloadProblems: expect.arrayContaining([expect.objectContaining({ path: "nonsense" })]),
    });
    // The config before it is still in use.
    expect((await world.post("/hooks/wake", { text: "x" })).status).toBe(200);
  });
});

describe("on a loopback bind", () => {
  it("the operator's pages and the docs are only under a loopback name or gateway.publicUrl's", async () => {
    world = await createWorld({
      start: false,
      workers: false,
      config: { gateway: { publicUrl: "https://hooks.example.com" } },
    });
    const ask = async (origin: string, path: string) =>
      (await world?.gateway.fetch(new Request(origin + path, { headers: operator() })))?.status;
    const paths = ["/console/style.css", "/admin/v1/status", "/docs", "/docs/style.css"];
    for (const origin of [
      "http://127.0.0.1:9",
      "http://localhost:9",
      "http://[::1]:9",
      "http://hooks.example.com",
    ])
      for (const path of paths)
        expect([origin, path, await ask(origin, path)]).toEqual([origin, path, 200]);
    for (const origin of [
      "http://evil.example.com",
      "http://127.0.0.1.evil.example.com",
      "https://abc.ngrok.app",
    ])
      // (The console itself is 503 in a clone until it is built.)
      for (const path of [...paths, "/console", "/admin"])
        expect([origin, path, await ask(origin, path)]).toEqual([origin, path, 403]);
  });

  it("a tunnel's name reaches all that has a credential of its own, and the probes", async () => {
    const platform = { apiKeys: [{ id: "web", key: "rk_web-key-0123456789-0123456789" }] };
    world = await createWorld({ start: false, workers: false, config: { platform } });
    const ask = async (path: string, token?: string, body?: string) => {
      const headers = {
        "content-type": "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      };
      const init = body === undefined ? { headers } : { method: "POST", headers, body };
      return (await world?.gateway.fetch(new Request(`https://abc.ngrok.app${path}`, init)))
        ?.status;
    };
    expect(await ask("/hooks/wake", TOKEN, '{"text":"x"}')).toBe(200);
    expect(await ask("/hooks/wake", "wrong", '{"text":"x"}')).toBe(401);
    expect(await ask("/v1/models", "rk_web-key-0123456789-0123456789")).toBe(200);
    expect(await ask("/v1/models", "wrong")).toBe(401);
    // No service answers there: the route does.
    expect(await ask("/channels/telegram/x", undefined, "{}")).toBe(404);
    for (const path of ["/livez", "/readyz", "/openapi.json"])
      expect([path, await ask(path)]).toEqual([path, 200]);
    expect(await ask("/metrics")).toBe(401);
    expect(await ask("/metrics", world.gateway.operatorToken)).toBe(200);
  });

  it("the check holds on adminPort too", async () => {
    world = await createWorld({
      start: false,
      workers: false,
      config: { gateway: { adminPort: 0 } },
    });
    const { adminUrl } = await world.gateway.start();
    const { port } = new URL(adminUrl);
    const ask = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = {
          host: "127.0.0.1",
          port,
          path: "/admin/v1/status",
          headers: { host, ...operator() },
        };
        get(options, (response) => resolve(response.resume().statusCode)).on("error", reject);
      });
    const hosts = ["127.0.0.1", "evil.example.com", "rouse.1"];
    expect(await Promise.all(hosts.map(ask))).toEqual([200, 403, 403]);
  });
});

describe("what is public", () => {
  it("health, and the document with its pages unless gateway.docs is false", async () => {
    world = await createWorld({
      start: false,
      workers: false,
      config: { gateway: { docs: false } },
    });
    expect((await world.get("/livez", {})).status).toBe(200);
    expect((await world.get("/readyz", {})).status).toBe(200);
    for (const path of ["/openapi.json", "/docs", "/docs/style.css"])
      expect([path, (await world.get(path, {})).status]).toEqual([path, 404]);
  });

  it("answers everything else with JSON, whatever it is", async () => {
    world = await createWorld({ start: false, workers: false });
    for (const [method, path] of [
      ["POST", "/"],
      ["POST", "/nothing"],
      ["GET", "/hooks"],
      ["DELETE", "/hooks/runs/x"],
      ["GET", "/admin"],
    ] as const) {
      const answer = await world.gateway.fetch(new Request(`http://127.0.0.1${path}`, { method }));
      expect([path, answer.status >= 400, answer.headers.get("content-type")]).toEqual([
        path,
        true,
        "application/json",
      ]);
      expect(await answer.json()).toMatchObject({
        ok: false,
        error: { code: expect.any(String), message: expect.any(String) },
        requestId: expect.any(String),
      });
    }
  });
});
