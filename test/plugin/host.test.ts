import { execFileSync } from "node:child_process";
import { existsSync, statSync, symlinkSync } from "node:fs";
import { createRequire, registerHooks } from "node:module";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { REAL } from "../gateway.ts";
import { checkSnapshot } from "../../src/gateway/validate-config.ts";
import { load, userFolder } from "./support.ts";

const HEAD = `import { z } from "zod";\nimport { definePlugin } from "rouse/plugin";\n`;
/** A user's plugin, in as much TypeScript as Node itself would not take. */
const acme = (id = "acme", members = ""): string => `${HEAD}
enum Mark { Sent = "sent" }
class Sender {
  constructor(private readonly token: string) {}
  async send() { return { status: Mark.Sent as const, messageIds: [this.token.length.toString()] }; }
}
export default definePlugin({
  id: "${id}",
  aliases: ["${id}-short"],
  config: z.strictObject({ token: z.string().min(8), apiUrl: z.url().default("https://api.acme.example") }),
  channel: ({ config }) => { const sender = new Sender(config.token); return { limit: 4000, send: () => sender.send(), defaultTo: config.apiUrl, ${members} }; },
});`;
const TOKEN = "secret-token-4711";
const message = { to: "x", text: "y", idempotencyKey: "k" };

describe("where plugins come from", () => {
  it("without a config there is the console, and all other plugins are known by name", async () => {
    const { dir } = userFolder({});
    const { channels, plugins, issues, warnings, printed } = await load(dir);
    expect([issues, warnings]).toEqual([[], []]);
    expect(channels.loaded.map(({ id }) => id)).toEqual(["console"]);
    expect(channels.fallback?.id).toBe("console");
    expect(channels.resolve("wa")).toEqual({ id: "whatsapp", loaded: false });
    expect(channels.resolve("msteams")).toEqual({ id: "msteams", loaded: false });
    expect(plugins).toContainEqual({
      id: "console",
      origin: "rouse",
      channel: true,
      configured: true,
    });
    expect(
      await channels
        .get("console")
        ?.channel.send(
          { ...message, to: "terminal", text: "the reply" },
          AbortSignal.timeout(1000),
        ),
    ).toEqual({ status: "sent" });
    expect(printed.join("")).toContain("terminal");
    expect(printed.join("")).toContain("the reply");
  });

  it("a folder beside the config, a single file, a path and a package, all by one loader", async () => {
    const { dir } = userFolder({
      "plugins/acme/index.ts": acme()
        .replace("new Sender(config.token)", "make(config.token)")
        .replace(
          "export default",
          'import { prefix } from "./prefix";\nconst make = (token: string) => new Sender(prefix + token);\nexport default',
        ),
      "plugins/acme/prefix.ts": 'export const prefix: string = "12";',
      "plugins/single.ts": acme("single"),
      "plugins/notes.md": "no plugin",
      "plugins/types.d.ts": "export {};",
      "elsewhere/third.ts": acme("third"),
      "node_modules/rouse-plugin-fourth/package.json":
        '{ "name": "rouse-plugin-fourth", "type": "module", "exports": { ".": { "import": "./lib/main.js" } } }',
      "node_modules/rouse-plugin-fourth/lib/main.js":
        'import { definePlugin } from "rouse/plugin";\nexport default definePlugin({ id: "fourth", channel: () => ({ send: async () => ({ status: "sent" }) }) });',
    });
    const section = { token: TOKEN };
    const config = {
      channels: { acme: section, single: section, third: section, fourth: {} },
      plugins: ["./elsewhere/third.ts", "rouse-plugin-fourth"],
    };
    const { channels, plugins, issues, warnings, files } = await load(dir, config);
    expect([issues, warnings]).toEqual([[], []]);
    expect(
      plugins.filter((plugin) => plugin.configured).map(({ id, origin }) => [id, origin]),
    ).toEqual([
      ["acme", "plugins/acme"],
      ["single", "plugins/single.ts"],
      ["third", "elsewhere/third.ts"],
      ["fourth", "rouse-plugin-fourth"],
    ]);
    expect(channels.loaded.map(({ id }) => id)).toEqual(["acme", "single", "third", "fourth"]);
    expect(await channels.get("acme")?.channel.send(message, AbortSignal.timeout(1000))).toEqual({
      status: "sent",
      messageIds: [String(TOKEN.length + 2)],
    });
    expect(channels.resolve("acme-short")).toEqual({ id: "acme", loaded: true });
    expect(files).toContain(join(dir, "plugins/acme/prefix.ts"));
    expect(channels.get("console")).toBeUndefined();
  });

  it("plain JavaScript, read again with the files it imports when one of them changes", () => {
    const { dir } = userFolder({
      "plugins/plain.js": `${HEAD}import { name } from "./lib/name.js";\nexport default definePlugin({ id: "plain", channel: () => ({ send: async () => ({ status: "sent" }), defaultTo: name }) });`,
      "plugins/lib/name.js": 'export const name = "before";',
      "run.ts": `
        import { writeFileSync } from "node:fs";
        const { importUserModule } = await import(process.argv[2] + "/src/plugin/resolve.ts");
        const read = async () => { const { module, files } = await importUserModule(import.meta.dirname + "/plugins/plain.js"); return [module.exports?.default, files.length]; };
        const seen = [];
        const first = await read();
        seen.push(first[0].channel().defaultTo, first[1], (await read())[0] === first[0]);
        writeFileSync(import.meta.dirname + "/plugins/lib/name.js", 'export const name = "after it";');
        seen.push((await read())[0].channel().defaultTo);
        console.log(JSON.stringify(seen));`,
    });
    // In a process of its own: the test runner has its own way with imports.
    const out = execFileSync(
      process.execPath,
      [
        "--conditions=rouse-source",
        "--disable-warning=ExperimentalWarning",
        join(dir, "run.ts"),
        resolve(import.meta.dirname, "../.."),
      ],
      { encoding: "utf8" },
    );
    expect(JSON.parse(out)).toEqual(["before", 2, true, "after it"]);
  });

  it("all that TypeScript and its neighbours may import is read again, however it is named", async () => {
    const { dir, write } = userFolder({
      "plugins/acme/index.ts": `${HEAD}import { a } from "./a.js"; import { b } from "./b.js"; import c from "./c.json"; import { d } from "./dir"; import { e } from "#e"; import { h } from "acme-shared";
        enum Kind { one = "one" }
        const { f } = await import("./f.ts");
        export default definePlugin({ id: "acme", channel: () => ({ send: async () => ({ status: "sent" as const }), defaultTo: [Kind.one, a, b, c.value, d, e, f, h].join() }) });`,
      "plugins/acme/package.json": '{ "type": "module", "imports": { "#e": "./e.ts" } }',
      "plugins/acme/a.ts": 'export const a: string = "a";',
      "plugins/acme/b.js": 'import { g } from "./g.js";\nexport const b = "b" + g;',
      "plugins/acme/c.json": '{ "value": "c" }',
      "plugins/acme/dir/index.ts": 'export const d: string = "d";',
      "plugins/acme/e.ts": 'export const e: string = "e";',
      "plugins/acme/f.ts": 'export const f: string = "f";',
      "plugins/acme/g.js": 'export const g = "g";',
      "shared/package.json": '{ "name": "acme-shared", "exports": "./index.ts" }',
      "shared/index.ts": 'export const h: string = "h";',
      "node_modules/.keep": "",
    });
    // A package of the user's own, as workspaces link it.
    symlinkSync("../shared", join(dir, "node_modules/acme-shared"));
    const name = async () =>
      (await load(dir, { channels: { acme: {} } })).channels.get("acme")?.channel.defaultTo;
    expect(await name()).toBe("one,a,bg,c,d,e,f,h");
    const changes: [file: string, text: string][] = [
      ["a.ts", 'export const a: string = "A1";'],
      ["g.js", 'export const g = "G1";'],
      ["c.json", '{ "value": "C1" }'],
      ["dir/index.ts", 'export const d: string = "D1";'],
      ["e.ts", 'export const e: string = "E1";'],
      ["f.ts", 'export const f: string = "F1";'],
      ["../../shared/index.ts", 'export const h: string = "H1";'],
    ];
    const seen: unknown[] = [];
    for (const [file, text] of changes) {
      write(`plugins/acme/${file}`, text);
      seen.push(await name());
    }
    expect(seen).toEqual([
      "one,A1,bg,c,d,e,f,h",
      "one,A1,bG1,c,d,e,f,h",
      "one,A1,bG1,C1,d,e,f,h",
      "one,A1,bG1,C1,D1,e,f,h",
      "one,A1,bG1,C1,D1,E1,f,h",
      "one,A1,bG1,C1,D1,E1,F1,h",
      "one,A1,bG1,C1,D1,E1,F1,H1",
    ]);
    write("plugins/acme/a.ts", "export const a = ;");
    const broken = await load(dir, { channels: { acme: {} } });
    expect(broken.issues).toEqual([
      {
        path: "plugins/acme",
        message: expect.stringContaining("plugins/acme/a.ts:1") as unknown,
      },
    ]);
    expect(broken.files).toContain(join(dir, "plugins/acme/a.ts"));
    write("plugins/acme/a.ts", 'export const a = "mended";');
    expect(await name()).toBe("one,mended,bG1,C1,D1,E1,F1,H1");
  });

  it("an import goes through no more hooks after many changes than after one", async () => {
    const text = (version: number): string =>
      `${HEAD}export default definePlugin({ id: "acme", channel: () => ({ send: async () => ({ status: "sent" as const }), defaultTo: "${version}" }) });`;
    const { dir, write } = userFolder({ "plugins/acme/index.ts": text(0) });
    const requireHere = createRequire(join(dir, "index.js"));
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 1000;
    let depth = 0;
    const hooks = registerHooks({
      resolve(specifier, context, next) {
        const found = next(specifier, context);
        if (specifier.startsWith("./probe"))
          depth = new Error("here").stack?.split("\n").length ?? 0;
        return found;
      },
    });
    const depths: number[] = [];
    try {
      for (let version = 0; version < 10; version++) {
        write("plugins/acme/index.ts", text(version));
        expect(
          (await load(dir, { channels: { acme: {} } })).channels.get("acme")?.channel.defaultTo,
        ).toBe(`${version}`);
        write(`probe${version}.cjs`, "");
        requireHere(`./probe${version}.cjs`);
        depths.push(depth);
      }
    } finally {
      hooks.deregister();
      Error.stackTraceLimit = stackTraceLimit;
    }
    expect(depths[0]).toBeGreaterThan(0);
    expect(depths[9]).toBe(depths[1]);
  });

  it("Rouse's own are loaded only where the config needs them", async () => {
    const trap = (id: string): string =>
      `globalThis.loadedPlugins = [...(globalThis.loadedPlugins ?? []), "${id}"];\nexport default { id: "${id}", channel: () => ({ send: async () => ({ status: "sent" }) }) };`;
    const hook =
      'export default { id: "mail", section: "hooks", source: () => ({ start: async () => {} }) };';
    const { dir } = userFolder({
      "own/one/index.js": trap("one"),
      "own/two/index.js": trap("two"),
      "own/mail/index.js": hook,
      "own/catalog.json":
        '[{ "id": "one" }, { "id": "two", "aliases": ["zwei"] }, { "id": "three" }]',
    });
    const { channels, plugins, offers, hookSections, issues } = await load(
      dir,
      { channels: { one: {} }, hooks: { mail: {} } },
      { builtinDir: join(dir, "own") },
    );
    expect(issues).toEqual([]);
    expect((globalThis as { loadedPlugins?: string[] }).loadedPlugins).toEqual(["one"]);
    expect(channels.resolve("zwei")).toEqual({ id: "two", loaded: false });
    expect(plugins).toContainEqual({
      id: "two",
      origin: "rouse",
      channel: true,
      configured: false,
    });
    expect(offers.sources.map(({ plugin }) => plugin)).toEqual(["mail"]);
    expect(hookSections).toEqual(["mail"]);
  });
});

