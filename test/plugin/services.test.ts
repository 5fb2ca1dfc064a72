import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { editText } from "../../src/config/edit.ts";
import { createCli } from "../cli/world.ts";
import { createWorld, type World } from "../e2e/world.ts";

let world: World | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

/** A sender that has to be asked, as a user would write it. */
const BOX = `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";

export default definePlugin({
  id: "box",
  section: "hooks",
  config: z.strictObject({ name: z.string(), fails: z.boolean().default(false), throws: z.boolean().default(false) }),
  source: ({ config, print }) => ({
    async start(signal, host) {
      print("start " + config.name);
      if (config.throws) throw new Error("canary-in-an-error");
      const { status, body } = await host.hook("box", { text: "from " + config.name });
      host.report(config.fails ? { ok: false, message: "the grant has ended" } : { ok: true, message: "answered " + status + " " + body.status });
      if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
      print("end " + config.name);
    },
    request: async (request) => new Response(request.method + " " + new URL(request.url).pathname + " " + (await request.text())),
  }),
  commands: {
    look: {
      summary: "look into the box",
      options: { deepDown: { describe: "further down" }, label: { describe: "which one", value: "name" } },
      async run({ config, out, json, hook, serviceState, editConfig, writtenConfig }, { deepDown, label }) {
        const sent = await hook("box", { text: "by hand" }).catch(() => undefined);
        const written = await writtenConfig();
        await editConfig([{ path: ["hooks", "box", "name"], value: "new" }]);
        out(JSON.stringify({ json, name: config?.name, deepDown, label, sent: sent?.status, state: await serviceState(), token: written.hooks.token }));
        return 1;
      },
    },
  },
});
`;
const MAPPING = { id: "box", match: { path: "box" }, messageTemplate: "{{text}}" };
const start = (box: object) =>
  createWorld({
    files: { "plugins/box.ts": BOX },
    env: { HOOK_TOKEN: "test-hook-token-0123456789" },
    config: { hooks: { token: "${HOOK_TOKEN}", box, mappings: [MAPPING] } },
  });
/** The path has authentication of its own, and callers from elsewhere. */
const PATH_TOKEN = "the-token-of-the-box-0123456789";
async function startOnOwnPath(): Promise<World> {
  const own = { auth: { token: PATH_TOKEN }, allowIps: ["203.0.113.0/24"], sessionKey: "hook:box" };
  world = await createWorld({
    files: { "plugins/box.ts": BOX },
    config: { hooks: { box: { name: "one" }, mappings: [{ ...MAPPING, ...own }] } },
  });
  return world;
}
const word = async (from: World): Promise<string> => (await from.get("/readyz")).body as string;
const stateOf = async (from: World) =>
  (await from.admin("/admin/v1/status")).body.status.services[0];

describe("the service of a plugin", () => {
  it("sends events through a hook, says how it does, and answers its own address", async () => {
    world = await start({ name: "one" });
    const here = world;
    const state = await here.until(async () =>
      (await stateOf(here)).message === "starting" ? false : stateOf(here),
    );
    expect(state).toMatchObject({ id: "box", ok: true, message: "answered 202 queued" });
    expect(await word(here)).toBe("ready");
    const { events } = (await here.admin("/admin/v1/events")).body;
    expect(events[0]).toMatchObject({
      path: "box",
      credential: "hooks.token",
      outcome: "accepted",
    });
    const answered = await here.gateway.fetch(
      new Request("http://127.0.0.1/channels/box/push/x?y", { method: "POST", body: "hi" }),
    );
    expect([answered.status, await answered.text()]).toEqual([200, "POST /channels/box/push/x hi"]);
    expect((await here.get("/channels/other/x")).status).toBe(404);
  });

  it("needs no token: also on a path with authentication of its own, as a caller of which its events count", async () => {
    const here = await startOnOwnPath();
    const state = await here.until(async () =>
      (await stateOf(here)).message === "starting" ? false : stateOf(here),
    );
    expect(state).toMatchObject({ ok: true, message: "answered 202 queued" });
    const [event] = (await here.admin("/admin/v1/events")).body.events;
    expect(event).toMatchObject({ path: "box", credential: "path:box", outcome: "accepted" });
    expect(
      (await here.get(`/hooks/events/${event.id}`, { authorization: `Bearer ${PATH_TOKEN}` }))
        .status,
    ).toBe(200);
    expect((await here.get(`/hooks/events/${event.id}`)).status).toBe(404);
  });

  it("shows in readyz and doctor while it does not work", async () => {
    world = await start({ name: "one", fails: true });
    const here = world;
    await here.until(async () => (await word(here)) === "degraded");
    expect((await here.get("/readyz")).status).toBe(200);
    const { checks } = (await here.admin("/admin/v1/doctor")).body;
    expect(checks.find((check: { id: string }) => check.id === "services")).toEqual({
      id: "services",
      status: "fail",
      message: "box: the grant has ended",
    });
  });

  it("is started again when it ends by itself, and counts as failing", async () => {
    world = await start({ name: "one", throws: true });
    const here = world;
    await here.until(async () => here.printed.filter((text) => text === "start one").length >= 2);
    expect(await word(here)).toBe("degraded");
    const state = await stateOf(here);
    expect(state).toMatchObject({
      ok: false,
      message: "it ended with an error (Error); it is started again",
    });
  });

  it("ends with its config and starts with the new one", async () => {
    world = await start({ name: "one" });
    const here = world;
    await here.until(async () => (await stateOf(here)).message !== "starting");
    const file = join(here.dir, "rouse.json5");
    here.write(
      "rouse.json5",
      editText(readFileSync(file, "utf8"), [{ path: ["hooks", "box", "name"], value: "two" }]),
    );
    expect((await here.gateway.reload()).ok).toBe(true);
    await here.until(async () => here.printed.includes("start two"));
    expect(here.printed.filter((text) => /^(?:start|end) /.test(text))).toEqual([
      "start one",
      "end one",
      "start two",
    ]);
  });

  it("does not run in a gateway without workers", async () => {
    world = await createWorld({
      workers: false,
      files: { "plugins/box.ts": BOX },
      config: { hooks: { box: { name: "one" } } },
    });
    expect(world.printed).toEqual([]);
    expect((await world.admin("/admin/v1/status")).body.status.services).toEqual([]);
  });
});

