import { mkdtempSync, rmSync, statSync, writeFileSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configReference } from "../../scripts/config-reference.ts";
import { configJsonSchema } from "../../src/config/json-schema.ts";
import { loadConfig } from "../../src/config/load.ts";
import { renderPath } from "../../src/config/issues.ts";
import { maskConfig } from "../../src/config/mask.ts";
import { readProviders } from "../../src/config/providers.ts";
import { secretFile, stateSecret, writeSecret } from "../../src/config/state.ts";
import { suggest } from "../../src/config/suggest.ts";
import { sessionKeyProblem } from "../../src/vocabulary/session-key.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-config-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const TOKEN = "0123456789abcdef";
const load = (text: string, env: Record<string, string> = {}) => {
  writeFileSync(join(dir, "rouse.json5"), text);
  return loadConfig({ cwd: dir, env });
};
/** The problems of a config without their places. */
async function issuesOf(config: object, env: Record<string, string> = {}) {
  const result = await load(JSON.stringify(config), env);
  return result.ok ? [] : result.issues.map(({ path, message }) => ({ path, message }));
}

interface Schema {
  type?: string;
  minimum?: number;
  maximum?: number;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
}

/** The paths of all fields that are a number or a boolean and nothing else; `0` is a list's entry, `a` one of any name. */
function scalarFields(
  schema: Schema,
  path: (string | number)[] = [],
): (Schema & { path: (string | number)[] })[] {
  const { type, properties = {}, items, additionalProperties, anyOf = [] } = schema;
  const kinds = anyOf.map((option) => option.type);
  if (
    type === undefined &&
    kinds.length === 2 &&
    kinds[1] === "string" &&
    /^(?:number|integer|boolean)$/.test(kinds[0] ?? "")
  )
    return [{ ...anyOf[0], path }];
  const rest =
    typeof additionalProperties === "object"
      ? scalarFields(additionalProperties, [...path, "a"])
      : [];
  return [
    ...Object.entries(properties).flatMap(([name, inner]) => scalarFields(inner, [...path, name])),
    ...(items ? scalarFields(items, [...path, 0]) : []),
    ...anyOf.flatMap((option) => (option.properties ? scalarFields(option, path) : [])),
    ...rest,
  ];
}

it("hooks.tools: an entry that no agent has is a warning", async () => {
  const mcp = {
    servers: { town: { url: "http://127.0.0.1:1/mcp" }, shop: { url: "http://127.0.0.1:1/mcp" } },
  };
  const warningsOf = async (tools: string[], agents: string[][]) => {
    const list = agents.map((own, index) => ({ id: `a${index}`, tools: own }));
    const loaded = await load(JSON.stringify({ hooks: { tools }, agents: { list }, mcp }));
    return loaded.ok ? loaded.warnings.map(({ path }) => path) : loaded.issues;
  };
  expect(await warningsOf(["town.weather", "shop.*"], [["town.*"], ["shop.buy"]])).toEqual([]);
  expect(await warningsOf(["town.weather", "shop.*"], [["town.erase"], []])).toEqual([
    "hooks.tools[0]",
    "hooks.tools[1]",
  ]);
  expect(await warningsOf(["town.*"], [])).toEqual(["hooks.tools[0]"]);
});

describe("where the config is", () => {
  it("the flag's file, else ROUSE_CONFIG, else rouse.json5, else rouse.json, else none", async () => {
    expect(await loadConfig({ cwd: dir, env: {} })).toMatchObject({
      ok: true,
      config: { hooks: { enabled: true }, gateway: { port: 7420, host: "127.0.0.1" } },
      stateDir: join(dir, ".rouse"),
    });
    writeFileSync(join(dir, "rouse.json"), "{ gateway: { port: 1 } }");
    expect(await loadConfig({ cwd: dir, env: {} })).toMatchObject({
      config: { gateway: { port: 1 }, hooks: { enabled: false } },
    });
    writeFileSync(join(dir, "rouse.json5"), "{ gateway: { port: 2 } }");
    expect(await loadConfig({ cwd: dir, env: {} })).toMatchObject({
      config: { gateway: { port: 2 } },
    });
    writeFileSync(join(dir, "other.json5"), "{ gateway: { port: 3 } }");
    expect(await loadConfig({ cwd: dir, env: { ROUSE_CONFIG: "other.json5" } })).toMatchObject({
      config: { gateway: { port: 3 } },
    });
    expect(
      await loadConfig({ cwd: dir, env: { ROUSE_CONFIG: "other.json5" }, file: "missing.json5" }),
    ).toMatchObject({
      ok: false,
      issues: [{ message: expect.stringContaining("there is no such file") }],
    });
  });
});