describe("what is wrong is said with its path", () => {
  const problems = async (files: Record<string, string>, config: Parameters<typeof load>[1]) =>
    (await load(userFolder(files).dir, config)).issues;

  it("of a section, without its values", async () => {
    const config = {
      channels: { acme: { token: "short", apiUrl: "no url", tokn: TOKEN, enabled: "yes" } },
    };
    const { dir } = userFolder({ "plugins/acme.ts": acme() });
    expect((await load(dir, config)).issues).toEqual([
      { path: "channels.acme.enabled", message: "must be true or false" },
    ]);
    const { enabled: _enabled, ...acmeSection } = config.channels.acme;
    const issues = (await load(dir, { channels: { acme: acmeSection } })).issues;
    expect(issues.map(({ path }) => path)).toEqual([
      "channels.acme.token",
      "channels.acme.apiUrl",
      "channels.acme.tokn",
    ]);
    expect(issues[2]?.message).toBe('is not known. Did you mean "token"?');
    const quoting = acme().replace(
      "z.string().min(8)",
      "z.string().refine(() => false, { error: (issue) => `bad token ${issue.input}` })",
    );
    expect(
      await problems({ "plugins/acme.ts": quoting }, { channels: { acme: { token: TOKEN } } }),
    ).toEqual([{ path: "channels.acme.token", message: "bad token …" }]);
    expect(
      await problems({ "plugins/acme.ts": acme() }, { channels: { acme: true } }),
    ).toMatchObject([
      { path: "channels.acme", message: expect.stringContaining("must be an object") as unknown },
    ]);
  });

  it("not of numbers and booleans of a section that one variable of the environment gives", async () => {
    const { dir, write } = userFolder({
      "plugins/box.ts": `import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "box",
  config: z.strictObject({ size: z.int(), deep: z.strictObject({ on: z.boolean() }), name: z.string() }),
  channel: () => ({ send: async () => ({ status: "sent" }) }),
});`,
      "plugins/off.ts": `import { definePlugin } from "rouse/plugin";
export default definePlugin({ id: "off", channel: () => { throw new Error("used"); } });`,
    });
    const box = { size: "${SIZE}", accounts: { main: { deep: { on: "${ON}" }, name: "${SIZE}" } } };
    write("rouse.json5", JSON.stringify({ channels: { box, off: { enabled: "${OFF}" } } }));
    const env = { SIZE: "5", ON: "true", OFF: "false" };
    expect(await checkSnapshot({ ...REAL, cwd: dir, env })).toMatchObject({ ok: true });
    expect(
      await checkSnapshot({ ...REAL, cwd: dir, env: { SIZE: "five", ON: "yes", OFF: "no" } }),
    ).toMatchObject({
      ok: false,
      issues: [
        { path: "channels.box.accounts.main.size", message: expect.stringContaining("SIZE") },
        { path: "channels.box.accounts.main.deep.on", message: expect.stringContaining("ON") },
        { path: "channels.off.enabled", message: expect.stringContaining("true or false") },
      ],
    });
  });

  it("of sections that belong to no plugin", async () => {
    const issues = await problems(
      { "plugins/acme.ts": acme() },
      { channels: { acne: {}, wa: {}, zzzzzzzz: {} }, hooks: { maxBodyByte: 1 } },
    );
    expect(issues).toEqual([
      { path: "channels.acne", message: 'no plugin has this id. Did you mean "acme"?' },
      { path: "channels.wa", message: 'no plugin has this id. Did you mean "whatsapp"?' },
      { path: "channels.zzzzzzzz", message: "no plugin has this id." },
      { path: "hooks.maxBodyByte", message: 'is not known. Did you mean "maxBodyBytes"?' },
    ]);
  });

  it("of a channel that is known and whose plugin is not there", async () => {
    const own = userFolder({ "catalog.json": '[{ "id": "carrier", "aliases": ["pigeon"] }]' });
    const { issues } = await load(
      userFolder({}).dir,
      { channels: { carrier: {} } },
      { builtinDir: own.dir },
    );
    expect(issues).toEqual([
      { path: "channels.carrier", message: expect.stringContaining("not installed") as unknown },
    ]);
  });

  it("of plugins that are not there or are none", async () => {
    const files = {
      "a.ts": "export const plugin = 1;",
      "b.ts": `export default { id: "Bad Id", chanel: () => 1, aliases: "x" };`,
      "c.ts": `export default { id: "empty" };`,
      "d.ts": `import { x } from "not-installed-package"; export default x;`,
      "e.ts": `const user: any = undefined;\nexport default user.name;`,
    };
    const issues = await problems(files, {
      plugins: ["./a.ts", "./b.ts", "./c.ts", "./d.ts", "./e.ts", "./none.ts", "no-such-package"],
    });
    const at = (path: string) =>
      issues.filter((issue) => issue.path === path).map((issue) => issue.message);
    expect(at("plugins[0]")).toEqual(["its default export must be what definePlugin returns"]);
    expect(at("plugins[1]").join("\n")).toMatch(
      /`id` of the plugin: use lower-case[^]*`aliases` of the plugin[^]*`chanel` of the plugin: is not known. Did you mean "channel"\?/,
    );
    expect(at("plugins[2]")).toEqual([
      expect.stringContaining(
        "the plugin offers nothing: give it at least one of `channel`, `source`, `tools`",
      ),
    ]);
    expect(at("plugins[3]")).toEqual([
      'the plugin cannot be loaded: it imports "not-installed-package", which is not there',
    ]);
    expect(at("plugins[4]")).toEqual(["the plugin cannot be loaded: TypeError at e.ts"]);
    expect(at("plugins[5]")).toEqual([
      "there is no such file, and no folder with an index.ts or index.js",
    ]);
    expect(at("plugins[6]")).toEqual([expect.stringContaining("install it there")]);
  });

  it("of ids that two plugins want, Rouse's own among them", async () => {
    const issues = await problems(
      { "plugins/a.ts": acme(), "plugins/b.ts": acme(), "plugins/c.ts": acme("console") },
      { channels: { acme: { token: TOKEN } } },
    );
    expect(issues).toEqual([
      {
        path: "plugins/b.ts",
        message: expect.stringContaining('(plugins/a.ts) has the id "acme" already') as unknown,
      },
      {
        path: "plugins/c.ts",
        message: expect.stringContaining('(rouse) has the id "console" already') as unknown,
      },
    ]);
    expect(
      await problems(
        {
          "x.ts": `export default { id: "token", section: "hooks", source: () => ({ start: async () => {} }) };`,
        },
        { plugins: ["./x.ts"] },
      ),
    ).toMatchObject([
      {
        path: "plugins[0]",
        message: expect.stringContaining("setting of Rouse itself") as unknown,
      },
    ]);
    expect(await problems({ "x.ts": acme("last") }, { plugins: ["./x.ts"] })).toMatchObject([
      { path: "plugins[0]", message: expect.stringContaining("`last` already means") as unknown },
    ]);
  });

  it("of two fallbacks; the console is one only if there is no other", async () => {
    const section = { token: TOKEN };
    const files = {
      "plugins/a.ts": acme("a", "fallback: true"),
      "plugins/b.ts": acme("b", "fallback: true"),
    };
    expect(await problems(files, { channels: { a: section, b: section } })).toMatchObject([
      { path: "channels.b", message: expect.stringContaining("channels.a") as unknown },
    ]);
    const { channels, issues } = await load(userFolder(files).dir, {
      channels: { console: {}, a: section },
    });
    expect(issues).toEqual([]);
    expect(channels.fallback?.id).toBe("a");
  });

  it("of channels that are none", async () => {
    const channel = (value: string): string =>
      `export default { id: "odd", channel: () => (${value}) };`;
    const config = { channels: { odd: {} }, plugins: ["./odd.ts"] };
    const said = async (value: string) =>
      (await problems({ "odd.ts": channel(value) }, config)).map(
        ({ path, message }) => `${path} ${message}`,
      );
    expect(await said("{}")).toEqual([
      expect.stringMatching(/^channels\.odd .*send must be a function/),
    ]);
    expect(await said("{ send() {}, limit: 5 }")).toEqual([
      expect.stringMatching(/limit must be a whole number, at least 20/),
    ]);
    expect(await said("Promise.resolve({ send() {} })")).toEqual([
      expect.stringMatching(/not a promise/),
    ]);
    expect(
      await said(
        '{ send() {}, defaultTo: "x", parseRecipient: () => ({ ok: false, message: "no" }) }',
      ),
    ).toEqual(["channels.odd.defaultTo is not a recipient of this channel"]);
    expect(await said("undefined")).toHaveLength(1);
  });
});

