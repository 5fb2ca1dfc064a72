import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configSchema } from "../../src/config/schema/index.ts";
import { memoryFromProc, memoryFromPs } from "../../src/mapping/transforms/process.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { compileTransform } from "../../src/mapping/transforms/transform.ts";
import {
  checkPlaces,
  createPermissions,
  type GrantedPermissions,
  type SecretPlace,
  type TransformPermissions,
} from "../../src/mapping/transforms/permissions.ts";
import { serve } from "../channels/wire.ts";
import { compileModules } from "./world.ts";

const pool = createTransformPool(process.env);
const dir = realpathSync(mkdtempSync(join(tmpdir(), "rouse-modules-")));
afterAll(async () => {
  await pool.close();
  rmSync(dir, { recursive: true, force: true });
});

function write(files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}

const findOpening = (
  permissions: TransformPermissions,
  secrets: SecretPlace[],
): string | undefined => checkPlaces(permissions, secrets).issues[0]?.message;

const NOTHING = configSchema.parse({}).hooks.transformPermissions;

/** Loads and runs a module of a folder, as a gateway would. */
async function run(
  transformsDir: string,
  module: string,
  granted: Partial<GrantedPermissions> = {},
  payload: object = {},
): Promise<string> {
  const permissions = createPermissions(join(dir, transformsDir), { ...NOTHING, ...granted });
  const options = {
    id: module,
    transformsDir: join(dir, transformsDir),
    permissions,
    pool,
    loadMs: 10_000,
    timeoutMs: 5000,
    runner: () => Promise.reject(new Error("a module is no expression")),
  };
  const compiled = compileTransform({ module }, options);
  if (!compiled.ok) return compiled.message;
  const problem = (await compiled.transform.module?.check())?.problem;
  if (problem !== undefined) return problem.message;
  const scope = { payload, headers: {}, query: {}, path: "p", now: 0 };
  const outcome = await compiled.transform.run(scope);
  if (!outcome.ok) return outcome.message;
  return "skipped" in outcome ? "skipped" : String(outcome.actions[0]?.["message"]);
}

/** A module that gives the value of an expression. */
const gives = (expression: string): string =>
  `export default () => ({ message: String(${expression}) });`;

