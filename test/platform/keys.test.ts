import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { createCli } from "../cli/world.ts";
import { createWorld } from "../e2e/world.ts";
import { KEY, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

const open = async (...options: Parameters<typeof platformWorld>): Promise<PlatformWorld> =>
  (world = await platformWorld(...options));
const hash = createHash("sha256").update("rk_hashed-0123456789").digest("hex");
const statusOf = async (on: PlatformWorld, key: string, path = "/v1/models") =>
  (await on.ask(path, { key })).status;

describe("a key", () => {
  it("is known by itself or by its hash", async () => {
    const on = await open({
      keys: [
        { id: "hashed", hash },
        { id: "prefixed", hash: `sha256:${createHash("sha256").update("rk_p").digest("hex")}` },
      ],
    });
    expect([
      await statusOf(on, KEY),
      await statusOf(on, "rk_hashed-0123456789"),
      await statusOf(on, "rk_p"),
    ]).toEqual([200, 200, 200]);
    expect([
      await statusOf(on, hash),
      await statusOf(on, `${KEY}x`),
      await statusOf(on, ""),
    ]).toEqual([401, 401, 401]);
  });

  it("counts only as Authorization: Bearer", async () => {
    const on = await open();
    const tries: [string, Record<string, string>][] = [
      [`/v1/models?token=${KEY}`, {}],
      [`/v1/models?key=${KEY}`, {}],
      ["/v1/models", { "x-gateway-token": KEY }],
      ["/v1/models", { "x-api-key": KEY }],
      ["/v1/models", { authorization: KEY }],
      ["/v1/models", { authorization: `Basic ${Buffer.from(`web:${KEY}`).toString("base64")}` }],
      ["/v1/models", { authorization: `Bearer ${on.gateway.operatorToken}` }],
    ];
    for (const [path, headers] of tries)
      expect((await on.ask(path, { key: "", headers })).status).toBe(401);
    expect(
      (await on.ask("/v1/models", { key: "", headers: { authorization: `bearer   ${KEY}` } }))
        .status,
    ).toBe(200);
    // And nowhere else.
    expect((await on.ask("/admin/v1/keys")).status).toBe(401);
    expect((await on.ask("/hooks/agent", { method: "POST", body: "{}" })).status).toBe(401);
  });

  it("that is guessed is slowed down, and the right one never", async () => {
    const on = await open();
    const wrong = [];
    for (let n = 0; n < 21; n++) wrong.push(await statusOf(on, `rk_guess-${n}`));
    expect(wrong.slice(-2)).toEqual([401, 429]);
    expect(await statusOf(on, KEY)).toBe(200);
  });

  it("does what its scopes say", async () => {
    const on = await open({
      keys: [
        { id: "talks", key: "rk_talks-0123456789", scopes: ["chat"] },
        { id: "looks", key: "rk_looks-0123456789", scopes: ["agents:read"] },
        { id: "none", key: "rk_none-0123456789-", scopes: ["knowledge:read"] },
      ],
    });
    const chat = async (key: string) => (await on.chat({}, { key })).status;
    expect([await chat("rk_talks-0123456789"), await statusOf(on, "rk_talks-0123456789")]).toEqual([
      200, 403,
    ]);
    expect([await chat("rk_looks-0123456789"), await statusOf(on, "rk_looks-0123456789")]).toEqual([
      403, 200,
    ]);
    for (const path of ["/v1/models", "/v1/models/ops", "/v1/agents"])
      expect(await statusOf(on, "rk_none-0123456789-", path)).toBe(403);
    const { status, body } = await on.call(
      "/v1/responses",
      { model: "ops", input: "x" },
      { key: "rk_none-0123456789-" },
    );
    expect([status, body.error]).toEqual([
      403,
      {
        type: "permission_error",
        code: "insufficient_scope",
        param: null,
        message: expect.stringContaining("chat"),
      },
    ]);
  });

  it("sees only its agents, and `default` among them", async () => {
    const on = await open({ keys: [{ id: "shop", key: "rk_shop-0123456789", agents: ["sales"] }] });
    const key = "rk_shop-0123456789";
    expect((await on.chat({ model: "ops" }, { key })).body.error.code).toBe("model_not_found");
    expect((await on.chat({ model: "default" }, { key })).body.model).toBe("sales");
    expect(
      ((await (await on.ask("/v1/models", { key })).json()) as { data: { id: string }[] }).data.map(
        ({ id }: { id: string }) => id,
      ),
    ).toEqual(["sales"]);
    expect(await statusOf(on, key, "/v1/models/ops")).toBe(404);
  });

  it("counts its requests by itself", async () => {
    const rateLimit = { requests: 2, per: "1h" };
    const on = await open({
      keys: ["a", "b"].map((id) => ({ id, key: `rk_limited-${id}-0123456789`, rateLimit })),
    });
    const asked = [];
    for (let n = 0; n < 3; n++) asked.push(await statusOf(on, "rk_limited-a-0123456789"));
    expect([...asked, await statusOf(on, "rk_limited-b-0123456789")]).toEqual([200, 200, 429, 200]);
  });
});

describe("the config", () => {
  it.each<[object[], string]>([
    [[{ id: "a" }], "platform.apiKeys[0]"],
    [[{ id: "a", key: KEY, hash }], "platform.apiKeys[0]"],
    [[{ id: "a", key: "short" }], "platform.apiKeys[0].key"],
    [[{ id: "a", hash: "nonsense" }], "platform.apiKeys[0].hash"],
    [[{ id: "a:b", key: KEY }], "platform.apiKeys[0].id"],
    [[{ id: "operator", key: KEY }], "platform.apiKeys[0].id"],
    [
      [
        { id: "a", key: KEY },
        { id: "a", key: `${KEY}2` },
      ],
      "platform.apiKeys[1].id",
    ],
    [[{ id: "a", key: KEY, agents: ["nobody"] }], "platform.apiKeys[0].agents[0]"],
    [[{ id: "a", key: KEY, scopes: ["all"] }], "platform.apiKeys[0].scopes[0]"],
    [[{ id: "a", key: "gateway-token-0123456789" }], "platform.apiKeys[0].key"],
  ])("%j is wrong at %s", async (apiKeys, path) => {
    const cli = await createCli();
    await cli.write("rouse.json", {
      gateway: { token: "gateway-token-0123456789" },
      platform: { apiKeys },
    });
    const loaded = await loadConfig({ cwd: cli.dir, env: {} });
    await cli.close();
    expect(loaded.ok ? [] : loaded.issues.map((issue) => issue.path)).toEqual([path]);
  });

  it("shows no key when it is printed", async () => {
    const on = await open({ keys: [{ id: "hashed", hash }] });
    const { body } = await on.admin("/admin/v1/config");
    expect(JSON.stringify(body)).not.toContain(KEY);
  });
});

describe("keys that a command makes", () => {
  const make = async (on: PlatformWorld, body: object) =>
    on.admin("/admin/v1/keys", { method: "POST", body: JSON.stringify(body) });

  it("are shown once, kept as a hash, and refused once they are revoked", async () => {
    const on = await open();
    const { status, body } = await make(on, {
      id: "phone",
      agents: ["sales"],
      rateLimit: { requests: 5, per: "1m" },
    });
    expect([status, body.key]).toEqual([
      200,
      {
        id: "phone",
        tenant: "phone",
        agents: ["sales"],
        scopes: ["chat", "agents:read"],
        rateLimit: { requests: 5, perSeconds: 60 },
        userAsSession: false,
        clean: "images",
        source: "store",
        createdAt: expect.stringMatching(/Z$/),
      },
    ]);
    expect(body.secret).toMatch(/^rk_[\w-]{43}$/);
    expect(await statusOf(on, body.secret)).toBe(200);
    const { body: list } = await on.admin("/admin/v1/keys");
    expect(list.keys.map(({ id, source }: { id: string; source: string }) => [id, source])).toEqual(
      [
        ["web", "config"],
        ["other", "config"],
        ["phone", "store"],
      ],
    );
    expect(JSON.stringify(list)).not.toContain(body.secret);
    const state = join(on.dir, ".rouse");
    const kept = readdirSync(state).map((name) => readFileSync(join(state, name), "latin1"));
    expect(kept.join("")).toContain(createHash("sha256").update(body.secret).digest("hex"));
    expect(kept.join("")).not.toContain(body.secret);
    expect((await on.admin("/admin/v1/keys/phone", { method: "DELETE" })).status).toBe(200);
    expect(await statusOf(on, body.secret)).toBe(401);
  });

  it("give way to a key of the config with their id", async () => {
    const on = await open();
    const { body } = await make(on, { id: "phone" });
    const config = JSON.parse(readFileSync(join(on.dir, "rouse.json5"), "utf8")) as {
      platform: { apiKeys: object[] };
    };
    config.platform.apiKeys.push({ id: "phone", key: "rk_phone-0123456789" });
    on.write("rouse.json5", config);
    expect(await on.gateway.reload()).toMatchObject({ ok: true });
    expect([await statusOf(on, body.secret), await statusOf(on, "rk_phone-0123456789")]).toEqual([
      401, 200,
    ]);
  });

  it("outlive a restart", async () => {
    const first = await open();
    const { body } = await make(first, { id: "phone" });
    await first.gateway.stop();
    const again = await createWorld({
      dir: first.dir,
      config: JSON.parse(readFileSync(join(first.dir, "rouse.json5"), "utf8")) as object,
    });
    const headers = { authorization: `Bearer ${body.secret}` };
    expect((await fetch(`${again.url}/v1/models`, { headers })).status).toBe(200);
    await again.stop();
  });

  it("are refused if they name what is not there, or may not be", async () => {
    const on = await open();
    for (const [body, code] of [
      [{ id: "web" }, "usage"],
      [{ id: "operator" }, "usage"],
      [{ id: "a:b" }, "usage"],
      [{ id: "a", agents: ["nobody"] }, "unknown_agent"],
      [{ id: "a", scopes: ["all"] }, "usage"],
      [{ id: "a", rateLimit: { requests: 0, per: "1m" } }, "usage"],
      [{ id: "a", key: "chosen" }, "usage"],
    ] as const) {
      const { status, body: answer } = await make(on, body);
      expect([body, status, answer.error.code]).toEqual([body, 400, code]);
    }
  });

  it("are not made twice, not even by two commands together", async () => {
    const on = await open();
    const made = await Promise.all([
      make(on, { id: "phone" }),
      make(on, { id: "phone" }),
      make(on, { id: "pad" }),
    ]);
    expect(made.map(({ status }) => String(status)).toSorted()).toEqual(["200", "200", "400"]);
    expect((await on.admin("/admin/v1/keys/nobody", { method: "DELETE" })).status).toBe(404);
    expect(
      (await on.admin("/admin/v1/keys/web", { method: "DELETE" })).body.error.message,
    ).toContain("platform.apiKeys");
  });
});
