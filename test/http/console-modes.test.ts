import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";

const ORDER = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
};
const CHANGE = {
  kind: "replace",
  mapping: "order",
  text: JSON.stringify({ ...ORDER, messageTemplate: "An order: {{id}}" }),
};
let world: World;
let later = 0;
const open = async (gateway: object = {}): Promise<void> => {
  later = 0;
  const clock = { ...REAL.clock, monotonic: () => performance.now() + later };
  world = await createWorld({
    workers: false,
    logLevel: "trace",
    clock,
    config: { gateway, hooks: { mappings: [ORDER] } },
  });
};
afterEach(() => world.stop());

const ask = (path: string, init: RequestInit = {}) =>
  fetch(world.url + path, { redirect: "manual", ...init });
const signIn = async (cookie = ""): Promise<string> => {
  const body = new URLSearchParams({ token: world.gateway.operatorToken });
  const answer = await ask("/console/session", { method: "POST", body, headers: { cookie } });
  return (answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
};
const post = async (path: string, body: unknown, headers: Record<string, string>) => {
  const answer = await ask(`/admin/v1${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", "x-rouse-console": "1", ...headers },
  });
  return {
    status: answer.status,
    body: (await answer.json()) as { error?: { code: string }; result?: { landed: boolean } },
  };
};
const readConfig = (): string => readFileSync(join(world.dir, "rouse.json5"), "utf8");

describe("gateway.console", () => {
  it.each([
    ["edit", {}],
    ["edit", { host: "localhost" }],
    ["read", { publicUrl: "https://hooks.example.com" }],
    ["read", { host: "0.0.0.0" }],
    ["edit", { host: "0.0.0.0", console: "edit" }],
    ["read", { console: "read" }],
  ])("is %s with %j, for the session of a browser over the network", async (mode, gateway) => {
    await open(gateway);
    const cookie = await signIn();
    const shown = (await (
      await ask("/admin/v1/mappings", { headers: { cookie, "x-rouse-console": "1" } })
    ).json()) as { console: string };
    const changed = await post("/changes", { change: CHANGE }, { cookie });
    expect([shown.console, changed.status, readConfig().includes("An order:")]).toEqual(
      mode === "edit" ? ["edit", 200, true] : ["read", 403, false],
    );
  });

  it("off answers 404 and says why, and no session opens the admin API; the token does", async () => {
    await open({ console: "off" });
    for (const path of ["/console", "/console/style.css", "/console/assets/index.js"]) {
      const answer = await ask(path);
      expect([answer.status, await answer.text()]).toEqual([
        404,
        expect.stringContaining('gateway.console: "off"'),
      ]);
    }
    expect(
      (
        await ask("/console/session", {
          method: "POST",
          body: new URLSearchParams({ token: world.gateway.operatorToken }),
        })
      ).status,
    ).toBe(404);
    expect((await world.admin("/admin/v1/status")).status).toBe(200);
  });

  it("read refuses what writes files, for sessions alone; evaluating and operating still work", async () => {
    await open({ console: "read" });
    const cookie = await signIn();
    const before = readConfig();
    for (const [path, body] of [
      ["/changes", { change: CHANGE }],
      ["/fixtures", { event: "evt_1" }],
      ["/proposals", { name: "a", events: ["evt_1"] }],
      ["/store/backup", { file: "/tmp/x" }],
      ["/hooks/secrets", { path: "shop", id: 1 }],
    ] as const)
      expect(await post(path, body, { cookie }), path).toMatchObject({
        status: 403,
        body: { error: { code: "console_read_only" } },
      });
    expect((await post("/changes/check", { change: CHANGE }, { cookie })).status).toBe(200);
    expect((await post("/reload", {}, { cookie })).status).toBe(200);
    expect(readConfig()).toBe(before);
    const byToken = await world.admin("/admin/v1/changes", {
      method: "POST",
      body: JSON.stringify({ change: CHANGE }),
    });
    expect(byToken.body.result.landed).toBe(true);
  });
});

describe("a session that changes files", () => {
  beforeEach(() => open());

  it("shows the token again after 15 minutes; what is only looked at needs no new proof", async () => {
    const cookie = await signIn();
    later = 14 * 60_000;
    expect((await post("/changes", { change: CHANGE }, { cookie })).status).toBe(200);
    later = 16 * 60_000;
    const back = { ...CHANGE, text: JSON.stringify(ORDER) };
    const before = readConfig();
    expect(await post("/changes", { change: back }, { cookie })).toMatchObject({
      status: 403,
      body: { error: { code: "token_needed" } },
    });
    expect(readConfig()).toBe(before);
    expect((await post("/changes/check", { change: back }, { cookie })).status).toBe(200);
    const again = await signIn(cookie);
    expect((await post("/changes", { change: back }, { cookie: again })).status).toBe(200);
    // The session before it has ended.
    expect((await post("/changes/check", { change: back }, { cookie })).status).toBe(401);
  });

  it("is logged with its address and the config that it was made from", async () => {
    const from = (await world.admin("/admin/v1/status")).body.status.snapshot as string;
    expect(
      (await post("/changes", { change: CHANGE }, { cookie: await signIn() })).body.result?.landed,
    ).toBe(true);
    expect(world.logged.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({
        msg: "the config was changed",
        by: "console 127.0.0.1",
        change: "replace",
        from,
      }),
    );
  });
});