describe("a transform module may", () => {
  beforeAll(() => {
    write({
      "repo/package.json":
        '{ "type": "module", "imports": { "#tools": "./apps/hooks/transforms/lib/tools.js", "#kinds": "./apps/hooks/transforms/lib/kinds.ts" } }',
      "repo/node_modules/esm/package.json":
        '{ "type": "module", "exports": { ".": "./main.js", "./sub": "./sub.js" } }',
      "repo/node_modules/esm/main.js":
        'import { text } from "./sub.js"; export const name = "esm" + text;',
      "repo/node_modules/esm/sub.js": 'export const text = "-sub";',
      "repo/node_modules/typed/package.json": '{ "main": "index.ts" }',
      "repo/node_modules/typed/index.ts": 'export enum Kind { T = "typed" }',
      "repo/node_modules/old/package.json": '{ "main": "lib/index.js" }',
      "repo/node_modules/old/lib/index.js":
        'exports.name = require("fs").readFileSync(__dirname + "/name.txt", "utf8");',
      "repo/node_modules/old/lib/name.txt": "old",
      "repo/apps/hooks/transforms/lib/tools.js": 'export const tool = "tool";',
      "repo/apps/hooks/transforms/lib/data.json": '{ "a": "data" }',
      "repo/apps/hooks/transforms/lib/beside.ts":
        'import { readFileSync } from "node:fs"; enum Kind { Own = "own" } export const beside = (): string => Kind.Own + JSON.parse(readFileSync(new URL("./data.json", import.meta.url), "utf8")).a; export const where: string = import.meta.filename;',
      "repo/apps/hooks/transforms/lib/plain.js":
        'import { kind } from "./kinds.ts"; export const plain = kind;',
      "repo/apps/hooks/transforms/lib/kinds.ts":
        'export enum Kind { A = "kind" } export const kind: Kind = Kind.A;',
      "repo/apps/hooks/transforms/lib/common.cjs": 'module.exports = { common: "common" };',
      "repo/apps/hooks/transforms/lib/strict.cts":
        'import old = require("old"); enum Kind { C = "cts" } export = { strict: Kind.C + old.name };',
    });
  });

  it.each([
    [
      "import packages two folders up",
      "packages.ts",
      `import { name } from "esm"; import old from "old"; ${gives("name + ' ' + old.name")}`,
      "esm-sub old",
    ],
    [
      "import JSON",
      "json.ts",
      `import data from "./lib/data.json" with { type: "json" }; ${gives("data.a")}`,
      "data",
    ],
    [
      "import JSON as TypeScript does",
      "json-plain.ts",
      `import data, { a } from "./lib/data.json"; ${gives("data.a + a")}`,
      "datadata",
    ],
    [
      "import JSON later",
      "json-later.ts",
      `const name = "data"; const { default: data } = await import("./lib/" + name + ".json"); ${gives("data.a")}`,
      "data",
    ],
    [
      "require JSON",
      "json-require.ts",
      `import { createRequire } from "node:module"; const data = createRequire(import.meta.url)("./lib/data.json"); ${gives("data.a")}`,
      "data",
    ],
    [
      "import packages that are TypeScript",
      "typed-package.ts",
      `import { Kind } from "typed"; ${gives("Kind.T")}`,
      "typed",
    ],
    [
      "import TypeScript by the names of its package.json",
      "typed-names.ts",
      `import { kind } from "#kinds"; ${gives("kind")}`,
      "kind",
    ],
    [
      "import JavaScript later",
      "later.ts",
      `const { tool } = await import("./lib/tools.js"); ${gives("tool")}`,
      "tool",
    ],
    [
      "import TypeScript later",
      "later-ts.ts",
      `export default async () => ({ message: (await import("./lib/kinds.ts")).kind });`,
      "kind",
    ],
    [
      "import what it finds out later",
      "computed.ts",
      `const name = "tools"; const { tool } = await import("./lib/" + name + ".js"); ${gives("tool")}`,
      "tool",
    ],
    [
      "import by the names of its package.json",
      "names.ts",
      `import { tool } from "#tools"; ${gives("tool")}`,
      "tool",
    ],
    [
      "leave out endings",
      "endings.ts",
      `import { beside } from "./lib/beside"; import { kind } from "./lib/kinds.js"; ${gives("beside() + kind")}`,
      "owndatakind",
    ],
    [
      "import TypeScript through JavaScript",
      "through.ts",
      `import { plain } from "./lib/plain.js"; ${gives("plain")}`,
      "kind",
    ],
    [
      "import CommonJS",
      "commonjs.ts",
      `import common from "./lib/common.cjs"; ${gives("common.common")}`,
      "common",
    ],
    [
      "import CommonJS TypeScript",
      "cts.ts",
      `import strict from "./lib/strict.cts"; ${gives("strict.strict")}`,
      "ctsold",
    ],
    [
      "be CommonJS",
      "plain.cjs",
      `const { common } = require("./lib/common.cjs"); exports.transform = () => ({ message: common + require("old").name });`,
      "commonold",
    ],
    [
      "be CommonJS TypeScript",
      "entry.cts",
      `import old = require("old"); export = () => ({ message: old.name as string });`,
      "old",
    ],
    [
      "be JavaScript that imports all of TypeScript",
      "js.js",
      `import { kind } from "./lib/kinds.ts"; ${gives("kind")}`,
      "kind",
    ],
    [
      "know where its files lie",
      "where.ts",
      `import { where } from "./lib/beside.ts"; ${gives("where.slice(where.lastIndexOf('/lib'))")}`,
      "/lib/beside.ts",
    ],
    [
      "use zod and Rouse's own names",
      "own.ts",
      `import { z } from "zod"; import { defineTransform } from "rouse/transform"; export default defineTransform(() => ({ message: z.string().parse("zod") }));`,
      "zod",
    ],
    [
      "await at its top",
      "await.ts",
      `const value: string = await Promise.resolve("awaited"); ${gives("value")}`,
      "awaited",
    ],
    [
      "name what it may not call",
      "imports.ts",
      `import { kill } from "node:process"; import { spawn } from "node:child_process"; ${gives("typeof kill + typeof spawn")}`,
      "functionfunction",
    ],
    [
      "look at its stack in TypeScript",
      "stack.ts",
      `interface Unused {\n  a: string;\n}\n\n\nexport default () => ({ message: String(new Error("x").stack?.includes("stack.ts:6:")) });`,
      "true",
    ],
  ])("%s", async (_what, name, text, expected) => {
    write({ [`repo/apps/hooks/transforms/${name}`]: text });
    expect(await run("repo/apps/hooks/transforms", name)).toBe(expected);
  });

  it("use the network", async () => {
    const { url, close } = await serve(() => ({ status: 200, text: "answered" }));
    write({
      "net/fetches.ts": `export default async ({ payload }: { payload: { url: string } }) => ({ message: await (await fetch(payload.url)).text() });`,
    });
    expect(await run("net", "fetches.ts", {}, { url })).toBe("answered");
    await close();
  });

  it("lie in a folder that is a link, or below one", async () => {
    write({
      "far/away/inner/real.ts": `import { here } from "./near.ts"; ${gives("here")}`,
      "far/away/inner/near.ts": 'export const here = "near";',
      "far/away/real.js": gives("1"),
    });
    symlinkSync(join(dir, "far/away"), join(dir, "linked"));
    symlinkSync(join(dir, "far/away/inner"), join(dir, "far/away/inside"));
    expect(await run("linked", "inner/real.ts")).toBe("near");
    expect(await run("linked", "inside/real.ts")).toBe("near");
    expect(await run("linked", "real.js")).toBe("1");
  });
});

