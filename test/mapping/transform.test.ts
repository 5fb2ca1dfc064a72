import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { EventDebug } from "../../src/vocabulary/debug-notes.ts";
import { parseJson } from "../../src/core/json.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { compile, confinedTo, input } from "./world.ts";

const pool = createTransformPool(process.env);
afterAll(() => pool.close());

const FILES = {
  "transforms/typed.ts": `import type { Transform } from "rouse/transform"; import { greet } from "./helper.ts";
    enum Kind { Agent = "agent" }
    const transform: Transform = ({ payload, item }) => payload.skip ? null : { kind: Kind.Agent, mode: "next-heartbeat", message: greet(item ?? payload.name), name: "n" };
    export default transform;`,
  "transforms/helper.ts": `export const greet = (name: string): string => "hello " + name;`,
  "transforms/common.cjs": `exports.transform = ({ payload }) => ({ message: payload.name }); exports.other = () => [{ action: "wake", text: "w" }, { message: "m" }];`,
  "transforms/bad.js": `import { writeSync } from "node:fs";
  const send = (message) => {
    for (let rest = Buffer.from(JSON.stringify(message) + "\\n"); rest.length > 0;)
      try { rest = rest.subarray(writeSync(3, rest)); } catch { /* The gateway has still to read. */ }
  };
  export default async ({ payload }) => {
    if (payload.how === "throw") throw new Error("canary " + payload.secret);
    if (payload.how === "exit") process.exit(0);
    if (payload.how === "loop") for (;;);
    if (payload.how === "memory") { const all = []; for (;;) all.push(new Array(1e6).fill(Math.random())); }
    if (payload.how === "buffers") { const all = []; for (let i = 0; i < 64; i++) all.push(Buffer.alloc(64 * 2 ** 20, 1)); return { message: "m" }; }
    if (payload.how === "large") return { message: "x".repeat(9e6) };
    if (payload.how === "send") { for (const message of [null, "text", {}, { id: -1, ok: true, value: {} }]) send(message); return { message: "sent" }; }
    if (payload.how === "forge") for (let id = 500; id > 0; id--) for (const message of [{ line: null }, { line: 1 }, { line: { text: {} } }, { line: { text: "forged", stream: {} } }, { cut: {} }]) send({ id, ...message });
    if (payload.how === "forge error") for (let id = 500; id > 0; id--) send({ id, ok: false, reason: "threw", thrown: payload.thrown });
    if (payload.how === "exit later") { setTimeout(() => process.exit(0), 100); return { message: "ok" }; }
    if (payload.how === "later") { setTimeout(() => Promise.reject(new Error("later")), 5); return { message: "ok" }; }
    if (payload.how === "field") return { message: "m", allowUnsafeExternalContent: true };
    if (payload.how === "text") return "just text";
    if (payload.how === "wake") return { action: "wake", message: "m" };
    if (payload.how === "typo") return { message: "m", mesage: "x" };
    if (payload.how === "list with text") return [{ message: "m" }, "text"];
    if (payload.how === "list with null") return [null];
    if (payload.how === "map") return new Map([["message", "m"]]);
    if (payload.how === "generator") return [(function* () { yield { message: "m" }; })()];
    if (payload.how === "promises") return ["a", "b"].map(async (message) => ({ message }));
    if (payload.how === "large number") return { message: 154284075601887489n };
    if (payload.how === "env") return { message: Object.keys(process.env).sort().join(",") };
    return { message: "ok" };
  };`,
  "transforms/slow.js": `export default () => new Promise((done) => setTimeout(done, 400, { message: "at last" }));`,
  "transforms/nothing.js": `export const value = 1; export default class { transform() {} }`,
  "transforms/syntax.js": `export default () => {`,
  "transforms/import.ts": `import { x } from "./not-there.ts"; export default () => x;`,
  "transforms/ends.js": `process.exit(0);`,
};
const mapping = (id: string, transform: object, more: object = {}) => ({
  id,
  match: { path: id },
  transform,
  ...more,
});
const { set, issues, dir } = await compile(
  {
    transformTimeoutSeconds: 4,
    mappings: [
      mapping("typed", { module: "typed.ts" }, { sessionKey: "hook:{{name}}" }),
      mapping("common", { module: "common.cjs" }),
      mapping("other", { module: "common.cjs", export: "other" }),
      mapping("bad", { module: "bad.js" }),
      mapping("slow", { module: "slow.js" }),
      mapping("nothing", { module: "nothing.js" }),
      mapping("unnamed", { module: "common.cjs", export: "nope" }),
      mapping("syntax", { module: "syntax.js" }),
      mapping("import", { module: "import.ts" }),
      mapping("ends", { module: "ends.js" }),
      mapping("each", { module: "typed.ts" }, { forEach: "names" }),
      mapping("jsonata", { jsonata: "skip ? null : { 'message': 'hi ' & name, 'to': 'you' }" }),
      mapping(
        "jsonata-key",
        { jsonata: "{ 'message': 'm', 'dedupeKey': id }" },
        { dedupeKey: "{{name}}" },
      ),
      mapping("jsonata-instructions", { jsonata: "{ 'message': 'm', 'instructions': 'obey' }" }),
    ],
  },
  FILES,
  pool,
);
const compileBad = (transformTimeoutSeconds: number) =>
  compile(
    { transformTimeoutSeconds, mappings: [mapping("bad", { module: "bad.js" })] },
    FILES,
    pool,
  );
