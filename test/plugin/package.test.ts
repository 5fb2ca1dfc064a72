import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const SECRET = "the-secret-of-the-depot";
const KEY = "rk-a-key-of-the-api-0123456789";

/** A package with each kind that this test covers, as its author would build it. */
const PACKAGE = {
  "node_modules/rouse-plugin-depot/package.json": {
    name: "rouse-plugin-depot",
    version: "1.0.0",
    type: "module",
    exports: "./lib/main.js",
  },
  "node_modules/rouse-plugin-depot/lib/shorten.js": `export default ({ payload }) => ({ message: "Crate " + payload.crate.slice(0, 3) });\n`,
  "node_modules/rouse-plugin-depot/lib/main.js": `
import { definePlugin } from "rouse/plugin";
import { z } from "zod";
export default definePlugin({
  id: "depot",
  config: z.strictObject({ dock: z.string(), token: z.string() }),
  setup: ({ config, print }) => ({
    channel: { defaultTo: config.dock, send: async ({ to, text }) => (print("depot " + to + ": " + text), { status: "sent" }) },
    routes: { auth: config.token.includes("api") ? "api" : config.token.includes("open") ? "none" : "operator", fetch: async (request) => new Response(new URL(request.url).pathname + " " + (await request.text())) },
  }),
  section: "channels",
  schemes: { "depot-seal": { algorithm: "hmac-sha256", signature: { header: "x-depot-seal" } } },
  transforms: { shorten: new URL("./shorten.js", import.meta.url).href },
  presets: [
    {
      id: "depot",
      version: 1,
      auth: { scheme: "depot-seal" },
      mappings: [{ id: "depot.crate", match: { path: "depot" }, messageTemplate: "{{crate}}", channel: "depot", transform: { module: "depot/shorten" } }],
    },
  ],
});
`,
};

const open = (token: string, files: Record<string, string | object> = {}): Promise<World> =>
  createWorld({
    files: { ...PACKAGE, ...files },
    config: {
      hooks: { presets: [{ use: "depot", secret: SECRET }] },
      channels: { depot: { dock: "north", token } },
      plugins: { load: ["rouse-plugin-depot"] },
      platform: { apiKeys: [{ id: "web", key: KEY }] },
    },
  });
const seal = (body: string, secret = SECRET): Record<string, string> => ({
  "content-type": "application/json",
  "x-depot-seal": createHmac("sha256", secret).update(body).digest("hex"),
});

describe("a plugin that is installed as a package", () => {
  let world: World;
  beforeAll(async () => void (world = await open("operator-token")));
  afterAll(() => world.stop());
  const call = async (at: World, path: string, token?: string) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const answer = await at.gateway.fetch(
      new Request(`http://127.0.0.1${path}`, { method: "POST", body: "hi", headers }),
    );
    return answer.status === 200 ? answer.text() : answer.status;
  };

  it("takes what its scheme signs, through its preset and its transform, and its channel delivers the reply", async () => {
    const body = JSON.stringify({ crate: "abcdef" });
    const send = (headers: Record<string, string>): Promise<Response> =>
      world.gateway.fetch(
        new Request("http://127.0.0.1/hooks/depot", { method: "POST", body, headers }),
      );
    expect((await send(seal(body, "another-secret-0123"))).status).toBe(401);
    expect((await send({ "content-type": "application/json" })).status).toBe(401);
    expect((await send(seal(body))).status).toBe(202);
    const printed = await world.until(async () =>
      world.printed.find((line) => line.includes("Crate abc")),
    );
    expect(printed).toMatch(/^depot north: [^]*Crate abc(?!d)/);
  });

  it("has routes for those whom it names: the operator", async () => {
    expect(await call(world, "/plugins/depot/a/b", world.gateway.operatorToken)).toBe(
      "/plugins/depot/a/b hi",
    );
    expect(await call(world, "/plugins/depot/a/b")).toBe(401);
    expect(await call(world, "/plugins/depot/a/b", KEY)).toBe(401);
    expect(await call(world, "/plugins/other/a", world.gateway.operatorToken)).toBe(404);
  });

  it("has routes for those whom it names: who has an API key, or everyone", async () => {
    const api = await open("api-token");
    expect(await call(api, "/plugins/depot/a", KEY)).toBe("/plugins/depot/a hi");
    expect([
      await call(api, "/plugins/depot/a"),
      await call(api, "/plugins/depot/a", "rk-wrong"),
    ]).toEqual([401, 401]);
    const guesses = await Promise.all(
      Array.from({ length: 20 }, () => call(api, "/plugins/depot/a", "rk-wrong")),
    );
    expect(guesses).toContain(429);
    await api.stop();
    const everyone = await open("open-token");
    expect(await call(everyone, "/plugins/depot/a")).toBe("/plugins/depot/a hi");
    await everyone.stop();
  });

  it("is listed, and its secrets are masked", async () => {
    const { plugins } = (await world.admin("/admin/v1/plugins")).body;
    expect(plugins).toContainEqual({
      id: "depot",
      origin: "rouse-plugin-depot",
      channel: true,
      configured: true,
    });
    const config = JSON.stringify((await world.admin("/admin/v1/config")).body);
    expect(config).toContain("north");
    expect(config).not.toContain("operator-token");
  });

  it("may not bring a scheme that Rouse has, nor a transform beside secrets", async () => {
    const main = PACKAGE["node_modules/rouse-plugin-depot/lib/main.js"];
    const twice = open("x", {
      "node_modules/rouse-plugin-depot/lib/main.js": main.replaceAll("depot-seal", "github"),
    });
    await expect(twice).rejects.toThrow(
      'Rouse and the plugin "depot" both bring the signature scheme "github"',
    );
    const exposed = open("x", {
      "shorten.js": PACKAGE["node_modules/rouse-plugin-depot/lib/shorten.js"],
      "node_modules/rouse-plugin-depot/lib/main.js": main.replace(
        '"./shorten.js"',
        '"../../../shorten.js"',
      ),
    });
    await expect(exposed).rejects.toThrow("of the plugin's module contains the config file");
  });
});

it("plugins.settings: secrets below it are masked, and references are filled in", async () => {
  const plugin = `import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "box",
  config: z.strictObject({ apiToken: z.string(), label: z.string() }),
  source: ({ config, print }) => ({ start: async (signal) => { print("box " + config.apiToken); await new Promise((done) => signal.addEventListener("abort", done)); } }),
});`;
  const settings = { box: { apiToken: { file: "token.txt" }, label: "${LABEL}" } };
  const world = await createWorld({
    files: { "plugins/box.ts": plugin, "token.txt": "canary-token" },
    env: { LABEL: "shelf" },
    config: { plugins: { settings } },
  });
  await world.until(async () => world.printed.includes("box canary-token"));
  const config = JSON.stringify((await world.admin("/admin/v1/config")).body);
  expect(config).toContain("shelf");
  expect(config).not.toContain("canary-token");
  await world.stop();
  const wrong = createWorld({
    start: false,
    files: { "plugins/box.ts": plugin },
    config: { plugins: { settings: { box: { apiTokn: "x" }, bx: {} } } },
  });
  await expect(wrong).rejects.toThrow(
    /plugins\.settings\.box\.apiTokn: is not known[^]*plugins\.settings\.bx: no plugin has this id\. Did you mean "box"/,
  );
});