describe("a transform module that leaves its folder", () => {
  beforeAll(() =>
    write({
      "leave/secret.ts": 'export const secret = "s";',
      "leave/secret.js": 'export const secret = "s";',
      "leave/secret.json": '{ "secret": "s" }',
    }),
  );

  it("is refused with the path and the key, and works once the key grants it", async () => {
    const leavers = [
      ["a.ts", `import { secret } from "../secret.ts"; ${gives("secret")}`],
      ["b.ts", `import { secret } from "../secret.js"; ${gives("secret")}`],
      ["c.ts", `import data from "../secret.json" with { type: "json" }; ${gives("data.secret")}`],
      ["d.js", `import { secret } from "../secret.js"; ${gives("secret")}`],
      [
        "e.cjs",
        `const { secret } = require("../secret.json"); module.exports = () => ({ message: secret });`,
      ],
    ] as const;
    const paths = leavers.map(([, text]) =>
      join(dir, "leave", /secret\.\w+/.exec(text)?.[0] ?? ""),
    );
    for (const [index, [name, text]] of leavers.entries()) {
      write({ [`leave/transforms/${name}`]: text });
      expect(await run("leave/transforms", name), text).toMatch(
        new RegExp(
          `^cannot be loaded: transforms may not read ${paths[index]}.*hooks\\.transformPermissions\\.read`,
        ),
      );
    }
    for (const [name, text] of leavers)
      expect(await run("leave/transforms", name, { read: paths }), text).toBe("s");
  });

  it("by what lies behind a link is refused before it runs", async () => {
    write({ "links/transforms/a.js": gives("1"), "links/rouse.json5": "{}" });
    const permissions = (granted: Partial<GrantedPermissions> = {}) =>
      createPermissions(join(dir, "links/transforms"), { ...NOTHING, ...granted });
    expect(findOpening(permissions(), [])).toBeUndefined();
    symlinkSync("a.js", join(dir, "links/transforms/b.js"));
    expect(findOpening(permissions(), [])).toBeUndefined();
    mkdirSync(join(dir, "links/transforms/deep"));
    symlinkSync("../../later", join(dir, "links/transforms/deep/link"));
    expect(findOpening(permissions(), [])).toBe(
      `contains the link deep/link, which leads to ${join(dir, "links/later")}: put a copy there, or grant the place with hooks.transformPermissions.read`,
    );
    expect(findOpening(permissions({ read: [join(dir, "links/later")] }), [])).toBeUndefined();
  });

  it("because that holds the config or the state, is refused when the config is loaded", async () => {
    const { issues } = await compileModules(["m.js"], { "transforms/m.js": gives("1") }, pool);
    expect(issues).toEqual([]);
    const permissions = createPermissions(join(dir, "links"), NOTHING);
    expect(
      findOpening(permissions, [{ what: "the state folder", path: join(dir, "elsewhere") }]),
    ).toBeUndefined();
    // Also if it is only to be made, and whatever link leads there.
    symlinkSync(join(dir, "links"), join(dir, "by-link"));
    for (const path of [
      join(dir, "links"),
      join(dir, "links/.rouse"),
      join(dir, "by-link/.rouse/deeper"),
    ])
      expect(findOpening(permissions, [{ what: "the state folder", path }])).toMatch(
        /^contains the state folder .*use a folder that holds modules alone$/,
      );
  });
});

