import { readFileSync, readdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import JSON5 from "json5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Issue } from "../../src/core/errors.ts";
import { LINT_RULES, type LintRule } from "../../src/config/schema/lint.ts";
import { SCHEMES_DIR } from "../../src/mapping/presets.ts";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { lintMappings } from "../../src/operate/shapes/lint.ts";
import { compile, presetNames } from "../mapping/world.ts";
import { createCli, type CliWorld } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "lint-hook-token-0123456789";
const SECRET = "lint-secret-0123456789";

let cli: CliWorld;
beforeAll(async () => {
  cli = await createCli();
});
afterAll(() => cli.close());

interface Checked {
  code: number;
  ok: boolean;
  warnings: Issue[];
  issues: Issue[];
}

async function validate(mappings: object[]): Promise<Checked> {
  await cli.write("rouse.json5", { hooks: { enabled: true, token: TOKEN, mappings } });
  const { code, out } = await cli.rouse("config validate --json --strict");
  return { code, ...(JSON.parse(out) as Omit<Checked, "code">) };
}

async function lint(hooks: { tools?: string[] }): Promise<Issue[]> {
  const { set } = await compile(hooks);
  const signed = set.paths.flatMap(({ path, auth, authAt }) =>
    auth && "scheme" in auth ? [{ path, auth, at: authAt ?? path }] : [],
  );
  const { verifiers } = createVerifiers(
    signed,
    { dir: SCHEMES_DIR, plugins: new Map() },
    "https://hooks.example",
    fetch,
  );
  return lintMappings(set.configs, { verifiers, hooksTools: hooks.tools ?? [] });
}

/** The warnings of lint, as `path rule`. */
const findings = async (mappings: object[], hooks: object = {}): Promise<string[]> =>
  (await lint({ mappings, ...hooks } as object)).map(({ path, rule }) => `${path} ${rule}`);

let number = 0;
const hook = (match: object, more: object = {}): object => ({
  id: `m${number++}`,
  match: { path: "shop", ...match },
  messageTemplate: "m",
  deliver: false,
  ...more,
});
const payload = (conditions: object, more: object = {}): object =>
  hook({ payload: conditions }, more);

describe("never-reached", () => {
  it.each<[string, object, object]>([
    ["behind one without conditions", hook({}), payload({ type: "a" })],
    [
      "behind one that wants less",
      payload({ type: "a" }),
      payload({ type: "a", "data.total": { $gte: 5 } }),
    ],
    ["behind one with more values", payload({ type: ["a", "b"] }), payload({ type: { $eq: "b" } })],
    ["behind the same condition", payload({ n: { $gte: 5 } }), payload({ n: { $gte: 5 }, m: 1 })],
    [
      "with a `when` of its own",
      payload({ type: "a" }),
      hook({ payload: { type: "a" }, when: "n > 5" }),
    ],
    ["on all of its paths", hook({ path: ["shop", "news"] }), hook({ path: ["news", "shop"] })],
    [
      "behind one that takes any path",
      hook({ path: undefined }),
      hook({ path: undefined, source: "x" }),
    ],
    [
      "by a header in another case",
      hook({ headers: { "X-Kind": "a" } }),
      hook({ headers: { "x-kind": "a" } }),
    ],
  ])("finds the second of two %s", async (_name, first, second) =>
    expect(await findings([first, second])).toEqual(["hooks.mappings[1] never-reached"]),
  );

  it.each<[string, object, object]>([
    ["where it comes first", payload({ type: "a", n: 1 }), payload({ type: "a" })],
    ["behind `continue`", hook({}, { continue: true }), payload({ type: "a" })],
    ["behind a disabled one", hook({}, { enabled: false }), payload({ type: "a" })],
    ["behind fewer values", payload({ type: ["a", "b"] }), payload({ type: ["b", "c"] })],
    ["behind another type of value", payload({ n: 1 }), payload({ n: "1" })],
    ["behind more than an equality", payload({ n: { $eq: 1, $exists: true } }), payload({ n: 1 })],
    ["behind a `when`", hook({ when: "n > 5" }), payload({ n: 7 })],
    ["with a path that is free", hook({}), hook({ path: ["shop", "news"] })],
    ["on its path behind one without", hook({ path: undefined }), hook({})],
    [
      "behind `$or`, which is not looked into",
      payload({ $or: [{ n: 1 }, { m: 1 }] }),
      payload({ n: 1 }),
    ],
  ])("does not find the second of two %s", async (_name, first, second) =>
    expect(await findings([first, second])).toEqual([]),
  );
});

describe("wrong-type", () => {
  it.each<[string, object, string[]]>([
    [
      "a number as text",
      { n: { $gte: "5" } },
      ["hooks.mappings[0].match.payload.n.$gte wrong-type"],
    ],
    [
      "in a group",
      { $or: [{ n: { $not: { $lt: "-1.5" } } }] },
      ["hooks.mappings[0].match.payload.$or[0].n.$not.$lt wrong-type"],
    ],
    ["not a number", { n: { $gte: 5 } }, []],
    ["not a date", { at: { $gte: "2026-01-01" } }, []],
    ["not an equality, as ids are texts", { n: "5" }, []],
  ])("%s", async (_name, conditions, expected) =>
    expect(await findings([payload(conditions)])).toEqual(expected),
  );
});

describe("unsigned-header", () => {
  const signed = (match: object): object =>
    hook(match, { auth: { scheme: "github", secret: SECRET } });

  it.each<[string, object, string[]]>([
    [
      "a condition",
      signed({ headers: { "x-github-event": "push" } }),
      ["hooks.mappings[0] unsigned-header"],
    ],
    ["not without a signature", hook({ headers: { "x-github-event": "push" } }), []],
    ["not the content type", signed({ headers: { "content-type": { $contains: "json" } } }), []],
  ])("%s", async (_name, mapping, expected) => expect(await findings([mapping])).toEqual(expected));
});

describe("unsafe-content", () => {
  const UNSAFE = ["hooks.mappings[0].allowUnsafeExternalContent unsafe-content"];
  const unsafe = (more: object): object => hook({}, { allowUnsafeExternalContent: true, ...more });

  it.each<[string, object, object, string[]]>([
    ["beside tools", unsafe({ tools: ["shop.find"] }), {}, UNSAFE],
    ["beside the tools of all hooks", unsafe({}), { tools: ["shop.find"] }, UNSAFE],
    [
      "beside a recipient out of the payload",
      unsafe({ deliver: true, channel: "console", to: "{{ from }}" }),
      {},
      UNSAFE,
    ],
    ["not alone", unsafe({}), {}, []],
    [
      "not beside the tools of all hooks that it takes away",
      unsafe({ tools: [] }),
      { tools: ["shop.find"] },
      [],
    ],
    [
      "not beside a recipient of the config",
      unsafe({ deliver: true, channel: "console", to: "room" }),
      {},
      [],
    ],
    ["not with the boundary", hook({}, { tools: ["shop.find"] }), {}, []],
  ])("%s", async (_name, mapping, hooks, expected) =>
    expect(await findings([mapping], hooks)).toEqual(expected),
  );
});

describe("each rule names the file and the line, ends --strict with 1, and can be silenced:", () => {
  const auth = `auth: { scheme: "github", secret: "${SECRET}" },`;
  /** The second mapping is the one that is meant; `line` is that of its file. */
  const cases: [rule: LintRule, first: string, second: string, line: number][] = [
    ["never-reached", "", "", 6],
    [
      "wrong-type",
      'match: { path: "other" },',
      'match: { path: "shop", payload: { n: { $gte: "5" } } },',
      8,
    ],
    [
      "unsigned-header",
      `match: { path: "other" }, ${auth}`,
      `match: { path: "shop", headers: { "x-a": "b" } }, ${auth}`,
      6,
    ],
    [
      "unsafe-content",
      'match: { path: "other" },',
      'deliver: true, channel: "console", to: "{{ from }}", allowUnsafeExternalContent: true,',
      9,
    ],
  ];
  const render = (first: string, second: string, off: string): string => {
    const match = (more: string): string =>
      more.includes("match:") ? "" : 'match: { path: "shop" },';
    return `{
  id: "own",
  // Orders.
  mappings: [
    { id: "one", ${match(first)} ${first} messageTemplate: "m", deliver: false },
    {
      id: "two", ${second.includes("deliver:") ? "" : "deliver: false,"}
      ${second.includes("match:") ? second : match(second)}
      ${second.includes("match:") ? "" : second}
      messageTemplate: "m", ${off}
    },
  ],
}`;
  };

  it.each(cases)("%s", async (rule, first, second, line) => {
    const own = await createCli();
    await mkdir(join(own.dir, "mappings"));
    await own.write("rouse.json5", { hooks: { enabled: true, token: TOKEN } });
    const check = async (off: string) => {
      await own.write("mappings/own.json5", render(first, second, off));
      const { code, out } = await own.rouse("config validate --json --strict");
      const { warnings } = JSON.parse(out) as { warnings: Issue[] };
      return { code, found: warnings.filter((warning) => warning.rule !== undefined) };
    };
    const { code, found } = await check("");
    expect([code, found]).toMatchObject([
      1,
      [{ rule, file: join(own.dir, "mappings", "own.json5"), line }],
    ]);
    const shown = await own.rouse("config validate");
    expect([shown.code, shown.out]).toEqual([
      0,
      expect.stringContaining(`mappings/own.json5:${line}:`),
    ]);
    expect(await check(`lint: { off: ["${rule}"] },`)).toEqual({ code: 0, found: [] });
    await own.close();
  });

  it("and each has a case", () => {
    expect(cases.map(([rule]) => rule).toSorted()).toEqual(Object.keys(LINT_RULES).toSorted());
  });
});

it("an unknown rule is a problem of the config, with the name that was meant", async () => {
  const { code, issues } = await validate([hook({}, { lint: { off: ["never-reach"] } })]);
  expect([code, issues]).toEqual([
    3,
    [
      expect.objectContaining({
        path: "hooks.mappings[0].lint.off[0]",
        message: 'is no rule of lint. Did you mean "never-reached"?',
      }),
    ],
  ]);
});

it("the options of a preset silence rules for its mappings", async () => {
  const presets = [{ use: "github", auth: "token" }];
  const before = hook({ path: "github" }, { id: "all" });
  const found = await findings([before], { presets });
  expect(found.length).toBeGreaterThan(1);
  expect(
    found.every(
      (one) => one.startsWith("preset github: mappings[") && one.endsWith(" never-reached"),
    ),
  ).toBe(true);
  expect(
    await findings([before], {
      presets: [{ ...presets[0], lint: { off: ["never-reached"] } }],
    }),
  ).toEqual([]);
});

describe("what ships is without warnings of lint:", () => {
  it.each(presetNames)("the preset %s", async (use) => {
    const { set } = await compile({ presets: [{ use, auth: "token" }] });
    expect(set.configs.length).toBeGreaterThan(0);
    expect(
      await lint({
        presets: [{ use, secret: `whsec_${Buffer.alloc(32).toString("base64")}` }],
      } as object),
    ).toEqual([]);
  });

  const pages = [
    "README.md",
    ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).map(
      (name) => `docs/${name}`,
    ),
  ];
  const blocks = pages
    .filter((name) => name.endsWith(".md"))
    .flatMap((page) =>
      [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```json5\n([^]*?)^```$/gm)].map(
        ([, text = ""]) => [page, text],
      ),
    )
    .map(([page, text = ""]) => [page, JSON5.parse<Record<string, unknown>>(text)] as const);
  const configs = blocks.flatMap(([page, value]): [string, object][] => {
    if ("match" in value) return [[String(page), { mappings: [value] }]];
    if ("mappings" in value) return [[String(page), { mappings: value["mappings"] }]];
    const { mappings, presets, tools } = (value["hooks"] ?? {}) as Record<string, unknown>;
    return mappings || presets ? [[String(page), { mappings, presets, tools }]] : [];
  });

  it.each(configs)("a config of %s", async (_page, hooks) => expect(await lint(hooks)).toEqual([]));
  it("and there are such configs", () => expect(configs.length).toBeGreaterThan(10));
});

