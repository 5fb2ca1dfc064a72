import { execFileSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { importUserModule } from "../../src/plugin/resolve.ts";
import { load, userFolder } from "./support.ts";

/** Imports a user's module, and returns its exports. */
async function run(
  files: Record<string, string>,
  entry = "index.ts",
): Promise<{ dir: string; exports: Record<string, unknown> }> {
  const { dir } = userFolder(files);
  const { module } = await importUserModule(join(dir, entry));
  if (!module.ok) throw module.error;
  return { dir, exports: module.exports };
}

describe("a user's TypeScript runs as Node's modules do", () => {
  it.each(["ts", "mts", "cts", "tsx"])(
    "in files that end in .%s, whatever the package says",
    async (ending) => {
      for (const type of ["module", "commonjs"]) {
        const text =
          'import { sep } from "node:path";\nenum Kind { one = "one" }\nexport default Kind.one + sep;';
        const { exports } = await run(
          { [`index.${ending}`]: text, "package.json": JSON.stringify({ type }) },
          `index.${ending}`,
        );
        expect(exports["default"]).toBe("one/");
      }
    },
  );

  it("each file knows its own place", async () => {
    const { dir, exports } = await run(
      {
        "a b#%20/index.ts": `import { fileURLToPath } from "node:url";
        import { inner } from "./lib/inner.ts";
        const __filename = fileURLToPath(import.meta.url);
        export default [__filename, import.meta.dirname, inner, import.meta.resolve("./x.ts"), import.meta.resolve("node:fs"), import.meta.resolve("kit")];`,
        "a b#%20/lib/inner.ts": "export const inner = import.meta.filename;",
        "node_modules/kit/package.json": '{ "name": "kit", "main": "main.js" }',
        "node_modules/kit/main.js": "",
      },
      "a b#%20/index.ts",
    );
    const folder = join(dir, "a b#%20");
    const href = (path: string): string => `file://${dir}/${path}`;
    expect(exports["default"]).toEqual([
      join(folder, "index.ts"),
      folder,
      join(folder, "lib/inner.ts"),
      href("a%20b%23%2520/x.ts"),
      "node:fs",
      href("node_modules/kit/main.js"),
    ]);
  });

  it("through a link, and with imports in a circle", async () => {
    const { dir } = userFolder({
      "real/index.ts":
        'import { b } from "./b.ts";\nexport const a = "a";\nexport default [b(), import.meta.dirname];',
      "real/b.ts": 'import { a } from "./index.ts";\nexport const b = () => `b${a}`;',
    });
    symlinkSync("real", join(dir, "link"));
    const { module, files } = await importUserModule(join(dir, "link/index.ts"));
    expect(module.ok && module.exports["default"]).toEqual(["ba", join(dir, "real")]);
    expect(files).toContain(join(dir, "real/b.ts"));
  });

  it("with packages as `import` finds them, now or later, and names that two files share", async () => {
    const { exports } = await run({
      "index.ts": `import all, { n } from "old"; import which from "both"; import { Same as Other } from "./other.ts"; import { typed } from "typed"; import data from "typed/package.json"; import c from "./c.cts";
        class Same {}
        const [exports, require, module, text] = [1, 2, 3, 4];
        export default [all.n, n, which, Same.name, Other.name, typed, data.name, c, exports + require + module + text];
        export const later = async () => [(await import("both")).default, typeof (await import("rouse/channel-kit")).sameRule];`,
      "other.ts": "export class Same {}",
      "c.cts":
        'const { sep } = require("node:path"); const { default: which } = require("both"); module.exports = [sep, which, __filename.length > 0];',
      "node_modules/old/package.json": '{ "name": "old", "main": "main.js" }',
      "node_modules/old/main.js": "exports.n = 1;",
      "node_modules/both/package.json":
        '{ "name": "both", "exports": { "module": "./module.mjs", "import": "./import.mjs", "default": "./require.cjs" } }',
      "node_modules/both/import.mjs": 'export default "import";',
      "node_modules/both/module.mjs": 'export default "module";',
      "node_modules/both/require.cjs": 'exports.default = "require";',
      "node_modules/typed/package.json":
        '{ "name": "typed", "exports": { ".": "./index.ts", "./package.json": "./package.json" } }',
      "node_modules/typed/index.ts": 'enum Kind { one = "one" }\nexport const typed = Kind.one;',
    });
    expect(exports["default"]).toEqual([
      1,
      1,
      "import",
      "Same",
      "Same",
      "one",
      "typed",
      ["/", "require", true],
      10,
    ]);
    expect(await (exports["later"] as () => Promise<unknown>)()).toEqual(["import", "function"]);
  });

  it("a problem is named with its place", async () => {
    const { dir } = userFolder({
      "plugins/export.ts": '\nimport { nothing } from "./lib/lib.ts";\nexport default nothing;',
      "plugins/lib/lib.ts": "export const something = 1;",
      "plugins/outside.ts": '\nimport { nothing } from "node:fs";\nexport default nothing;',
      "plugins/missing.ts": 'import "./lib/not-there.ts";',
      "plugins/package.ts": 'import "broken";',
      "plugins/inside.ts": 'import "hono";',
      "node_modules/broken/package.json": '{ "name": "broken", "main": "main.js" }',
      "node_modules/broken/main.js": "\nthrow new RangeError('a secret');",
    });
    const { issues } = await load(dir);
    expect(
      Object.fromEntries(
        issues.map(({ path, message }) => [
          path,
          message.replace("the plugin cannot be loaded: ", ""),
        ]),
      ),
    ).toEqual({
      "plugins/export.ts": 'it imports "nothing", which is not exported, at plugins/export.ts:2',
      "plugins/outside.ts": 'it imports "nothing", which is not exported, at plugins/outside.ts:2',
      "plugins/missing.ts": 'it imports "plugins/lib/not-there.ts", which is not there',
      "plugins/package.ts": "RangeError at node_modules/broken/main.js:2",
      // Rouse has this package; the user has not.
      "plugins/inside.ts": 'it imports "hono", which is not there',
    });
  });

  it("stacks name lines of TypeScript, and imports whose path is computed begin at the file", () => {
    const { dir } = userFolder({
      "index.ts": `import { fail } from "./lib/fail.ts";
        export default { fail, other: (name: string) => import(name), own: (name: string) => import(new URL(name, import.meta.url).href) };`,
      "lib/fail.ts":
        "interface Unused {\n  a: string;\n}\n\nexport function fail() {\n  throw new Error('here');\n}\n",
      "other.js": 'export default "other";',
      "run.mjs": `
        const { importUserModule } = await import(process.argv[2] + "/src/plugin/resolve.ts");
        const { module } = await importUserModule(import.meta.dirname + "/index.ts");
        const { fail, other, own } = module.exports.default;
        const said = [(await other("./other.js")).default, (await own("./other.js")).default];
        try { fail(); } catch (error) { said.push(error.stack.split("\\n")[1]); }
        console.log(JSON.stringify(said));`,
    });
    const args = [
      "--conditions=rouse-source",
      "--disable-warning=ExperimentalWarning",
      join(dir, "run.mjs"),
      resolve(import.meta.dirname, "../.."),
    ];
    const said = JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })) as string[];
    expect(said).toEqual([
      "other",
      "other",
      expect.stringContaining(`${join(dir, "lib/fail.ts")}:6:9`),
    ]);
  });
});