describe("hooks.transformPermissions", () => {
  it("that grants a secret is a warning", async () => {
    const files = { "transforms/m.js": gives("1") };
    const { issues, warnings } = await compileModules(["m.js"], files, pool, {
      transformPermissions: { read: [tmpdir()] },
    });
    expect([issues, warnings]).toEqual([
      [],
      [
        {
          path: "hooks.transformPermissions.read",
          message: expect.stringMatching(/^lets transform modules read the state folder \(/),
        },
      ],
    ]);
  });

  it("cannot be confined to a name with an asterisk, which Node takes for any text", () => {
    write({ "any*text/transforms/m.js": gives("1") });
    expect(findOpening(createPermissions(join(dir, "any*text/transforms"), NOTHING), [])).toMatch(
      /rename it$/,
    );
  });

  const KEYS: [keyof GrantedPermissions, string, Partial<GrantedPermissions>][] = [
    [
      "read",
      `(await import("node:fs")).readFileSync(payload.file, "utf8")`,
      { read: [join(dir, "granted")] },
    ],
    [
      "write",
      `(await import("node:fs")).writeFileSync(payload.file + "2", "x")`,
      { write: [join(dir, "granted")] },
    ],
    [
      "childProcess",
      `(await import("node:child_process")).execFileSync(process.execPath, ["-e", "0"])`,
      { childProcess: true },
    ],
    [
      "worker",
      `new (await import("node:worker_threads")).Worker("0", { eval: true }).threadId`,
      { worker: true },
    ],
    [
      "addons",
      `await new Promise((done) => { try { process.dlopen({ exports: {} }, import.meta.filename) } catch (error) { if (error.message.includes("disabled")) throw error; done() } })`,
      { addons: true },
    ],
  ];

  it("grants by each key what is denied without it, also after it was granted", async () => {
    write({ "granted/file.txt": "text" });
    const payload = { file: join(dir, "granted/file.txt") };
    for (const [name, expression, granted] of KEYS) {
      write({
        [`grants/${name}.js`]: `export default async ({ payload }) => ({ message: "did " + (${expression}) });`,
      });
      expect(await run("grants", `${name}.js`, granted, payload), name).toMatch(/^did /);
      expect(await run("grants", `${name}.js`, {}, payload), name).toMatch(
        /did something that transforms may not do: see hooks\.transformPermissions$/,
      );
    }
  });
});

describe("loading a transform module", () => {
  const asked: string[] = [];
  let server: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    server = await serve(({ path }) => {
      asked.push(path);
      // The first of these is never answered.
      const isFirst = path === "/once" && asked.filter((one) => one === "/once").length === 1;
      return isFirst || path === "/never" ? "hang" : { status: 200, text: "ok" };
    });
  });
  afterAll(() => server.close());
  const asks = (path: string): string =>
    `await fetch("${server.url}${path}"); ${gives("'loaded'")}`;

  it("may take longer than a call, in a fresh process too", async () => {
    const slow = `await new Promise((done) => setTimeout(done, 900)); ${gives("'loaded'")}`;
    const { issues, run: call } = await compileModules(
      ["slow.ts"],
      { "transforms/slow.ts": slow },
      pool,
      { transformTimeoutSeconds: 0.5 },
    );
    expect(issues).toEqual([]);
    pool.recycle();
    expect(await call("slow.ts")).toBe("loaded");
  });

  it("has an end, and a reason", async () => {
    for (const [module, text, transformLoadSeconds] of [
      ["never.ts", asks("/never"), 2.5],
      ["loops.js", "for (;;);", 0.3],
    ] as const) {
      const files = { [`transforms/${module}`]: text };
      const { issues } = await compileModules([module], files, pool, { transformLoadSeconds });
      expect(issues).toEqual([
        {
          path: "hooks.mappings[0].transform.module",
          message: "took longer than hooks.transformLoadSeconds to load",
          transient: true,
        },
      ]);
    }
    expect(asked.filter((url) => url === "/never")).toHaveLength(2);
  });

  it("is tried again when the config is loaded", async () => {
    const { issues, run: call } = await compileModules(
      ["once.ts"],
      { "transforms/once.ts": asks("/once") },
      pool,
      {
        transformLoadSeconds: 2,
      },
    );
    expect([issues, await call("once.ts")]).toEqual([[], "loaded"]);
    expect(asked.filter((url) => url === "/once").length).toBeGreaterThan(1);
  });

  it("that does not compile says where", async () => {
    const files = {
      "transforms/broken.ts":
        'import "./lib/worse.ts"; import "./lib/worst.ts"; export default () => null;',
      "transforms/lib/worse.ts": "const a: string = ;",
      "transforms/lib/worst.ts": "\n\n  const b: = 1;",
    };
    const { issues } = await compileModules(["broken.ts"], files, pool);
    expect(issues).toEqual([
      {
        path: "hooks.mappings[0].transform.module",
        message: expect.stringMatching(/^cannot be loaded: lib\/worse\.ts:1:19: \w+/),
        detail: expect.stringMatching(/^const a: string = ;\n {18}\^\nlib\/worst\.ts:3:\d+: \w+/),
      },
    ]);
  });

  it("finds packages that were installed after its process had started", async () => {
    write({
      "late/app/transforms/a.js": gives("1"),
      "late/app/transforms/b.ts": `import { name } from "late"; ${gives("name")}`,
    });
    expect(await run("late/app/transforms", "a.js")).toBe("1");
    expect(await run("late/app/transforms", "b.ts")).toMatch(/^cannot be loaded: .*'late'/);
    write({
      "late/node_modules/late/package.json": '{ "type": "module", "main": "late.js" }',
      "late/node_modules/late/late.js": 'export const name = "late";',
    });
    expect(await run("late/app/transforms", "b.ts")).toBe("late");
  });

  it("follows a change in what it imports", async () => {
    write({
      "changing/entry.ts": `import { value } from "./value.ts"; ${gives("value")}`,
      "changing/value.ts": "export const value = 1;",
    });
    expect(await run("changing", "entry.ts")).toBe("1");
    write({ "changing/value.ts": "export const value = 2;" });
    expect(await run("changing", "entry.ts")).toBe("2");
  });
});

describe("the memory of a transform", () => {
  it("is watched after its answer too", async () => {
    const grows = `export default () => { const all = []; setInterval(() => all.push(Buffer.alloc(64 * 2 ** 20, 1)), 5); return { message: String(process.pid) }; };`;
    write({ "grows/grows.js": grows });
    const pid = Number(await run("grows", "grows.js"));
    await expect.poll(() => memoryFromProc(pid)).toBe(0);
  });

  it("is read by ps as by /proc", async () => {
    const [viaPs, viaProc] = [
      (await memoryFromPs([process.pid])).get(process.pid),
      memoryFromProc(process.pid),
    ];
    expect(Math.abs((viaPs ?? 0) - viaProc)).toBeLessThan(viaProc / 2);
  });
});
