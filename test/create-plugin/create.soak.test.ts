import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { KINDS, main } from "../../create-rouse-plugin/create.js";
import { installPacked, ROOT, runTests, runTool } from "../testing/packed.ts";

let cwd: string;
const folders: string[] = [];
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "rouse-create-"));
  folders.push(cwd);
});
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Runs the generator as a process in a pipe would, or with answers as one in a terminal. */
async function create(
  argv: string[],
  { answers, folder = cwd }: { answers?: string[]; folder?: string } = {},
) {
  let out = "";
  let err = "";
  const asked: string[] = [];
  const ask = async (question: string): Promise<string> => {
    asked.push(question);
    return answers?.shift() ?? "";
  };
  const io = {
    cwd: folder,
    out: (text: string) => void (out += text),
    err: (text: string) => void (err += text),
  };
  const code = await main(argv, answers ? { ...io, ask } : io);
  return { code, out, err, asked };
}

describe("npm create rouse-plugin", () => {
  it("explains itself with --help, and says what is missing if there is no terminal to ask in", async () => {
    const help = await create(["--help"]);
    expect([help.code, help.err]).toEqual([0, ""]);
    for (const kind of Object.keys(KINDS)) expect(help.out).toContain(`\n  ${kind} `);
    expect(await create([])).toMatchObject({
      code: 2,
      err: expect.stringContaining("Usage:") as unknown,
    });
    expect(await create(["acme"])).toMatchObject({ code: 2 });
    expect(await create(["acme", "--colour"])).toMatchObject({ code: 2 });
    expect(await create(["acme", "--kind", "chanel"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("channel, source") as unknown,
    });
    expect(await create(["../acme", "--kind", "channel"])).toMatchObject({ code: 2 });
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("asks for what was not given", async () => {
    const { code, asked } = await create([], { answers: ["acme", "tool"] });
    expect([code, asked.length]).toEqual([0, 2]);
    expect(readFileSync(join(cwd, "acme/src/index.ts"), "utf8")).toContain("tools(");
    expect((await create(["other"], { answers: ["scheme"] })).asked).toHaveLength(1);
  });

  it("overwrites nothing", async () => {
    mkdirSync(join(cwd, "acme"));
    writeFileSync(join(cwd, "acme/notes.txt"), "mine");
    expect(await create(["acme", "--kind", "channel"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("not empty") as unknown,
    });
    expect(readdirSync(join(cwd, "acme"))).toEqual(["notes.txt"]);
  });

  it("brings the Node that the tests need, so that any Node from 20 on is enough", async () => {
    expect((await create(["acme", "--kind", "tool"])).code).toBe(0);
    const { devDependencies, allowScripts, scripts } = JSON.parse(
      readFileSync(join(cwd, "acme/package.json"), "utf8"),
    ) as Record<string, Record<string, unknown>>;
    // `vitest` of node_modules/.bin finds this Node first.
    expect([devDependencies?.["node"], allowScripts?.["node"], scripts?.["test"]]).toEqual([
      expect.stringMatching(/^24\./),
      true,
      "vitest run",
    ]);
  });

  it("names what Rouse itself is built with", () => {
    const read = (path: string) =>
      JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Record<string, Record<string, string>>;
    const { dependencies, devDependencies } = read("package.json");
    const { generated = {} } = read("create-rouse-plugin/package.json");
    expect(Object.keys(generated).length).toBeGreaterThan(0);
    for (const [name, version] of Object.entries(generated))
      expect([name, dependencies?.[name] ?? devDependencies?.[name]]).toEqual([name, version]);
  });
});

describe("from the packed Rouse, with nothing of the repository", () => {
  let installed: ReturnType<typeof installPacked>;
  const kinds = Object.keys(KINDS);
  beforeAll(async () => {
    installed = installPacked();
    mkdirSync(join(installed.dir, "plugins"));
    for (const kind of kinds) {
      const folder = join(installed.dir, "plugins");
      // With a hyphen, which some places must write in another way.
      expect((await create([`my-${kind}`, "--kind", kind], { folder })).code).toBe(0);
    }
  });
  afterAll(() => installed.remove());

  it("the plugin of every kind compiles in strict TypeScript", () => {
    const folder = join(installed.dir, "plugins");
    const options = (kind: string): string =>
      readFileSync(join(folder, `my-${kind}`, "tsconfig.json"), "utf8");
    const plain = kinds.filter((kind) => !options(kind).includes("skipLibCheck"));
    // The types of one vendor's package are incomplete; all others are checked together, as they share their options.
    expect(kinds.filter((kind) => !plain.includes(kind))).toEqual(["provider"]);
    for (const kind of plain) expect(options(kind)).toBe(options("channel"));
    const include = plain.map((kind) => `my-${kind}/src`);
    const together = {
      extends: "./my-channel/tsconfig.json",
      compilerOptions: { rootDir: ".", noEmit: true },
      include,
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(together));
    expect(runTool("tsc", ["-p", "."], folder).output).toBe("");
    expect(runTool("tsc", ["-p", "."], join(folder, "my-provider")).output).toBe("");
    expect(readdirSync(join(folder, "my-provider/dist")).toSorted()).toContain("index.d.ts");
  });

  it("a stranger's plugin with several kinds compiles, and the compiled one passes the suites", async () => {
    const folder = join(installed.dir, "stranger");
    cpSync(join(ROOT, "test/fixtures/stranger"), join(folder, "src"), { recursive: true });
    writeFileSync(
      join(folder, "package.json"),
      '{ "name": "rouse-plugin-board", "type": "module" }',
    );
    writeFileSync(
      join(folder, "tsconfig.json"),
      readFileSync(join(installed.dir, "plugins/my-channel/tsconfig.json"), "utf8"),
    );
    expect(runTool("tsc", ["-p", "."], folder).output).toBe("");
    for (const name of ["suites", "gateway"])
      cpSync(join(folder, `dist/${name}.js`), join(folder, `dist/${name}.test.js`));
    const { passed, failed } = runTests(join(folder, "dist"));
    expect(new Set(failed)).toEqual(
      new Set([
        ["suites.test.js", []],
        ["gateway.test.js", []],
      ]),
    );
    expect(passed.get("gateway.test.js")).toHaveLength(2);
    const kinds = new Set(passed.get("suites.test.js")?.map((title) => title.split(" ")[0]));
    expect(kinds).toEqual(new Set(["channel", "preset", "provider", "scheme", "tools"]));
    // It uses what is published and nothing else.
    const names = readdirSync(join(folder, "src"), { recursive: true, encoding: "utf8" }).filter(
      (name) => name.endsWith(".ts"),
    );
    const imports = names.flatMap((name) =>
      [...readFileSync(join(folder, "src", name), "utf8").matchAll(/ from "([^"]+)"/g)].map(
        ([, from = ""]) => from,
      ),
    );
    expect(
      imports.filter(
        (from) => !/^(?:\.\/|node:|zod$|vitest$|rouse$|rouse\/(?:plugin|testing)$)/.test(from),
      ),
    ).toEqual([]);
  });

  it("the plugin of every kind passes the suite of its kind", () => {
    const { passed, failed } = runTests(join(installed.dir, "plugins"));
    for (const kind of kinds) {
      const file = `my-${kind}/src/index.test.ts`;
      expect([kind, failed.get(file)]).toEqual([kind, []]);
      expect(passed.get(file)?.length).toBeGreaterThan(3);
    }
  });
});