describe("a plugin is taken over whole or not at all", () => {
  it("nothing of one that throws stays, and its signal ends", async () => {
    const text = `${HEAD}export default definePlugin({ id: "half", channel: ({ signal }) => { (globalThis as any).halfSignal = signal; return { send: async () => ({ status: "sent" as const }) }; }, source: ({ config }) => { throw new Error("cannot use " + JSON.stringify(config)); } });`;
    const { dir } = userFolder({ "plugins/half.ts": text, "plugins/acme.ts": acme() });
    const { channels, offers, issues, plugins, logged } = await load(dir, {
      channels: { half: { token: TOKEN }, acme: { token: TOKEN } },
    });
    expect(issues).toEqual([
      {
        path: "channels.half",
        message: "the plugin could not be set up: Error at plugins/half.ts",
      },
    ]);
    expect(channels.loaded.map(({ id }) => id)).toEqual(["acme"]);
    expect(offers.sources).toEqual([]);
    expect(plugins).toContainEqual({
      id: "half",
      origin: "plugins/half.ts",
      channel: true,
      configured: false,
    });
    expect((globalThis as { halfSignal?: AbortSignal }).halfSignal?.aborted).toBe(true);
    expect(JSON.stringify([issues, logged])).not.toContain(TOKEN);
  });

  it("one without a section is not used, and that is a warning; `enabled: false` is not even that", async () => {
    const { dir } = userFolder({ "plugins/acme.ts": acme() });
    const unused = await load(dir, {});
    expect(unused.issues).toEqual([]);
    expect(unused.warnings).toEqual([
      { path: "plugins/acme.ts", message: expect.stringContaining("`channels.acme`") as unknown },
    ]);
    expect(unused.channels.resolve("acme")).toEqual({ id: "acme", loaded: false });
    const off = await load(dir, { channels: { acme: { enabled: false } } });
    expect([off.issues, off.warnings]).toEqual([[], []]);
    expect(off.channels.resolve("acme")?.loaded).toBe(false);
    expect(off.channels.loaded.map(({ id }) => id)).toEqual(["console"]);
    expect(
      (
        await load(dir, { channels: { acme: { token: TOKEN }, console: { enabled: false } } })
      ).channels.loaded.map(({ id }) => id),
    ).toEqual(["acme"]);
  });

  it("gets its own folder when it asks, and the snapshot's signal", async () => {
    const text = `${HEAD}export default definePlugin({ id: "keeper", channel: ({ stateDir, signal, log, clock }) => ({ send: async () => { log.info("at " + clock.now()); return { status: "sent" as const, messageIds: [await stateDir(), String(signal.aborted)] }; } }) });`;
    const { dir } = userFolder({ "plugins/keeper.ts": text });
    const snapshot = new AbortController();
    const { channels, logged } = await load(
      dir,
      { channels: { keeper: {} } },
      { signal: snapshot.signal },
    );
    const folder = join(dir, ".rouse/plugins/keeper");
    expect(existsSync(folder)).toBe(false);
    snapshot.abort();
    expect(await channels.get("keeper")?.channel.send(message, AbortSignal.timeout(1000))).toEqual({
      status: "sent",
      messageIds: [folder, "true"],
    });
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(logged.join("")).toMatch(/"plugin":"keeper".*at 1/);
  });
});
