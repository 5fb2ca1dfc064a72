import { describe, expect, it } from "vitest";
import { compile, input } from "./world.ts";

const base = { match: { path: "p" }, messageTemplate: "m" };

describe("problems are said all at once, each with its path", () => {
  it.each<[object[], string, string]>([
    [[{ id: "a", match: { path: "p" } }], "hooks.mappings[0].messageTemplate", "is required"],
    [[{ id: "a", ...base, textTemplate: "x" }], "hooks.mappings[0].textTemplate", "no effect"],
    [
      [{ id: "a", match: { path: "p" }, action: "wake", textTemplate: "t", sessionKey: "x" }],
      "hooks.mappings[0].sessionKey",
      "no effect",
    ],
    [
      [
        { id: "a", ...base },
        { id: "a", ...base },
      ],
      "hooks.mappings[1].id",
      "is the id of hooks.mappings[0]",
    ],
    [
      [{ id: "a", ...base, match: { path: "wake" } }],
      "hooks.mappings[0].match.path",
      "belongs to the interface",
    ],
    [
      [{ id: "a", ...base, messageTemplate: "{{ x" }],
      "hooks.mappings[0].messageTemplate",
      "has no }}",
    ],
    [
      [{ id: "a", ...base, messageTemplate: "{{ $foo(x) }}" }],
      "hooks.mappings[0].messageTemplate",
      "no function $foo",
    ],
    [[{ id: "a", ...base, agentId: "mian" }], "hooks.mappings[0].agentId", 'Did you mean "main"?'],
    [[{ id: "a", ...base, channel: "pigeon" }], "hooks.mappings[0].channel", "names no channel"],
    [[{ id: "a", ...base, model: "x" }], "hooks.mappings[0].model", "is no model"],
    [[{ id: "a", ...base, thinking: "lots" }], "hooks.mappings[0].thinking", "use one of"],
    [[{ id: "a", ...base, sessionKey: "main" }], "hooks.mappings[0].sessionKey", "cannot reach"],
    [[{ id: "a", ...base, dedupeKey: "id" }], "hooks.mappings[0].dedupeKey", "write `{{ id }}`"],
    [[{ id: "a", ...base, methods: ["GET"] }], "hooks.mappings[0].dedupeKey", "is required"],
    [
      [{ id: "a", ...base, auth: { token: "short" } }],
      "hooks.mappings[0].auth.token",
      "at least 16",
    ],
    [
      [
        { id: "a", ...base, maxBodyBytes: 1 },
        { id: "b", ...base, maxBodyBytes: 2 },
      ],
      "hooks.mappings[1].maxBodyBytes",
      "differs from hooks.mappings[0]",
    ],
    [
      [{ id: "a", ...base, validate: { type: "nonsense" } }],
      "hooks.mappings[0].validate",
      "no valid JSON Schema",
    ],
    [
      [{ id: "a", ...base, validate: { pattern: "^(?!x)" } }],
      "hooks.mappings[0].validate",
      "no valid JSON Schema: lookahead",
    ],
    [
      [{ id: "a", ...base, validate: { $ref: "https://elsewhere.example/x.json" } }],
      "hooks.mappings[0].validate",
      "elsewhere",
    ],
    [[{ id: "a", ...base, forEach: "x[" }], "hooks.mappings[0].forEach", "JSONata"],
  ])("%j", async (mappings, path, message) => {
    const { issues } = await compile({ mappings });
    const found = issues.find((issue) => issue.path === path);
    expect(found?.message, JSON.stringify(issues)).toContain(message);
  });

  it.each<[string, string[], string | undefined]>([
    ["hook:ci", ["hook:"], undefined],
    ["team:ci", ["hook:"], "team:ci"],
    ["hook:", ["hook:ci"], `"hook:"`],
    ["hook:{{a}}", ["hook:ci:"], undefined],
    ["hook:ci:{{a}}", ["hook:", "team:"], undefined],
    ["team:{{a}}", ["hook:", "ops:"], "team:"],
    ["{{a}}:x", ["hook:"], undefined],
    ["api:{{a}}", ["api"], "cannot reach"],
    ["main{{a}}", ["main"], undefined],
  ])(
    "a session key that no event can use is a problem: %s with %j",
    async (sessionKey, allowedSessionKeyPrefixes, message) => {
      const { issues } = await compile({
        allowedSessionKeyPrefixes,
        mappings: [{ id: "a", ...base, sessionKey }],
      });
      const found = {
        path: "hooks.mappings[0].sessionKey",
        message: expect.stringContaining(message ?? ""),
      };
      expect(issues).toEqual(message === undefined ? [] : [found]);
    },
  );

  it("the session keys of a preset are held against the prefixes as well, one problem for each prefix", async () => {
    const hooks = {
      allowedSessionKeyPrefixes: ["team:"],
      presets: [{ use: "github", auth: "token" }, "gmail"],
    };
    const { issues } = await compile(hooks);
    expect(issues).toEqual([
      {
        path: "preset github: mappings[0].sessionKey",
        message: expect.stringContaining('"hook:github:"'),
      },
      {
        path: "preset gmail: mappings[0].sessionKey",
        message: expect.stringContaining("hooks.mappingsDir"),
      },
    ]);
    expect(
      (
        await compile({
          ...hooks,
          allowedSessionKeyPrefixes: ["team:", "hook:github:", "hook:gmail:"],
        })
      ).issues,
    ).toEqual([]);
  });

  it("names unknown presets and broken files", async () => {
    const { issues } = await compile(
      { presets: ["githib", "gmail"] },
      {
        "mappings/a.json": "{",
        "mappings/.#a.json": "{",
        "mappings/b.json": '{"id":"b","mappings":[{"id":"x","matsch":{}}]}',
        "mappings/d.json":
          '{"id":"d","mappings":[{"id":"x","match":{"path":"p","payload":{"__proto__":"a"}},"messageTemplate":"x"}]}',
        "mappings/c.json5":
          "{ id: 'c', mappings: [{ id: 'y', match: { path: 'c', path: 'd' }, messageTemplate: 'm' }] }",
      },
    );
    expect(issues).toEqual([
      expect.objectContaining({
        path: "mappings/a.json",
        message: expect.stringContaining("JSON5 at line 1"),
      }),
      {
        path: "mappings/b.json: mappings[0].matsch",
        message: 'is not known. Did you mean "match"?',
      },
      {
        path: "mappings/c.json5: mappings[0].match.path",
        message: expect.stringMatching(/twice: at line 1, column 43 and .*column 54/),
      },
      {
        path: "mappings/d.json: mappings[0].match.payload.__proto__",
        message: "is a name that no field can have: take it out",
      },
      {
        path: "hooks.presets[0]",
        message: 'there is no preset of this name. Did you mean "github"?',
      },
    ]);
  });
});

