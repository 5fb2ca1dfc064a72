import { createHmac } from "node:crypto";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { compile, PRESETS } from "./world.ts";

const SECRET = "a-long-enough-secret";
const document = (change: object = {}) => ({
  id: "mine",
  version: 1,
  mappings: [
    {
      id: "mine.order",
      match: { path: "mine", payload: { type: "order" } },
      event: "order",
      messageTemplate: "Order {{id}}",
    },
  ],
  ...change,
});
const signedDocument = (change: object = {}) => document({ auth: { scheme: "github" }, ...change });

/** Posts as a sender that signs as GitHub does. */
async function postSigned(world: World, path: string, body: object, secret = SECRET) {
  const raw = JSON.stringify(body);
  const signature = `sha256=${createHmac("sha256", secret).update(raw).digest("hex")}`;
  const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
  const response = await world.gateway.fetch(
    new Request(`http://127.0.0.1/hooks/${path}`, { method: "POST", headers, body: raw }),
  );
  return { status: response.status, body: (await response.json()) as { mapping?: string } };
}

const open = (
  presets: unknown[],
  files: Record<string, object>,
  env: Record<string, string> = {},
) => createWorld({ workers: false, config: { hooks: { presets } }, files, env });

it("a preset document in mappingsDir is not live until hooks.presets names it", async () => {
  const world = await open([], { "mappings/mine.json": document({ preset: true }) });
  expect((await world.post("/hooks/mine", { type: "order", id: 1 })).status).toBe(404);
  await world.stop();

  const enabled = await open(["mine"], { "mappings/mine.json": document({ preset: true }) });
  expect((await enabled.post("/hooks/mine", { type: "order", id: 1 })).body.mapping).toBe(
    "mine.order",
  );
  await enabled.stop();
});

it("any other file of mappingsDir is live by itself, and takes options if hooks.presets names it", async () => {
  const world = await open([], { "mappings/mine.json": document() });
  expect((await world.post("/hooks/mine", { type: "order", id: 1 })).body.mapping).toBe(
    "mine.order",
  );
  await world.stop();

  const named = await open([{ use: "mine", path: "shop", channel: "console", to: "ops" }], {
    "mappings/mine.json": document(),
  });
  expect((await named.post("/hooks/mine", { type: "order", id: 1 })).status).toBe(404);
  const { body } = await named.post("/hooks/shop", { type: "order", id: 1 });
  expect((await named.admin(`/admin/v1/runs/${body.runId}`)).body.run).toMatchObject({
    channel: "console",
    to: "ops",
  });
  await named.stop();
});

it("a preset of one's own takes signed events, with the secret of the options or of its own document", async () => {
  const auth = { scheme: "github", secret: "${MINE_SECRET}" };
  for (const [use, file] of [
    [
      { use: "mine", secret: "${MINE_SECRET}", events: ["order"] },
      signedDocument({ preset: true }),
    ],
    ["mine", signedDocument({ preset: true, auth })],
  ]) {
    const world = await open(
      [use],
      { "mappings/mine.json5": file as object },
      { MINE_SECRET: SECRET },
    );
    expect(await postSigned(world, "mine", { type: "order", id: 1 })).toMatchObject({
      status: 202,
      body: { mapping: "mine.order" },
    });
    expect(
      (await postSigned(world, "mine", { type: "order", id: 2 }, "another-long-secret")).status,
    ).toBe(401);
    expect((await world.post("/hooks/mine", { type: "order", id: 3 })).status).toBe(401);
    await world.stop();
  }
});

it("a preset of one's own keeps the token that its document names", async () => {
  const auth = { token: "a-token-of-its-own-path" };
  const world = await open(["mine"], { "mappings/mine.json": document({ preset: true, auth }) });
  expect((await world.post("/hooks/mine", { type: "order", id: 1 })).status).toBe(401);
  const own = await world.post(
    "/hooks/mine",
    { type: "order", id: 1 },
    { authorization: `Bearer ${auth.token}` },
  );
  expect(own.status).toBe(202);
  await world.stop();
});

it("a preset that is not enabled needs nothing of the environment", async () => {
  const auth = { scheme: "github", secret: "${NOT_SET}" };
  const world = await open([], { "mappings/mine.json": document({ preset: true, auth }) });
  expect(world.gateway.status().warnings).toEqual([]);
  await world.stop();
});

it.each<[string, unknown[], Record<string, object>, string[]]>([
  [
    "a name that is nearly its own",
    ["mnie"],
    { "mappings/mine.json": document() },
    ['no preset of this name. Did you mean "mine"?'],
  ],
  [
    "the name of a preset that ships",
    [],
    { "mappings/github.json": document({ id: "github", preset: true }) },
    [
      join(PRESETS, "github.json"),
      "/mappings/github.json and ",
      'the name "github" means 2 presets',
    ],
  ],
  [
    "such a name of a file that is no preset, if it is enabled",
    [{ use: "github", secret: SECRET }],
    { "mappings/github.json": document({ id: "github" }) },
    ["hooks.presets[0]: the name", join(PRESETS, "github.json")],
  ],
  [
    "one name for two files",
    ["mine"],
    { "mappings/mine.json": document(), "mappings/mine.json5": document() },
    ["/mappings/mine.json and ", "/mappings/mine.json5"],
  ],
  [
    "another id",
    ["mine"],
    { "mappings/mine.json": document({ id: "other" }) },
    ['mappings/mine.json: id: must be "mine"'],
  ],
  [
    "a file name that cannot be named",
    [],
    { "mappings/My file.json": document({ preset: true }) },
    ["My file.json: a preset's file is named"],
  ],
  [
    "a mistake in a preset that is not enabled",
    [],
    { "mappings/mine.json": document({ preset: true, mappings: [{ mach: {} }] }) },
    ["mappings/mine.json: mappings[0].mach: is not known"],
  ],
  [
    "a mistake in an enabled one",
    ["mine"],
    {
      "mappings/mine.json": document({
        preset: true,
        mappings: [{ id: "a", match: { path: "mine" }, messageTemplate: "{{" }],
      }),
    },
    ["mappings/mine.json: mappings[0].messageTemplate"],
  ],
  [
    "a wrong option",
    [{ use: "mine", agentId: "nobody" }],
    { "mappings/mine.json": document() },
    ["hooks.presets[0].agentId: names no agent"],
  ],
  [
    "a missing secret",
    ["mine"],
    { "mappings/mine.json": signedDocument({ preset: true }) },
    [
      'hooks.presets[0]: the sender of the preset "mine" signs its requests',
      'add one with { use: "mine", secret: "…" }',
    ],
  ],
])("presets: the config refuses %s", async (_what, presets, files, messages) => {
  const texts = Object.entries(files).map(([name, file]) => [name, JSON.stringify(file)]);
  const { issues } = await compile({ presets }, Object.fromEntries(texts));
  const told = issues.map((issue) => `${issue.path}: ${issue.message}`).join("\n");
  for (const message of messages) expect(told).toContain(message);
});