describe("what it says", () => {
  it("is JSON5, and a mistake in it is reported by line and column", async () => {
    expect(await load("{ // comment\n gateway: { port: 9, }, }")).toMatchObject({ ok: true });
    expect(await load("{\n  gateway: canary }")).toMatchObject({
      ok: false,
      issues: [
        {
          message: expect.stringMatching(
            /^the config file is not valid JSON5 at line 2, column 12: "c" is/,
          ),
        },
      ],
    });
  });

  it("takes variables and files, and names what is missing", async () => {
    writeFileSync(join(dir, "token"), `${TOKEN}\n`);
    expect(
      await load(
        '{ hooks: { enabled: true, token: { file: "token" }, defaultSessionKey: "hook:${TEAM}:$${x}" } }',
        { TEAM: "a" },
      ),
    ).toMatchObject({
      ok: true,
      config: { hooks: { token: TOKEN, defaultSessionKey: "hook:a:${x}" } },
    });
    expect(
      await issuesOf({
        hooks: { enabled: true, token: "${NOT_THERE}" },
        gateway: { token: { file: "gone" }, host: "${HOST:-127.0.0.1}" },
      }),
    ).toEqual(
      expect.arrayContaining([
        { path: "hooks.token", message: expect.stringContaining("NOT_THERE") },
        { path: "gateway.host", message: expect.stringContaining("no default; write ${HOST}") },
        { path: "gateway.token", message: expect.stringMatching(/^there is no file \S+\/gone;/) },
      ]),
    );
  });

  it("has each key once: JSON5 would keep the last one and say nothing", async () => {
    const text = `{
  // gateway: { port: 1 }, gateway: {}
  gateway: { port: 1, "host": "a: {", 'port': 2, export: 1 },
  hooks: { mappings: [{ id: "a" /* { id: 1, */ }, { id: "b", match: { path: "p" }, "i\\u0064": 'it\\'s' }] },
  gateway: {},
}`;
    expect(await load(text)).toMatchObject({
      ok: false,
      issues: expect.arrayContaining([
        expect.objectContaining({
          path: "gateway.port",
          message: "is there twice: at line 3, column 14 and at line 3, column 39; keep one",
        }),
        expect.objectContaining({
          path: "hooks.mappings[1].id",
          message: "is there twice: at line 4, column 53 and at line 4, column 84; keep one",
        }),
        expect.objectContaining({
          path: "gateway",
          message: "is there twice: at line 3, column 3 and at line 5, column 3; keep one",
        }),
      ]),
    });
    const { issues } = (await load(text)) as { issues: { message: string }[] };
    expect(issues.filter(({ message }) => message.includes("twice"))).toHaveLength(3);
    expect(await load("{ gateway: { port: 1, port: 2, port: 3 } }")).toMatchObject({
      issues: [{ path: "gateway.port" }, { path: "gateway.port" }],
    });
  });

  it("has all of its problems reported together, with paths and what may have been meant", async () => {
    expect(
      await issuesOf({
        gatway: {},
        gateway: { prot: 1, host: 2 },
        agents: { list: [{ id: "a", modle: "x" }] },
        hooks: { mappings: [{ id: "m", match: { path: "a b" } }], dedupe: { ttl: "soon" } },
      }),
    ).toEqual(
      expect.arrayContaining([
        { path: "gatway", message: 'is not known. Did you mean "gateway"?' },
        { path: "gateway.prot", message: 'is not known. Did you mean "port"?' },
        { path: "gateway.host", message: "must be text, and is a number" },
        { path: "agents.list[0].modle", message: 'is not known. Did you mean "model"?' },
        { path: "hooks.mappings[0].match.path", message: expect.stringContaining("segments") },
        { path: "hooks.dedupe.ttl", message: expect.stringContaining("90s") },
      ]),
    );
  });

  it("takes every number and boolean from the environment, where one variable is the whole value", async () => {
    const tried: string[] = [];
    for (const { path, type, minimum, maximum = 5 } of scalarFields(configJsonSchema() as Schema)) {
      const env = { NUMBER: String(Math.max(Math.min(5, maximum), minimum ?? 0)), BOOLEAN: "true" };
      const value = type === "boolean" ? "${BOOLEAN}" : "${NUMBER}";
      const config = path
        .toReversed()
        .reduce<unknown>((inner, key) => (key === 0 ? [inner] : { [key]: inner }), value);
      const at = renderPath(path);
      expect((await issuesOf(config as object, env)).filter((issue) => issue.path === at)).toEqual(
        [],
      );
      expect(
        (await issuesOf(config as object, { NUMBER: "x", BOOLEAN: "1" })).filter(
          (issue) => issue.path === at,
        ),
      ).toEqual([
        { path: at, message: expect.stringContaining(type === "boolean" ? "BOOLEAN" : "NUMBER") },
      ]);
      tried.push(at);
    }
    expect(tried).toEqual(
      expect.arrayContaining([
        "gateway.port",
        "gateway.docs",
        "hooks.enabled",
        "hooks.presets[0].limits.queue",
        "hooks.mappings[0].continue",
        "agents.defaults.timeoutSeconds",
      ]),
    );
  });

  it("leaves text as it is where text is wanted, and a number in quotes is still none", async () => {
    const env = { PORT: "8080", DIGITS: "1234567890123456", EMPTY: "", A: "80" };
    const config = {
      gateway: { port: "${PORT}", token: "${DIGITS}", host: "${A}" },
      agents: { defaults: { maxConcurrent: "${A}" } },
    };
    expect(await load(JSON.stringify(config), env)).toMatchObject({
      ok: true,
      config: {
        gateway: { port: 8080, token: "1234567890123456", host: "80" },
        agents: { defaults: { maxConcurrent: 80 } },
      },
    });
    for (const port of ["8080", "${A}${A}", "${A} ", "$${A}", "${EMPTY}"])
      expect([port, (await issuesOf({ gateway: { port } }, env)).map(({ path }) => path)]).toEqual([
        port,
        ["gateway.port"],
      ]);
    expect(await issuesOf({ gateway: { port: "${PORT}" } })).toEqual([
      { path: "gateway.port", message: expect.stringContaining("has no variable PORT") },
    ]);
    expect(await issuesOf({ gateway: { port: "${PORT}" } }, { PORT: "70000" })).toEqual([
      { path: "gateway.port", message: expect.stringContaining("65535") },
    ]);
  });

  it.each<[object, string]>([
    [{ hooks: { enabled: true } }, "hooks.token"],
    [{ hooks: { enabled: true, token: "short" } }, "hooks.token"],
    [{ hooks: { enabled: true, token: [TOKEN, "short"] } }, "hooks.token[1]"],
    [{ hooks: { enabled: true, token: TOKEN }, gateway: { token: TOKEN } }, "hooks.token"],
    [
      { hooks: { enabled: true, token: TOKEN }, platform: { apiKeys: [{ id: "k", key: TOKEN }] } },
      "hooks.token",
    ],
    [{ hooks: { path: "/" } }, "hooks.path"],
    [{ hooks: { path: "/v1/hooks" } }, "hooks.path"],
    [{ hooks: { path: "/a:b" } }, "hooks.path"],
    [{ hooks: { defaultSessionKey: "main" } }, "hooks.defaultSessionKey"],
    [
      { hooks: { defaultSessionKey: "x", allowedSessionKeyPrefixes: ["hook:"] } },
      "hooks.defaultSessionKey",
    ],
    [
      { hooks: { allowedSessionKeyPrefixes: ["hook:", "api:"] } },
      "hooks.allowedSessionKeyPrefixes[1]",
    ],
    [{ hooks: { allowedSessionKeyPrefixes: ["main:"] } }, "hooks.allowedSessionKeyPrefixes[0]"],
    [
      { hooks: { allowedSessionKeyPrefixes: ["k".repeat(101)] } },
      "hooks.allowedSessionKeyPrefixes[0]",
    ],
    [{ hooks: { allowedSessionKeyPrefixes: [] } }, "hooks.allowedSessionKeyPrefixes"],
    [{ hooks: { allowedAgentIds: ["nobody"] } }, "hooks.allowedAgentIds[0]"],
    [{ agents: { list: [{ id: "a" }, { id: "a" }] } }, "agents.list[1].id"],
    [
      { agents: { defaults: { timeoutSeconds: 10, maxTimeoutSeconds: 5 } } },
      "agents.defaults.timeoutSeconds",
    ],
  ])("%j is refused at %s", async (config, path) =>
    expect((await issuesOf(config)).map((issue) => issue.path)).toContain(path),
  );

  it("has its base path in one form", async () =>
    expect(await load('{ hooks: { path: "in/hooks//" } }')).toMatchObject({
      config: { hooks: { path: "/in/hooks" } },
    }));

  it.each(["main", "MAIN", "main:x", "api:a", "channel:x", " ", "k".repeat(201)])(
    "a default session key obeys the rules of requests: %s",
    async (key) => {
      expect(sessionKeyProblem(key, undefined)).toBeDefined();
      expect(
        (await issuesOf({ hooks: { defaultSessionKey: key } })).map((issue) => issue.path),
      ).toEqual(["hooks.defaultSessionKey"]);
    },
  );
});

