import { execFile } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import JSON5 from "json5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { generatedPages } from "../../scripts/pages.ts";
import { mappingFileSchema } from "../../src/config/schema/mapping.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import type { Plugin } from "../../src/plugin/api.ts";
import { fixtureSchema } from "../../src/operate/tests/fixture.ts";
import { parseHttpSample } from "../../src/contract/http-sample.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { compile } from "../mapping/world.ts";

/**
 * Every code block of every page is held to something: configs and mappings to the schemas, TypeScript to the compiler,
 * commands to the command line's own help. Pages whose blocks do more are run in tests of their own.
 */
const ROOT = resolve(import.meta.dirname, "../..");
const PAGES = ["README.md", "CONTRIBUTING.md", ...pagesIn("docs")];

function pagesIn(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".md")).map((name) => `${folder}/${name}`);
}

const CATALOG = JSON.parse(readFileSync(join(ROOT, "plugins/catalog.json"), "utf8")) as {
  id: string;
  section?: string;
  setupQuestions?: { fields: { name: string; env?: string }[] };
}[];
const REFERENCE = readFileSync(join(ROOT, "docs/config.md"), "utf8");

interface Block {
  page: string;
  language: string;
  text: string;
}

const blocks: Block[] = PAGES.flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
    (found) => ({
      page,
      language: found[1] ?? "",
      text: found[2] ?? "",
    }),
  ),
);
const inLanguage = (...languages: string[]): [string, Block][] =>
  blocks
    .filter((block) => languages.includes(block.language))
    .map((block, index) => [`${block.page} (${index + 1})`, block]);

it("docs: every code block has a language that the tests know", () => {
  const known = ["json5", "json", "ts", "sh", "http", ""];
  expect(
    blocks
      .filter(({ language }) => !known.includes(language))
      .map(({ page, language }) => `${page}: ${language}`),
  ).toEqual([]);
  expect(blocks.length).toBeGreaterThan(15);
});

it("docs: generated parts are up to date: the references, and the options of every channel", async () => {
  const pages = await generatedPages();
  const channels = CATALOG.filter(({ section }) => section === undefined);
  expect(pages.map(({ name }) => name)).toEqual(
    expect.arrayContaining(channels.map(({ id }) => `channels/${id}.md`)),
  );
  for (const { name, text } of pages)
    expect(readFileSync(join(ROOT, "docs", name), "utf8")).toBe(text);
});

it.each(inLanguage("http"))("the suites read the request of %s", (name, { text }) =>
  expect(parseHttpSample(name, text).body).not.toBe(""),
);

/** Holds the variables of channels' secrets to those that `rouse init` takes them from. */
function expectKnownVariables({ channels = {} }: Record<string, unknown>): void {
  for (const [id, section] of Object.entries(channels as Record<string, Record<string, unknown>>))
    for (const { name, env } of CATALOG.find((one) => one.id === id)?.setupQuestions?.fields ?? [])
      if (env !== undefined && String(section[name]).startsWith("${"))
        expect([id, name, section[name]]).toEqual([id, name, `\${${env}}`]);
}

describe("configs and mappings", () => {
  it.each(inLanguage("json5"))("%s", async (_name, { text }) => {
    const value = JSON5.parse<Record<string, unknown>>(text);
    if ("match" in value) expect((await compile({ mappings: [value] })).issues).toEqual([]);
    else if ("request" in value)
      expect(fixtureSchema.safeParse(value).error?.issues ?? []).toEqual([]);
    else if ("mappings" in value)
      expect(mappingFileSchema.safeParse(value).error?.issues ?? []).toEqual([]);
    else {
      expect(configSchema.safeParse(value).error?.issues ?? []).toEqual([]);
      expectKnownVariables(value);
      // A config that has no `hooks.enabled` receives nothing.
      if (value["hooks"] !== undefined) expect(value).toMatchObject({ hooks: { enabled: true } });
      // The schema leaves other keys of `hooks` to plugins.
      for (const [key, section] of Object.entries(value["hooks"] ?? {})) {
        const plugin = join(ROOT, "plugins", key, "index.ts");
        if (existsSync(plugin))
          expect(
            ((await import(plugin)) as { default: Plugin }).default.config?.safeParse(section).error
              ?.issues ?? [],
          ).toEqual([]);
        else expect(REFERENCE).toMatch(new RegExp(`\`hooks\\.${key}[\`.[]`));
      }
    }
  });
});