describe("which mapping runs", () => {
  const named = (id: string, more: object = {}) => ({
    id,
    match: { path: "p" },
    messageTemplate: id,
    ...more,
  });
  const ran = async (hooks: object, files: Record<string, string>, payload: object, more = {}) => {
    const { set, issues } = await compile(hooks, files);
    expect(issues).toEqual([]);
    const outcome = await set.run(input("p", payload, more));
    return outcome.kind === "actions"
      ? outcome.results.map((result) => result.ok && result.draft.mapping)
      : outcome.kind;
  };

  it("the first that matches: config, then files by name, then presets", async () => {
    const files = {
      "mappings/2.json": JSON.stringify({ id: "f2", mappings: [named("two")] }),
      "mappings/1.json": JSON.stringify({
        id: "f1",
        mappings: [named("one", { match: { path: "p", payload: { a: 1 } } })],
      }),
    };
    expect(
      await ran({ mappings: [named("own", { match: { path: "p", payload: { a: 0 } } })] }, files, {
        a: 0,
      }),
    ).toEqual(["own"]);
    expect(await ran({}, files, { a: 1 })).toEqual(["one"]);
    expect(await ran({}, files, { a: 2 })).toEqual(["two"]);
  });

  it("the next ones too after `continue`", async () => {
    expect(
      await ran({ mappings: [named("a", { continue: true }), named("b"), named("c")] }, {}, {}),
    ).toEqual(["a", "b"]);
  });

  it("one without a path only for what came in by the hook token", async () => {
    const hooks = { mappings: [{ id: "any", match: { payload: { a: 1 } }, messageTemplate: "m" }] };
    expect(await ran(hooks, {}, { a: 1 })).toEqual(["any"]);
    expect(await ran(hooks, {}, { a: 1 }, { byHookToken: false })).toBe("unmatched");
  });

  it("the same one with many mappings as with few", async () => {
    const mappings = Array.from({ length: 300 }, (_, index) =>
      named(`m${index}`, {
        match: { path: "p", payload: { kind: `k${index % 150}`, action: "x" } },
      }),
    );
    expect(await ran({ mappings }, {}, { kind: "k149", action: "x" })).toEqual(["m149"]);
    expect(await ran({ mappings }, {}, { kind: "k149", action: "y" })).toBe("unmatched");
  });
});

describe("the id of a mapping that has none", () => {
  const to = (path?: string | string[], id?: string) => ({
    ...(id === undefined ? {} : { id }),
    match: path === undefined ? {} : { path },
    messageTemplate: "m",
  });
  const idsOf = async (hooks: object, files: Record<string, string> = {}) => {
    const { set, issues } = await compile(hooks, files);
    expect(issues).toEqual([]);
    return set.mappings.filter(({ origin }) => !origin.startsWith("preset:")).map(({ id }) => id);
  };

  it("is its first path, or `any`, with a number if that is taken", async () => {
    const mappings = [to("alerts"), to("alerts"), to(["ops/disk", "alerts"]), to(), to()];
    expect(await idsOf({ mappings })).toEqual(["alerts", "alerts#2", "ops/disk", "any", "any#2"]);
  });

  it("is never one that is given, in whatever file and order", async () => {
    const files = {
      "mappings/x.json": JSON.stringify({ id: "x", mappings: [to("other", "alerts"), to("any")] }),
    };
    const mappings = [to("alerts"), to("github.push"), to()];
    expect(await idsOf({ mappings, presets: [{ use: "github", auth: "token" }] }, files)).toEqual([
      "alerts#2",
      "github.push#2",
      "any",
      "alerts",
      "any#2",
    ]);
  });

  it("stays when mappings of other paths and ids are added before and behind it", async () => {
    const before = await idsOf({ mappings: [to("alerts"), to("alerts"), to()] });
    const ids = await idsOf({
      mappings: [to("new"), to("alerts"), to("x", "given"), to("alerts"), to(), to("last")],
    });
    expect(ids).toEqual(expect.arrayContaining(before));
  });
});