describe("the commands of a plugin", () => {
  it("reach the gateway that runs, the config as it is written, and its comments stay", async () => {
    world = await start({ name: "one" });
    const here = world;
    await here.until(async () => (await stateOf(here)).message !== "starting");
    const file = join(here.dir, "rouse.json5");
    here.write("rouse.json5", `// mine\n${readFileSync(file, "utf8")}`);
    const said = await here.rouse(
      "webhooks",
      "box",
      "look",
      "--json",
      "--deep-down",
      "--label",
      "a b",
    );
    expect(said.code).toBe(1);
    expect(JSON.parse(said.out)).toMatchObject({
      json: true,
      name: "one",
      deepDown: true,
      label: "a b",
      sent: 202,
      state: { ok: true },
      token: "${HOOK_TOKEN}",
    });
    expect(readFileSync(file, "utf8")).toMatch(/^\/\/ mine\n[^]*"name": *"new"/);
  });

  it("send events without the credential of the path, also on one with authentication of its own", async () => {
    const here = await startOnOwnPath();
    await here.until(async () => (await stateOf(here)).message !== "starting");
    const said = await here.rouse("webhooks", "box", "look");
    expect(JSON.parse(said.out)).toMatchObject({ sent: 202 });
    const [event] = (await here.admin("/admin/v1/events")).body.events;
    const { text } = JSON.parse(
      (await here.admin(`/admin/v1/events/${event.id}`)).body.event.request.body,
    );
    expect([event.credential, text]).toEqual(["path:box", "by hand"]);
  });

  it("are offered once in a clone, and where a user's plugin has the id of one of Rouse's own", async () => {
    const own = "gmail";
    world = await createWorld({ start: false, files: {} });
    world.write("plugins/twin.ts", BOX.replace('id: "box"', `id: "${own}"`));
    for (const cwd of [join(import.meta.dirname, "../.."), world.dir]) {
      const { code, out, err } = await (await createCli(cwd)).rouse(["webhooks", own, "--help"]);
      expect([code, err]).toEqual([0, ""]);
      expect(out).toContain("setup");
    }
  });

  it("are in the help, and a wrong section is named", async () => {
    world = await createWorld({
      start: false,
      files: { "plugins/box.ts": BOX },
      config: { hooks: { box: { name: "one" } } },
    });
    const help = await world.rouse("webhooks", "box", "look", "--help");
    expect(help.code).toBe(0);
    expect(help.out).toMatch(
      /look into the box[^]*--deep-down +further down[^]*--label <name> +which one/,
    );
    world.write("rouse.json5", {
      hooks: { enabled: true, token: "test-hook-token-0123456789", box: { nam: 1 } },
    });
    const wrong = await world.rouse("webhooks", "box", "look");
    expect([wrong.code, wrong.err]).toEqual([3, expect.stringContaining("hooks.box.name")]);
  });
});

describe("editing the config", () => {
  it("changes the given fields, and keeps comments, order and layout", () => {
    const text = `// top\n{\n  a: 1, // one\n  hooks: {\n    token: 'x', /* c */\n    presets: ["github"],\n  },\n}\n`;
    const edited = editText(text, [
      { path: ["hooks", "presets"], value: ["github", "more"] },
      { path: ["hooks", "mail", "account"], value: "a@b.example" },
      { path: ["fresh", "deep"], value: true },
    ]);
    expect(edited).toContain(
      `// top\n{\n  a: 1, // one\n  hooks: {\n    token: 'x', /* c */\n    presets: ["github", "more"],`,
    );
    expect(edited).toMatch(/mail: \{\s+account: "a@b.example",\s+\},/);
    expect(edited).toMatch(/fresh: \{\s+deep: true,?\s+\}/);
    expect(editText(text, [{ path: ["a"], value: 1 }])).toBe(text);
  });
});
