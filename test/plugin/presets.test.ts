import { createHmac } from "node:crypto";
import { join } from "node:path";
import { definePlugin, type DeliveryView, type Plugin } from "rouse";
import { describe, expect, it } from "vitest";
import { testPreset } from "../../src/testing/preset.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { embed, hook, keepingPlugin, TOKEN, until } from "../library/support.ts";
import { PRESETS } from "../mapping/world.ts";
import { SENDERS } from "../signatures/senders.ts";

const SECRET = "a-long-enough-secret";
const preset = (change: object = {}) => ({
  id: "orders",
  version: 1 as const,
  auth: { scheme: "github" },
  mappings: [
    {
      id: "orders.new",
      match: { path: "orders", payload: { type: "order" } },
      messageTemplate: "Order {{id}}",
    },
  ],
  ...change,
});
const signed = (body: object, secret = SECRET): Request => {
  const raw = JSON.stringify(body);
  const signature = `sha256=${createHmac("sha256", secret).update(raw).digest("hex")}`;
  const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
  return new Request("http://127.0.0.1/hooks/orders", { method: "POST", headers, body: raw });
};
const file = (...presets: object[]): string =>
  `import { definePlugin } from "rouse/plugin";\nexport default definePlugin({ id: "shop", presets: ${JSON.stringify(presets)} });\n`;
const use = { use: "orders", secret: SECRET };

describe("presets of a plugin file", () => {
  const open = (
    files: Record<string, string | object>,
    config: object = { hooks: { presets: [use] } },
  ): Promise<World> => createWorld({ workers: false, config, files });

  it("are enabled by name and take what their sender signs, without a section of the plugin", async () => {
    const world = await open({ "plugins/shop.ts": file(preset()) });
    const answer = await world.gateway.fetch(signed({ type: "order", id: 1 }));
    expect([answer.status, await answer.json()]).toMatchObject([202, { mapping: "orders.new" }]);
    expect(
      (await world.gateway.fetch(signed({ type: "order", id: 2 }, "another-long-secret"))).status,
    ).toBe(401);
    expect((await world.post("/hooks/orders", { type: "order", id: 3 })).status).toBe(401);
    expect(world.gateway.status().warnings).toEqual([]);
    await world.stop();
  });

  it("are not live until they are enabled, and the plugin says so", async () => {
    const world = await open({ "plugins/shop.ts": file(preset()) }, {});
    expect((await world.gateway.fetch(signed({ type: "order", id: 1 }))).status).toBe(401);
    expect((await world.post("/hooks/orders", { type: "order", id: 1 })).status).toBe(404);
    const [warning] = world.gateway.status().warnings;
    expect(warning?.message).toBe(
      "the plugin is not used: name one of its presets in `hooks.presets`",
    );
    await world.stop();
  });

  it.each<[string, Record<string, string | object>, unknown[], string[]]>([
    [
      "a mistake in one",
      { "plugins/shop.ts": file(preset({ mappings: [{ mach: {} }] })) },
      [],
      [
        'plugins/shop.ts: `presets[0].mappings[0].mach` of the plugin "shop": is not known. Did you mean "match"?',
      ],
    ],
    [
      "a name that cannot be enabled",
      { "plugins/shop.ts": file(preset({ id: "My Orders" })) },
      [],
      ['`presets[0].id` of the plugin "shop"'],
    ],
    [
      "a secret in one",
      { "plugins/shop.ts": file(preset({ auth: { scheme: "github", secret: SECRET } })) },
      [use],
      ['`presets[0].auth` of the plugin "shop": name a `scheme` and no secret here'],
    ],
    [
      "a file that none brings",
      {
        "plugins/shop.ts": file(
          preset({ mappings: [{ validate: "a.schema.json", messageTemplate: "x" }] }),
        ),
      },
      [],
      ['`presets[0].mappings[0].validate` of the plugin "shop": write the schema itself'],
    ],
    [
      "a template that fails",
      {
        "plugins/shop.ts": file(
          preset({ mappings: [{ match: { path: "orders" }, messageTemplate: "{{" }] }),
        ),
      },
      [use],
      ["preset orders of the plugin shop: mappings[0].messageTemplate"],
    ],
    [
      "a missing secret",
      { "plugins/shop.ts": file(preset()) },
      ["orders"],
      ['hooks.presets[0]: the sender of the preset "orders" signs'],
    ],
    [
      "a name that is nearly its",
      { "plugins/shop.ts": file(preset()) },
      ["order"],
      ['Did you mean "orders"?'],
    ],
    [
      "the name of one that ships",
      { "plugins/shop.ts": file(preset({ id: "github" })) },
      [],
      [
        'the name "github" means 2 presets',
        `${join(PRESETS, "github.json")} and the plugin "shop" (plugins/shop.ts)`,
      ],
    ],
    [
      "the name of a file",
      { "plugins/shop.ts": file(preset()), "mappings/orders.json": preset({ preset: true }) },
      [],
      ['the plugin "shop" (plugins/shop.ts) and ', "/mappings/orders.json: rename"],
    ],
    [
      "the name of another plugin's",
      {
        "plugins/shop.ts": file(preset()),
        "plugins/store.ts": file(preset()).replace('"shop"', '"store"'),
      },
      [use],
      ['the plugin "shop" (plugins/shop.ts) and the plugin "store" (plugins/store.ts)'],
    ],
    [
      "what is no list",
      { "plugins/shop.ts": file().replace("[]", "{}") },
      [],
      ["`presets` of the plugin: must be a list of presets"],
    ],
  ])("are refused: %s", async (_what, files, presets, messages) => {
    const refused = createWorld({ start: false, files, config: { hooks: { presets } } });
    for (const message of messages) await expect(refused).rejects.toThrow(message);
  });

  it("that could not be loaded are not reported a second time as unknown", async () => {
    const refused = await createWorld({
      start: false,
      files: { "plugins/shop.ts": "throw new TypeError()" },
      config: { hooks: { presets: [use] } },
    })
      .then(() => "")
      .catch((error: Error) => error.message);
    expect(refused).toContain("the plugin cannot be loaded");
    expect(refused).not.toContain("there is no preset");
  });
});