describe("a thousand mappings on a path are compared:", () => {
  const many = (count: number, make: (n: number) => object): object[] =>
    Array.from({ length: count }, (_, n) => hook({ payload: make(n) }));

  it.each<[string, (count: number) => object[], expected: (count: number) => number]>([
    [
      "of which all want the same",
      (count) => many(count, () => ({ type: "t" })),
      (count) => count - 1,
    ],
    [
      "about a field of their own, and a last one about all",
      (count) => [...many(count, (n) => ({ [`f${n}`]: 1 })), payload({ f7: 1, z: 2 })],
      () => 1,
    ],
    [
      "with more values than are combined",
      (count) =>
        many(count, (n) => ({
          a: [...Array(20).keys(), n + 50],
          b: [...Array(20).keys(), n + 50],
        })),
      () => 0,
    ],
  ])("%s", async (_name, make, expected) => {
    const { set } = await compile({ mappings: make(1000) });
    const found = lintMappings(set.configs, { verifiers: new Map(), hooksTools: [] });
    expect(found).toHaveLength(expected(1000));
  });
});

it("each rule is described in the documentation", () => {
  const page = readFileSync(join(ROOT, "docs/mappings.md"), "utf8");
  for (const rule of Object.keys(LINT_RULES))
    expect(page.includes(`\n| \`${rule}\``), rule).toBe(true);
});
