import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, shopConfig, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World;
beforeEach(async () => {
  cli = await createCli();
  world = await createWorld({ dir: cli.dir, workers: false, config: shopConfig() });
});
afterEach(async () => {
  await world.stop();
  await cli.close();
});

describe("rouse presets", () => {
  it("lists the presets that ship, with the authentication of their callers", async () => {
    const { out } = await cli.rouse("presets");
    expect(out).toMatch(/github\s+rouse\s+github\s+github\s+Issues/);
    expect(out).toMatch(/alertmanager\s+rouse\s+alertmanager\s+hook token/);
    const { presets } = await cli.json<{
      presets: { name: string; mappings: string[] }[];
    }>("presets");
    expect(presets.find(({ name }) => name === "gmail")?.mappings).toEqual(["gmail.message"]);
  });

  it("prints one that works as it is in mappings/", async () => {
    const { out } = await cli.rouse("presets uptime-kuma");
    expect(JSON.parse(out)).toMatchObject({ id: "uptime-kuma" });
    const gitlab = await cli.rouse("presets gitlab");
    expect([gitlab.err, JSON5.parse<object>(gitlab.out)]).toMatchObject(["", { id: "gitlab" }]);
    // As it is, in mappings/.
    await mkdir(join(cli.dir, "mappings"));
    await cli.write(
      "mappings/gitlab.json",
      gitlab.out.replaceAll('"gitlab.', '"own.').replace(/,?\s*"auth": \{[^}]*\}/, ""),
    );
    await world.reload();
    await cli.fails("presets githbu", 1, 'Did you mean "github"?');
  });

  it("lists and prints presets of one's own with their origin, even if the config has problems", async () => {
    await mkdir(join(cli.dir, "mappings"));
    const mappings = [{ match: { path: "mine" }, messageTemplate: "x" }];
    await cli.write("mappings/mine.json", {
      id: "mine",
      preset: true,
      description: "Orders of mine.",
      auth: { scheme: "github" },
      mappings,
    });
    await cli.write("mappings/plain.json", {
      id: "plain",
      mappings: [{ match: { path: "plain" }, messageTemplate: "x" }],
    });
    await cli.write("rouse.json5", { ...(shopConfig() as object), typo: 1 });
    const { out } = await cli.rouse("presets");
    expect(out).toMatch(/mine\s+mappings\/mine\.json\s+mine\s+github\s+Orders of mine/);
    expect(out).not.toContain("plain");
    const { presets } = await cli.json<{
      presets: { name: string }[];
    }>("presets");
    expect(presets.find(({ name }) => name === "mine")).toMatchObject({
      origin: "mappings/mine.json",
      signature: "github",
    });
    expect(JSON.parse((await cli.rouse("presets mine --json")).out)).toMatchObject({
      origin: "mappings/mine.json",
      preset: { id: "mine", mappings },
    });
    await cli.fails("presets mnie", 1, 'Did you mean "mine"?');
  });

  it("lists, prints and sends to what a plugin brings", async () => {
    await mkdir(join(cli.dir, "plugins"));
    const mappings = [{ match: { path: "orders" }, messageTemplate: "x" }];
    const document = {
      id: "orders",
      description: "Orders of the shop.",
      auth: { scheme: "github" },
      mappings,
    };
    await cli.write(
      "plugins/shop.mjs",
      `export default { id: "shop", presets: [${JSON.stringify(document)}] };`,
    );
    const { hooks, ...rest } = shopConfig() as { hooks: object };
    await cli.write("rouse.json5", {
      ...rest,
      hooks: { ...hooks, presets: [{ use: "orders", secret: "a-long-enough-secret" }] },
    });
    expect((await cli.rouse("presets")).out).toMatch(
      /orders\s+plugin shop\s+orders\s+github\s+Orders of the shop/,
    );
    const { out } = await cli.rouse("presets orders");
    expect(JSON5.parse<object>(out)).toMatchObject({ id: "orders", mappings });
    await cli.fails("presets order", 1, 'Did you mean "orders"?');
    await world.reload();
    await cli.write("body.json", { id: 1 });
    expect((await cli.rouse("hooks send orders --payload body.json --json")).out).toContain(
      '"status": 202',
    );
    await cli.write("rouse.json5", {
      ...rest,
      hooks,
      plugins: { settings: { shop: { enabled: false } } },
    });
    expect((await cli.rouse("presets")).out).not.toContain("plugin shop");
  });
});

it("rouse events --refused: the list shows rejected requests with their reasons", async () => {
  await world.post("/hooks/shop", {}, { authorization: "" });
  await world.post("/hooks/shop", {}, { authorization: "Bearer wrong" });
  const { out } = await cli.rouse("events --refused");
  expect(out).toMatch(/127\.0\.0\.1\s+shop\s+wrong_token\n.*127\.0\.0\.1\s+shop\s+no_token/);
  const { refusals } = JSON.parse((await cli.rouse("events --refused --json --limit 1")).out) as {
    refusals: { reason: string }[];
  };
  expect(refusals.map(({ reason }) => reason)).toEqual(["wrong_token"]);
});