testPreset({
  preset: preset(),
  signer: SENDERS.find(({ scheme }) => scheme === "github"),
  samples: [
    {
      name: "an order",
      body: '{"type":"order","id":1,"note":"leave it at the door"}',
      expect: { mapping: "orders.new", sessionKey: null, text: ["Order", "1"] },
    },
  ],
});

describe("presets of a plugin that a program hands over", () => {
  const shop = definePlugin({ id: "shop", presets: [preset()] });

  it("take a signed hook, whose reply is delivered", async () => {
    const { plugin: acme, sent } = keepingPlugin();
    const gateway = await embed({
      plugins: [shop, acme],
      config: { hooks: { enabled: true, token: TOKEN, presets: [use] } },
    });
    const deliveries: DeliveryView[] = [];
    gateway.on("delivery.ended", (delivery) => void deliveries.push(delivery));
    await gateway.start();
    expect((await gateway.fetch(signed({ type: "order", id: 7 }))).status).toBe(202);
    expect((await gateway.fetch(hook("orders", { type: "order", id: 8 }))).status).toBe(401);
    expect(await until(() => deliveries[0])).toMatchObject({ status: "delivered" });
    expect(sent).toEqual([
      expect.objectContaining({ text: expect.stringContaining("Order 7") as string }),
    ]);
  });

  it("leave the channels of the config as they are, and are gone if the plugin is turned off", async () => {
    const hooks = { enabled: true, token: TOKEN, presets: [use] };
    const printed: string[] = [];
    const gateway = await embed({
      plugins: [shop],
      config: { hooks },
      print: (text) => void printed.push(text),
    });
    // The terminal is a channel as long as no other is configured.
    await gateway.start();
    await gateway.fetch(
      hook("agent", { message: "hello there", channel: "console", to: "terminal" }),
    );
    expect(await until(() => printed.join("").includes("hello there"))).toBe(true);
    const off = embed({
      plugins: [shop],
      config: { hooks, plugins: { settings: { shop: { enabled: false } } } },
    });
    await expect(off).rejects.toMatchObject({
      issues: [{ path: "hooks.presets[0]", message: "there is no preset of this name." }],
    });
  });

  it("are refused with the plugin's id and the path", async () => {
    const wrong = { id: "shop", presets: [preset({ mappings: [] })] } as unknown as Plugin;
    await expect(embed({ plugins: [wrong] })).rejects.toMatchObject({
      issues: [
        {
          path: "createGateway.plugins[0]",
          message: expect.stringContaining('`presets[0].mappings` of the plugin "shop"') as string,
        },
      ],
    });
  });
});
