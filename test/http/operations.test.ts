import { afterEach, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

let world: World | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

const operator = (): Record<string, string> => ({ authorization: `Bearer ${world?.gateway.operatorToken}` });

describe("the operator's routes", () => {
  it.each(["/metrics", "/readyz?detail", "/admin/v1/events", "/admin/v1/status", "/admin/v1/refusals"])(
    "%s wants the gateway token, and no other",
    async (path) => {
      world = await createWorld({ workers: false });
      expect((await world.get(path, {})).status).toBe(401);
      expect((await world.get(path)).status).toBe(401);
      expect((await world.get(`${path}${path.includes("?") ? "&" : "?"}token=${world.gateway.operatorToken}`, {})).status).toBe(401);
      const answer = await world.get(path, operator());
      expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
    },
  );

  it("are on adminPort alone where one is set", async () => {
    world = await createWorld({ start: false, workers: false, config: { gateway: { adminPort: 0 } } });
    const { url, adminUrl } = await world.gateway.start();
    expect(adminUrl).not.toBe(url);
    const headers = operator();
    for (const path of ["/metrics", "/readyz?detail", "/admin/v1/events"]) {
      expect([path, (await fetch(url + path, { headers })).status]).toEqual([path, 404]);
      expect([path, (await fetch(adminUrl + path, { headers })).status]).toEqual([path, 200]);
      expect([path, (await fetch(adminUrl + path)).status]).toEqual([path, 401]);
    }
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
    expect(body).toMatchObject({ ready: true, reloadProblems: expect.arrayContaining([expect.objectContaining({ path: "nonsense" })]) });
    // The config before it is still in use.
    expect((await world.post("/hooks/wake", { text: "x" })).status).toBe(200);
  });
});

describe("on a loopback bind", () => {
  it.each([
    ["http://127.0.0.1:9", 200],
    ["http://localhost:9", 200],
    ["http://[::1]:9", 200],
    ["http://hooks.example.com", 200],
    ["http://evil.example.com", 403],
    ["http://127.0.0.1.evil.example.com", 403],
  ])("a request for %s answers %i", async (origin, status) => {
    world = await createWorld({ start: false, workers: false, config: { gateway: { publicUrl: "https://hooks.example.com" } } });
    expect((await world.gateway.fetch(new Request(`${origin}/livez`))).status).toBe(status);
  });
});

describe("what is public", () => {
  it("health, and the document unless gateway.docs is false", async () => {
    world = await createWorld({ start: false, workers: false, config: { gateway: { docs: false } } });
    expect((await world.get("/livez", {})).status).toBe(200);
    expect((await world.get("/readyz", {})).status).toBe(200);
    expect((await world.get("/openapi.json", {})).status).toBe(404);
  });

  it("answers everything else with JSON, whatever it is", async () => {
    world = await createWorld({ start: false, workers: false });
    for (const [method, path] of [
      ["GET", "/"],
      ["POST", "/nothing"],
      ["GET", "/hooks"],
      ["DELETE", "/hooks/runs/x"],
      ["GET", "/admin"],
    ] as const) {
      const answer = await world.gateway.fetch(new Request(`http://127.0.0.1${path}`, { method }));
      expect([path, answer.status >= 400, answer.headers.get("content-type")]).toEqual([path, true, "application/json"]);
      expect(await answer.json()).toMatchObject({
        ok: false,
        error: { code: expect.any(String), message: expect.any(String) },
        requestId: expect.any(String),
      });
    }
  });
});
