import { describe, expect, it } from "vitest";
import { load, userFolder } from "./support.ts";

const plugin = (members: string): string =>
  `import { z } from "zod";\nimport { definePlugin } from "rouse/plugin";\nexport default definePlugin({ ${members} } as never);\n`;
const SCHEME = `{ algorithm: "hmac-sha256", signature: { header: "x-box-signature" } }`;
const TOOL = `{ name: "look", description: "looks", input: z.object({}), execute: () => "found" }`;
const ROUTES = `{ auth: "none", fetch: () => new Response("hi") }`;
const SOURCE = `{ start: async () => {} }`;

describe("each kind that a plugin offers", () => {
  it("is handed on with the plugin's id, and without a section if it needs none", async () => {
    const { dir } = userFolder({
      "plugins/box.ts": plugin(`
        id: "box",
        source: () => (${SOURCE}),
        tools: () => [${TOOL}],
        context: ({ config }) => () => [{ text: config.greeting, from: "operator" }],
        routes: () => (${ROUTES}),
        config: z.strictObject({ greeting: z.string() })`),
      "plugins/parts.ts": plugin(`
        id: "parts",
        schemes: { "box-hmac": ${SCHEME} },
        transforms: { plain: import.meta.url },
        providers: [{ type: "box-model", create: async () => () => ({}) }],
        extractors: [{ extensions: ["box"], mediaTypes: ["text/box"], module: import.meta.url }]`),
    });
    const { offers, issues, warnings, plugins } = await load(dir, {
      plugins: { settings: { box: { greeting: "hello" } } },
    });
    expect([issues, warnings]).toEqual([[], []]);
    expect(offers.sources).toEqual([
      { plugin: "box", value: { start: expect.any(Function) as unknown } },
    ]);
    expect(offers.tools).toMatchObject([{ plugin: "box", value: [{ name: "look" }] }]);
    expect(await offers.context[0]?.value({} as never)).toEqual([
      { text: "hello", from: "operator" },
    ]);
    expect(offers.routes).toMatchObject([{ plugin: "box", value: { auth: "none" } }]);
    expect([...offers.schemes]).toMatchObject([
      ["box-hmac", { plugin: "parts", value: { encoding: "hex", minSecret: 16 } }],
    ]);
    expect([...offers.transforms.keys()]).toEqual(["parts/plain"]);
    expect([offers.providers, offers.extractors].map(([one]) => one?.plugin)).toEqual([
      "parts",
      "parts",
    ]);
    expect(plugins).toContainEqual({
      id: "box",
      origin: "plugins/box.ts",
      channel: false,
      configured: true,
    });
  });

  it("comes from one `setup` that may wait, its channel included", async () => {
    const { dir } = userFolder({
      "plugins/room.ts": plugin(`
        id: "room",
        section: "channels",
        setup: async ({ config }) => ({
          channel: { send: async () => ({ status: "sent" }), defaultTo: config.to },
          source: undefined,
          tools: [${TOOL}],
        })`),
    });
    const { channels, offers, issues } = await load(dir, {
      channels: { room: { accounts: { a: { to: "x" }, b: { to: "y" } } } },
    });
    expect(issues).toEqual([]);
    expect(channels.loaded.map(({ id, channel }) => [id, channel.defaultTo])).toEqual([
      ["room", "x"],
      ["room:b", "y"],
    ]);
    expect(offers.tools.map((offered) => offered.plugin)).toEqual(["room", "room:b"]);
    expect(offers.sources).toEqual([]);
  });

  it.each<[what: string, members: string, message: string]>([
    [
      "a tool without a schema",
      `tools: () => [{ name: "look", description: "x", execute() {} }]`,
      "not a list of tools: [0].input must be a zod schema",
    ],
    ["two tools of one name", `tools: () => [${TOOL}, ${TOOL}]`, "has two tools of the same name"],
    [
      "routes that name no caller",
      `routes: () => ({ fetch() {} })`,
      'not routes: auth must be "operator", "api" or "none"',
    ],
    [
      "a source that is a promise",
      `source: async () => (${SOURCE})`,
      "`source` must return its result directly",
    ],
    [
      "what is no kind",
      `setup: () => ({ tool: [] })`,
      '`setup` returns `tool`, which is no capability. Did you mean "tools"?',
    ],
    [
      "a channel of a plugin whose section is elsewhere",
      `setup: () => ({ channel: { send() {} } })`,
      'give the plugin `section: "channels"`',
    ],
    [
      "`setup` beside what it replaces",
      `setup: () => ({}), tools: () => []`,
      "has `setup` and one of `channel`",
    ],
    [
      "a scheme with a mistake",
      `schemes: { acme: { algorithm: "md4", signature: { header: "x" } } }`,
      '`schemes.acme.algorithm` of the plugin "odd"',
    ],
    [
      "a transform that is no file",
      `transforms: { it: "file:///nowhere/x.js" }`,
      "`transforms.it` of the plugin: must be the URL of a file",
    ],
    [
      "a provider that makes nothing",
      `providers: [{ type: "x" }]`,
      "`providers[0].create` of the plugin: must be a function",
    ],
  ])("is refused: %s", async (_what, members, message) => {
    const { dir } = userFolder({ "plugins/odd.ts": plugin(`id: "odd", ${members}`) });
    const { issues, offers } = await load(dir, { plugins: { settings: { odd: {} } } });
    expect(issues).toHaveLength(1);
    expect(issues[0]?.message).toContain(message);
    expect([offers.tools, offers.routes, offers.sources, offers.providers]).toEqual([
      [],
      [],
      [],
      [],
    ]);
  });

  it("belongs to one plugin: two that claim the same are named", async () => {
    const { dir } = userFolder({
      "plugins/a.ts": plugin(
        `id: "a", schemes: { same: ${SCHEME} }, providers: [{ type: "p", create() {} }]`,
      ),
      "plugins/b.ts": plugin(
        `id: "b", schemes: { same: ${SCHEME} }, providers: [{ type: "p", create() {} }]`,
      ),
    });
    const { issues } = await load(dir);
    expect(
      issues.map(({ path, message }) => [
        path,
        /^the plugins "a" and "b" both bring (.*):/.exec(message)?.[1],
      ]),
    ).toEqual([
      ["plugins/b.ts", 'the signature scheme "same"'],
      ["plugins/b.ts", 'the provider type "p"'],
    ]);
  });
});

