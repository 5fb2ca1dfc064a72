import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import JSON5 from "json5";
import { beforeAll, describe, expect, it } from "vitest";
import type { JsonSchema } from "../../src/config/json-schema.ts";
import { createCli } from "../cli/world.ts";

const ROOT = resolve(import.meta.dirname, "../..");

let config: JsonSchema;
let mappings: JsonSchema;
let isConfig: ValidateFunction;
let isMappingFile: ValidateFunction;
let isFixture: ValidateFunction;

beforeAll(async () => {
  const cli = await createCli();
  const print = async (...args: string[]) =>
    JSON.parse((await cli.rouse(["config", "--schema", ...args])).out) as JsonSchema;
  let fixtures: JsonSchema;
  [config, mappings, fixtures] = await Promise.all([print(), print("mappings"), print("fixtures")]);
  await cli.close();
  const ajv = new Ajv2020({
    allErrors: true,
    formats: { uri: /^[a-z][a-z0-9+.-]*:/, email: true, base64: true, "date-time": true },
    strictTypes: false,
    strictRequired: false,
    allowUnionTypes: true,
  });
  isConfig = ajv.compile(config);
  isMappingFile = ajv.compile(mappings);
  isFixture = ajv.compile(fixtures);
});

const errorsOf = (check: ValidateFunction, value: unknown): unknown[] =>
  check(value) ? [] : (check.errors ?? []);

function pages(): string[] {
  const names = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).filter(
    (name) => name.endsWith(".md"),
  );
  return ["README.md", ...names.map((name) => `docs/${name}`)];
}

const examples = pages().flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```json5\n([^]*?)^```$/gm)].map(
    ([, text = ""], index): [string, object] => {
      const value = JSON5.parse<object>(text);
      const isFile = "mappings" in value;
      return [
        `${page} (${index + 1})`,
        "match" in value
          ? { hooks: { mappings: [value] } }
          : isFile
            ? { hooks: { mappings: value.mappings } }
            : value,
      ];
    },
  ),
);
const mapping = (change: object): object => ({
  hooks: { mappings: [{ id: "a", match: { path: "a" }, messageTemplate: "x", ...change }] },
});

describe("the config's JSON Schema", () => {
  it.each(examples)("takes the config of %s", (_name, value) => {
    // A page also shows tests of `hooks.testsDir`.
    expect(errorsOf("expect" in value ? isFixture : isConfig, value)).toEqual([]);
  });

  it.each<[string, object]>([
    [
      "variables",
      {
        gateway: { port: "${PORT}", docs: "${DOCS}", publicUrl: "https://${HOST}" },
        log: { level: "${LEVEL}" },
      },
    ],
    [
      "files",
      {
        hooks: { token: { file: "t" } },
        channels: { telegram: { token: { file: "t" }, webhookSecret: { file: "s" } } },
      },
    ],
    ["a channel that is off and incomplete", { channels: { telegram: { enabled: false } } }],
    [
      "accounts that share a setting",
      {
        channels: {
          telegram: {
            apiUrl: "https://a.example",
            accounts: { one: { token: "t" }, two: { token: "u" } },
          },
        },
      },
    ],
    [
      "sections of the user's own plugins",
      { channels: { mine: { anything: [1] } }, hooks: { mymail: { anything: 1 } } },
    ],
    [
      "groups of conditions",
      mapping({
        match: {
          payload: {
            $or: [{ a: 1 }, { $not: { "b.c": { $in: [1, "x"] } } }],
            d: { $and: [{ $gt: 1 }, "x"] },
          },
        },
      }),
    ],
    [
      "presets of one's own",
      { hooks: { presets: ["mine", { use: "acme-orders", path: "orders" }] } },
    ],
    ["its own address", { $schema: "./rouse.schema.json" }],
  ])("takes %s", (_name, value) => expect(errorsOf(isConfig, value)).toEqual([]));

  it.each<[string, object, string]>([
    ["an unknown key at the top", { gatway: {} }, ""],
    ["an unknown key in a section", { gateway: { prot: 1 } }, "/gateway"],
    [
      "an unknown key of hooks that is no plugin's section",
      { hooks: { tokn: "x" } },
      "/hooks/tokn",
    ],
    ["an unknown key of a mapping", mapping({ messageTemplat: "x" }), "/hooks/mappings/0"],
    [
      "an unknown operator",
      mapping({ match: { payload: { a: { $gr: 1 } } } }),
      "/hooks/mappings/0/match/payload/a",
    ],
    [
      "an unknown operator on a header",
      mapping({ match: { headers: { a: { $is: 1 } } } }),
      "/hooks/mappings/0/match/headers/a",
    ],
    [
      "an unknown group",
      mapping({ match: { payload: { $xor: [{ a: 1 }] } } }),
      "/hooks/mappings/0/match/payload",
    ],
    [
      "nested fields",
      mapping({ match: { payload: { a: { b: 1 } } } }),
      "/hooks/mappings/0/match/payload/a",
    ],
    ["a name that no preset can have", { hooks: { presets: ["Git Hub"] } }, "/hooks/presets/0"],
    ["such a name with options", { hooks: { presets: [{ use: "Git Hub" }] } }, "/hooks/presets/0"],
    [
      "an unknown key of a channel",
      { channels: { telegram: { token: "t", allowFrm: [] } } },
      "/channels/telegram",
    ],
    [
      "a wrong value of a channel",
      { channels: { telegram: { token: "t", mode: "pull" } } },
      "/channels/telegram/mode",
    ],
    ["a channel without what it needs", { channels: { telegram: {} } }, "/channels/telegram"],
    [
      "an unknown key of an account",
      { channels: { telegram: { accounts: { one: { tokn: "t" } } } } },
      "/channels/telegram/accounts/one",
    ],
    [
      "an unknown key of a plugin below hooks",
      { hooks: { gmail: { acount: "a@b.example" } } },
      "/hooks/gmail",
    ],
    ["a channel that is no section", { channels: { mine: 1 } }, "/channels/mine"],
    ["a number in quotes", { gateway: { port: "8080" } }, "/gateway/port"],
    ["an unknown level", { log: { level: "loud" } }, "/log/level"],
  ])("refuses %s", (_name, value, place) =>
    expect(errorsOf(isConfig, value)).toContainEqual(
      expect.objectContaining({ instancePath: place }),
    ),
  );
});