describe("what is shown", () => {
  it("masks every secret", async () => {
    const loaded = await load(
      JSON.stringify({
        gateway: { token: "canary-gateway-token-1" },
        hooks: {
          token: ["canary-hook-token-12345"],
          mappings: [
            { id: "m", match: { path: "p" }, auth: { user: "u", password: "canary-password-123" } },
          ],
        },
        models: {
          providers: {
            p: { type: "openai", apiKey: "canary-key", headers: { "x-org": "canary-header" } },
          },
        },
        channels: {
          x: {
            token: "canary-channel",
            tokens: ["canary-1"],
            nested: { botToken: "canary-nested" },
          },
        },
        mcp: { servers: { s: { command: "c", env: { A: "canary-env" } } } },
        platform: { apiKeys: [{ id: "k", key: "canary-api-key-12345" }] },
      }),
    );
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.issues));
    const shown = JSON.stringify(maskConfig(loaded.config));
    expect(shown).not.toContain("canary");
    expect(shown).toContain('"user":"u"');
  });

  it("has a schema for editors, and a reference that is up to date", () => {
    const schema = configJsonSchema() as {
      properties: { hooks: { properties: { token: unknown } } };
    };
    expect(JSON.stringify(schema.properties.hooks.properties.token)).toContain('"file"');
    expect(readFileSync(resolve(import.meta.dirname, "../../docs/config.md"), "utf8")).toBe(
      configReference(
        readProviders(resolve(import.meta.dirname, "../../plugins")).map(({ type }) => type),
      ),
    );
  });
});

describe("secrets in the state folder", () => {
  it("are made once, for their owner alone, and agreed on", async () => {
    const state = join(dir, "state");
    const tokens = await Promise.all(
      Array.from({ length: 8 }, () => stateSecret(state, "hook-token")),
    );
    expect(new Set(tokens).size).toBe(1);
    expect(statSync(secretFile(state, "hook-token")).mode & 0o777).toBe(0o600);
    expect(statSync(state).mode & 0o777).toBe(0o700);
    await writeSecret(state, "hook-token", "another");
    expect(await stateSecret(state, "hook-token")).toBe("another");
    await writeSecret(state, "hook-token", "");
    expect(await stateSecret(state, "hook-token")).toHaveLength(tokens[0]?.length ?? 0);
  });
});

describe("suggest", () => {
  it.each([
    ["messageTemplat", "messageTemplate"],
    ["prot", "port"],
    ["$regx", "$regex"],
    ["zzzzzz", undefined],
  ])("%s → %s", (word, expected) =>
    expect(suggest(word, ["messageTemplate", "port", "$regex", "path"])).toBe(expected),
  );
});