describe("outcomes", () => {
  it("says which mapping came nearest, never the expected value", async () => {
    const { set } = await compile({
      mappings: [
        {
          id: "a",
          match: { path: "p", payload: { x: "secret-value", y: 1 } },
          messageTemplate: "m",
        },
        { id: "b", match: { path: "p", payload: { y: 1, z: "other" } }, messageTemplate: "m" },
      ],
    });
    expect(await set.run(input("p", { y: 1 }))).toEqual({
      kind: "unmatched",
      nearest: { mapping: "a", condition: "match.payload.x" },
    });
  });

  it("validates bodies, with the path of each field", async () => {
    const validate = {
      type: "object",
      required: ["id"],
      additionalProperties: false,
      properties: {
        id: {},
        price: { multipleOf: 0.01 },
        items: {
          type: "array",
          items: { type: "object", properties: { n: { type: "number", minimum: 1 } } },
        },
      },
    };
    const { set } = await compile({ mappings: [{ id: "a", ...base, validate }] });
    expect(await set.run(input("p", { items: [{ n: 0 }], "a/b": 1 }))).toMatchObject({
      kind: "rejected",
      failure: {
        code: "validation_failed",
        message: "the body is not as the mapping's schema says: id is required",
        issues: [
          { path: "id", message: "is required" },
          { path: "a/b", message: "is not in the schema" },
          { path: "items[0].n", message: "must be >= 1" },
        ],
      },
    });
    expect(await set.run(input("p", []))).toMatchObject({
      failure: { message: "the body is not as the mapping's schema says: must be object" },
    });
    for (const price of [19.99, 0.07, 1.1])
      expect((await set.run(input("p", { id: 1, price }))).kind).toBe("actions");
    expect((await set.run(input("p", { id: 1, price: 1.005 }))).kind).toBe("rejected");
  });

  it("lets items stand alone, and runs nothing of too many", async () => {
    const mappings = [
      { id: "a", match: { path: "p" }, forEach: "items", messageTemplate: "{{item.text}}" },
    ];
    const { set } = await compile({ maxActions: 3, mappings });
    expect(await set.run(input("p", { items: [{ text: "x" }, {}, { text: "z" }] }))).toMatchObject({
      kind: "actions",
      list: true,
      results: [{ ok: true }, { ok: false, failure: { code: "mapping_incomplete" } }, { ok: true }],
    });
    expect(await set.run(input("p", { items: [1, 2, 3, 4] }))).toMatchObject({
      kind: "rejected",
      failure: { code: "too_many_actions" },
    });
    expect(await set.run(input("p", { items: { text: "one" } }))).toMatchObject({
      kind: "actions",
      list: true,
    });
    expect(await set.run(input("p", {}))).toMatchObject({ kind: "skipped" });
  });

  it("refuses what is empty, and with `strict` what is missing", async () => {
    const { set } = await compile({
      mappings: [
        {
          id: "s",
          match: { path: "p", payload: { s: true } },
          strict: true,
          messageTemplate: "x {{gone.away}}",
        },
        { id: "a", match: { path: "p" }, messageTemplate: "{{gone}}" },
      ],
    });
    expect(await set.run(input("p", { s: true }))).toMatchObject({
      kind: "rejected",
      missing: ["gone.away"],
      failure: { code: "mapping_incomplete" },
    });
    const outcome = await set.run(input("p", {}));
    expect(outcome).toMatchObject({
      kind: "actions",
      results: [
        {
          ok: false,
          failure: { code: "mapping_incomplete", message: expect.stringContaining("message") },
        },
      ],
    });
  });

  it("fails where an expression fails, and tries no later mapping", async () => {
    const later = { id: "later", ...base };
    for (const broken of [
      { id: "w", match: { path: "p", when: "$number('x') = 1" }, messageTemplate: "m" },
      { id: "t", match: { path: "p" }, messageTemplate: "{{$number('x')}}" },
      { id: "f", match: { path: "p" }, forEach: "$number('x')", messageTemplate: "m" },
    ]) {
      const { set } = await compile({ mappings: [broken, later] });
      expect(await set.run(input("p", {}))).toMatchObject({
        kind: "failed",
        mapping: broken.id,
        failure: { code: "mapping_failed" },
      });
    }
  });
});