describe("the published interface", () => {
  it("exports at most 15 values for plugins, and what channels share under a name of its own", async () => {
    const [plugin, kit] = await Promise.all([import("#plugin"), import("#channel-kit")]);
    expect(Object.keys(plugin).length).toBeLessThanOrEqual(15);
    expect(Object.keys(plugin).filter((name) => name in kit)).toEqual([]);
    expect(kit.reconnectLoop).toBeTypeOf("function");
  });

  it("names the export that a plugin imports and that is not there", async () => {
    const text = `import { definePlugin, heard } from "rouse/plugin";\nexport default definePlugin({ id: "old", presets: [heard] });`;
    const message = `the plugin cannot be loaded: it imports "heard", which is not exported, at plugins/old.ts:1`;
    const { issues } = await load(userFolder({ "plugins/old.ts": text }).dir);
    expect(issues).toEqual([{ path: "plugins/old.ts", message }]);
  });

  it("lets a user's plugin import the kit", async () => {
    const text = `import { channelConfig, recipients, secret } from "rouse/channel-kit";\nimport { definePlugin } from "rouse/plugin";\nexport default definePlugin({ id: "kit", config: channelConfig({ token: secret("x") }, { person: { like: "x", pattern: /x/ }, parseRecipient: recipients({ like: "x", pattern: /x/ }) }), channel: () => ({ send: async () => ({ status: "sent" }) }) });`;
    const { channels, issues } = await load(userFolder({ "plugins/kit.ts": text }).dir, {
      channels: { kit: { token: "a-token" } },
    });
    expect(issues).toEqual([]);
    expect(channels.get("kit")).toBeDefined();
  });
});