describe("TypeScript", () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-docs-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it("type-checks as a user's file", async () => {
    mkdirSync(join(dir, "src"));
    writeFileSync(join(dir, "package.json"), '{ "type": "module" }');
    const found = inLanguage("ts");
    for (const [index, [page, { text }]] of found.entries()) {
      // A block that names its file may be imported by the others of its page.
      const file = join(
        dir,
        "src",
        page.replace(/ \(\d+\)$/, ""),
        /^\/\/ (\S+\.ts)\n/.exec(text)?.[1] ?? `block${index}.ts`,
      );
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    const paths = {
      rouse: [join(ROOT, "src/index.ts")],
      hono: [join(ROOT, "node_modules/hono/dist/types/index.d.ts")],
      "@hono/node-server": [join(ROOT, "node_modules/@hono/node-server/dist/index.d.mts")],
      "rouse/plugin": [join(ROOT, "src/plugin/api.ts")],
      "rouse/channel-kit": [join(ROOT, "src/channel-kit/api.ts")],
      "rouse/testing": [join(ROOT, "src/testing/index.ts")],
      "rouse/transform": [join(ROOT, "src/mapping/api.ts")],
      zod: [join(ROOT, "node_modules/zod/index.d.cts")],
      openai: [join(ROOT, "node_modules/openai/index.d.mts")],
    };
    const compilerOptions = { paths, typeRoots: [join(ROOT, "node_modules/@types")] };
    writeFileSync(
      join(dir, "tsconfig.json"),
      JSON.stringify({ extends: join(ROOT, "tsconfig.json"), compilerOptions, include: ["src"] }),
    );
    const tsc = [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", dir];
    const checked = await promisify(execFile)(process.execPath, tsc).catch(
      (error: { stdout: string }) => error,
    );
    expect(checked.stdout).toBe("");
    expect(found.length).toBeGreaterThan(2);
  });
});

/** The words of a command up to its first option or argument, and its options. */
function partsOf(line: string): { words: string[]; options: string[] } {
  const [, ...rest] = line.split(/\s+/);
  const end = rest.findIndex((word) => !/^[a-z][a-z-]*$/.test(word));
  return {
    words: end < 0 ? rest : rest.slice(0, end),
    options: rest.filter((word) => word.startsWith("-")).map((word) => word.replace(/=.*/, "")),
  };
}

describe("commands", () => {
  const lines = inLanguage("sh").flatMap(([name, { text }]) =>
    text
      .replaceAll(/\\\n\s*/g, " ")
      .trim()
      .split("\n")
      .filter((line) => line !== "" && !/^(?:#|ROUSE=|rouse\(\))/.test(line))
      .map((line) => [name, line] as const),
  );

  const helps = new Map<string, ReturnType<CliWorld["rouse"]>>();
  let cli: CliWorld;
  beforeAll(async () => void (cli = await createCli()));
  afterAll(() => cli.close());
  const getHelp = (words: readonly string[]): ReturnType<CliWorld["rouse"]> => {
    const command = [...words, "--help"].join(" ");
    const help = helps.get(command) ?? cli.rouse(command);
    helps.set(command, help);
    return help;
  };

  it.each(lines)("%s: %s", async (_name, line) => {
    const [program] = line.split(/\s+/);
    expect([
      "rouse",
      "curl",
      "echo",
      "mkdir",
      "npm",
      "npx",
      "node",
      "openssl",
      "docker",
      "kubectl",
      "systemctl",
    ]).toContain(program);
    if (program !== "rouse") return;
    const { words, options } = partsOf(line);
    // The longest beginning that is a command; what follows is its argument.
    let help = { code: 1, out: "" };
    for (let length = words.length; length > 0 && help.code !== 0; length--)
      help = await getHelp(words.slice(0, length));
    expect(help.out).toContain("Usage: rouse");
    for (const option of options) expect(help.out).toContain(option);
  });
});