describe("the JSON Schema of mapping files", () => {
  const presets = readdirSync(join(ROOT, "mappings")).filter((name) => name.endsWith(".json"));
  it.each(presets)("takes %s", (name) =>
    expect(
      errorsOf(isMappingFile, JSON.parse(readFileSync(join(ROOT, "mappings", name), "utf8"))),
    ).toEqual([]),
  );

  const file = (change: object) => ({
    id: "a",
    mappings: [{ match: { path: "a" }, messageTemplate: "x" }],
    ...change,
  });
  it("takes the mark of a preset", () =>
    expect(errorsOf(isMappingFile, file({ preset: true }))).toEqual([]));

  it("takes a secret by reference in the auth of the file alone", () => {
    expect(errorsOf(isMappingFile, file({ auth: { token: { file: "t" } } }))).toEqual([]);
    expect(errorsOf(isMappingFile, file({ auth: { token: "${TOKEN}" } }))).toEqual([]);
    expect(
      isMappingFile(file({ mappings: [{ auth: { token: { file: "t" } }, messageTemplate: "x" }] })),
    ).toBe(false);
  });

  it.each<[string, object]>([
    ["an unknown key", file({ mapping: [] })],
    ["an unknown key of a mapping", file({ mappings: [{ mach: {} }] })],
    ["an unknown operator", file({ mappings: [{ match: { query: { a: { $eqq: 1 } } } }] })],
    ["no mapping", file({ mappings: [] })],
    ["no id", { mappings: [{}] }],
  ])("refuses %s", (_name, value) => expect(isMappingFile(value)).toBe(false));
});

/** The fields of a schema without a description. */
function undescribed(schema: JsonSchema, path = ""): string[] {
  const { properties = {}, items, additionalProperties, anyOf = [], $defs = {} } = schema;
  const inner: [JsonSchema, string][] = [
    ...(items ? [[items, `${path}[]`] as [JsonSchema, string]] : []),
    ...(typeof additionalProperties === "object"
      ? [[additionalProperties, `${path}.*`] as [JsonSchema, string]]
      : []),
    ...anyOf.map((option): [JsonSchema, string] => [option, path]),
    ...Object.entries($defs).map(([name, one]): [JsonSchema, string] => [one, name]),
    ...Object.entries(properties).map(([name, one]): [JsonSchema, string] => [
      one,
      `${path}.${name}`,
    ]),
  ];
  const missing = Object.entries(properties).filter(
    ([, { description, $ref }]) => description === undefined && $ref === undefined,
  );
  return [
    ...missing.map(([name]) => `${path}.${name}`),
    ...inner.flatMap(([one, at]) => undescribed(one, at)),
  ];
}

it("config: every field has a description", () => {
  expect(undescribed(config)).toEqual([]);
  expect(undescribed(mappings)).toEqual([]);
});