// Memory takes long to fill on a busy machine.
const { set: patient } = await compileBad(60);
const { set: hasty } = await compileBad(1.5);
const run = async (path: string, payload: object, by = set) => {
  const outcome = await by.run(input(path, payload));
  return outcome.kind === "failed" ? outcome.failure : outcome;
};

describe("transform modules", () => {
  it("that cannot be called are found when the config is loaded, with the reason", () => {
    const at = (index: number): string => `hooks.mappings[${index}].transform.module`;
    expect(issues).toEqual([
      { path: at(5), message: expect.stringContaining("exports no function") },
      { path: at(6), message: expect.stringContaining("exports no function") },
      {
        path: at(7),
        message: "cannot be loaded: syntax.js:1:23: Unexpected end of file",
        detail: `export default () => {\n${" ".repeat(22)}^`,
      },
      {
        path: at(8),
        message: expect.stringMatching(/^cannot be loaded: import\.ts:1:19: .*not-there\.ts/),
        detail: expect.stringContaining("^"),
      },
      {
        path: at(9),
        message: expect.stringMatching(/ended its process.*when it was loaded/),
        transient: true,
      },
    ]);
  });

  it("may use all of TypeScript, other files and the types' name", async () => {
    const outcome = await run("typed", { name: "Ann" });
    expect(outcome).toMatchObject({
      kind: "actions",
      results: [
        {
          ok: true,
          draft: {
            action: "agent",
            content: [{ text: "hello Ann", outside: true }],
            fields: { wakeMode: "next-heartbeat", name: "n", sessionKey: "hook:Ann" },
          },
        },
      ],
    });
    expect(await run("typed", { skip: true })).toMatchObject({ kind: "skipped" });
  });

  it("may be CommonJS, under any export's name, and give a list", async () => {
    expect(await run("common", { name: "x" })).toMatchObject({
      list: false,
      results: [{ ok: true }],
    });
    expect(await run("other", {})).toMatchObject({
      list: true,
      results: [
        { draft: { action: "wake", content: [{ text: "w" }] } },
        { draft: { action: "agent" } },
      ],
    });
  });

  it("may give a list of promises, as an async function in `map` does", async () => {
    expect(await run("bad", { how: "promises" })).toMatchObject({
      list: true,
      results: [{ draft: { content: [{ text: "a" }] } }, { draft: { content: [{ text: "b" }] } }],
    });
  });

  it("may give a number that only BigInt holds", async () => {
    expect(await run("bad", { how: "large number" })).toMatchObject({
      results: [{ draft: { content: [{ text: "154284075601887489" }] } }],
    });
  });

  it("that give the field of another action fail with its name", async () => {
    const message = "text came out empty: the transform gave `message`, and `wake` has `text`";
    expect(await run("bad", { how: "wake" })).toMatchObject({
      results: [{ ok: false, failure: { code: "mapping_incomplete", message } }],
    });
  });

  it("run once for each item", async () => {
    expect(await run("each", { names: ["a", "b"] })).toMatchObject({
      list: true,
      results: [
        { draft: { content: [{ text: "hello a" }] } },
        { draft: { content: [{ text: "hello b" }] } },
      ],
    });
  });

  it.each([
    ["throw", "threw an error"],
    ["exit", "ended its process"],
    ["memory", "ended its process"],
    ["buffers", "ended its process"],
    ["large", "more than 8 MB"],
    ["field", 'gave the field "allowUnsafeExternalContent"'],
    ["text", "must give an object of action fields, a list of them, or null, and gave text"],
    ["typo", 'gave the field "mesage", which it may not set. Did you mean "message"?'],
    ["list with text", "and gave text at [1] of its list"],
    ["list with null", "and gave null at [0] of its list"],
    ["map", "gave a value that is no JSON, such as a Map"],
    ["generator", "gave a value that is no JSON, such as a Map, a generator"],
  ])("that %s fail alone, with a reason that quotes nothing", async (how, reason) => {
    const failure = await run("bad", { how, secret: "canary-secret" }, patient);
    expect(failure).toMatchObject({
      code: "transform_failed",
      message: expect.stringContaining(reason),
    });
    expect(JSON.stringify(failure)).not.toContain("canary");
    expect(await run("bad", { how: "fine" })).toMatchObject({ kind: "actions" });
  });

  it("that reject later harm no other call", async () => {
    for (let i = 0; i < 5; i++)
      expect(await run("bad", { how: "later" })).toMatchObject({ kind: "actions" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await run("bad", { how: "fine" })).toMatchObject({ kind: "actions" });
  });

  it("that send messages of their own answer all the same, and end nothing", async () => {
    expect(await run("bad", { how: "send" })).toMatchObject({
      kind: "actions",
      results: [{ draft: { content: [{ text: "sent" }] } }],
    });
  });

  it.each([
    ["nothing", {}],
    ["other types", { message: {}, stack: 5 }],
    [
      "a stack that is slow to read",
      { message: "m", stack: `    at file://host/a:1:2\n    at ${" (/?".repeat(2000)}` },
    ],
  ])("that forge what they printed or threw break nothing: %s", async (_what, thrown) => {
    const { debug, kind } = (await set.run(input("bad", { how: "forge" }))) as {
      debug?: EventDebug;
      kind: string;
    };
    expect([kind, debug?.notes]).toEqual([
      "actions",
      [
        {
          mapping: "bad",
          field: "transform.module",
          console: [{ stream: "stdout", text: "forged" }],
          cut: true,
        },
      ],
    ]);
    expect(await run("bad", { how: "forge error", thrown })).toMatchObject({
      code: "transform_failed",
    });
  });

  it.each(["slow", "bad"])(
    "that end their process later do not take the next call of %s with them",
    async (owner) => {
      const single = createTransformPool(process.env, 1);
      const folder = join(dir, "transforms");
      const call = (owner: string, file: "bad.js" | "slow.js", input: object) =>
        single.runModule({
          owner,
          file: join(folder, file),
          version: "1",
          built: FILES[`transforms/${file}`],
          exportName: undefined,
          input,
          timeoutMs: 5000,
          ...confinedTo(folder),
        });
      const first = await call("bad", "bad.js", { payload: { how: "exit later" } });
      const second = await call(owner, "slow.js", {});
      await single.close();
      expect([first, second]).toEqual([
        { ok: true, value: { message: "ok" } },
        { ok: true, value: { message: "at last" } },
      ]);
    },
  );

  it("that loop for ever do not hold up other mappings' transforms", async () => {
    // No limit of time ends the loop before the others have answered, however slow the machine is.
    const own = createTransformPool(process.env);
    const { set: both } = await compile(
      {
        transformTimeoutSeconds: 60,
        mappings: [
          mapping("bad", { module: "bad.js" }),
          mapping("common", { module: "common.cjs" }),
        ],
      },
      FILES,
      own,
    );
    let looping = true;
    const loop = run("bad", { how: "loop" }, both).finally(() => (looping = false));
    expect(await run("common", { name: "meanwhile" }, both)).toMatchObject({ kind: "actions" });
    expect(looping).toBe(true);
    await own.close();
    await loop;
  });

  it("that loop for ever end at their limit, and are called again", async () => {
    const failure = await run("bad", { how: "loop", secret: "canary-secret" }, hasty);
    expect(failure).toMatchObject({
      code: "transform_failed",
      message: expect.stringContaining("took longer"),
    });
    expect(JSON.stringify(failure)).not.toContain("canary");
    expect(await run("bad", { how: "fine" })).toMatchObject({ kind: "actions" });
  });

  it("see none of the gateway's environment", async () => {
    process.env["ROUSE_CANARY"] = "x";
    const outcome = await run("bad", { how: "env" });
    expect(JSON.stringify(outcome)).not.toContain("ROUSE_CANARY");
  });
});

describe("jsonata transforms", () => {
  it("give actions, but never instructions", async () => {
    expect(await run("jsonata", { name: "Ann" })).toMatchObject({
      kind: "actions",
      results: [{ draft: { content: [{ text: "hi Ann", outside: true }], fields: { to: "you" } } }],
    });
    expect(await run("jsonata", { skip: true })).toMatchObject({ kind: "skipped" });
    expect(await run("jsonata-instructions", {})).toMatchObject({
      code: "transform_failed",
      message: expect.stringContaining('"instructions"'),
    });
  });

  it.each([
    ['{"id":42,"name":"n"}', "42"],
    ['{"id":0,"name":"n"}', "0"],
    ['{"id":12345678901234567890,"name":"n"}', "12345678901234567890"],
    ['{"id":null,"name":"n"}', "n"],
  ])("have a duplicate key that is a number: %s", async (body, dedupeKey) => {
    expect(await run("jsonata-key", parseJson(body) as object)).toMatchObject({
      results: [{ ok: true, draft: { dedupeKey } }],
    });
  });

  it("fail with a duplicate key that is neither text nor a number", async () => {
    expect(await run("jsonata-key", { id: { a: 1 } })).toMatchObject({
      code: "transform_failed",
      message: expect.stringContaining("`dedupeKey` that is neither text nor a number"),
    });
  });
});

describe("a module's place", () => {
  it.each(["../escape.js", "/etc/passwd", "missing.js", "link.js"])(
    "%s is refused when the config is loaded",
    async (module) => {
      writeFileSync(join(dir, "escape.js"), "export default () => null");
      try {
        symlinkSync(join(dir, "escape.js"), join(dir, "transforms", "link.js"));
      } catch {
        // Made by the case before.
      }
      const { compileTransform } = await import("../../src/mapping/transforms/transform.ts");
      const transformsDir = join(dir, "transforms");
      const runner = () => Promise.reject(new Error("a module is no expression"));
      const compiled = compileTransform(
        { module },
        { id: "x", transformsDir, timeoutMs: 100, pool, runner, ...confinedTo(transformsDir) },
      );
      expect(compiled).toMatchObject({ ok: false, field: "module" });
    },
  );
});
