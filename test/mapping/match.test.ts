import { describe, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import { matchSchema } from "../../src/config/schema/mapping.ts";
import { compileMatch } from "../../src/mapping/match.ts";
import type { TemplateContext } from "../../src/mapping/template-context.ts";
import { compile, input } from "./world.ts";

async function test(match: object, payload: unknown, more: Partial<TemplateContext> = {}) {
  const compiled = compileMatch(matchSchema.parse(match));
  expect(compiled.issues).toEqual([]);
  return compiled.match.test({ payload, headers: {}, query: {}, path: "p", now: 0, ...more });
}
const issuesOf = (match: object) => compileMatch(matchSchema.parse(match)).issues;

const event = {
  action: "opened",
  n: 5,
  draft: false,
  nothing: null,
  name: "release/1.2",
  labels: [{ name: "bug" }, { name: "ui" }],
  tags: ["x", "y"],
  pull_request: { base: { ref: "main" } },
};

/** Each operator alone is tested by `explain-cases.ts`. */
describe("conditions on fields and in groups", () => {
  it.each([
    [{ action: "opened" }, true],
    [{ n: "5" }, false],
    [{ "pull_request.base.ref": "main" }, true],
    [{ "labels[0].name": "bug" }, true],
    [{ "labels.name": "ui" }, true],
    [{ "labels.name": { $ne: "ui" } }, false],
    [{ "labels.name": { $not: "nope" } }, true],
    [{ n: { $gt: 4, $lte: 5 } }, true],
    [{ n: { $or: [1, 5] } }, true],
    [{ n: { $and: [{ $gt: 1 }, { $lt: 3 }] } }, false],
    [{ $or: [{ action: "closed" }, { n: 5 }] }, true],
    [{ $and: [{ action: "opened" }, { n: 6 }] }, false],
    [{ $not: { action: "closed" } }, true],
  ])("%j gives %s", async (payload, expected) =>
    expect(await test({ payload }, event)).toBe(expected),
  );
});

describe("$contains", () => {
  const list = {
    tags: ["debugging", "ui"],
    mixed: ["1", 2, true, null],
    rows: [{ names: ["debugging"] }],
    pulls: [{ head: { ref: "main" } }],
  };
  it.each([
    [{ tags: { $contains: "ui" } }, list, true],
    [{ tags: { $contains: "bug" } }, list, false],
    [{ mixed: { $contains: 2 } }, list, true],
    [{ mixed: { $contains: "2" } }, list, false],
    [{ mixed: { $contains: 1 } }, list, false],
    [{ mixed: { $contains: true } }, list, true],
    [{ mixed: { $contains: null } }, list, true],
    [{ mixed: { $contains: false } }, list, false],
    [{ tags: { $contains: "bug" } }, { tags: "debugging" }, true],
    [{ tags: { $contains: 1 } }, { tags: "1" }, false],
    [{ tags: { $contains: "1" } }, { tags: 12 }, false],
    [{ "tags[0]": { $contains: "bug" } }, list, true],
    [{ "labels.name": { $contains: "ug" } }, { labels: [{ name: "bug" }, { name: "ui" }] }, false],
    [{ "labels.name": { $contains: "ug" } }, { labels: [{ name: "bug" }] }, false],
    [{ "labels.name": { $contains: "bug" } }, { labels: [{ name: "bug" }] }, true],
    [{ "labels[0].name": { $contains: "ug" } }, { labels: [{ name: "bug" }] }, true],
    [{ "pulls.head.ref": { $contains: "mai" } }, list, false],
    [{ "rows.names": { $contains: "debugging" } }, list, true],
    [{ "rows.names": { $contains: "bug" } }, list, false],
    [{ name: { $contains: "ug" } }, [{ name: "bug" }], false],
    [{ tags: { $not: { $contains: "bug" } } }, list, true],
    [{ gone: { $contains: "x" } }, list, "unknown"],
  ])(
    "%j of %j gives %s: a member of a list is equal, a part of a text is contained",
    async (payload, value, expected) => expect(await test({ payload }, value)).toBe(expected),
  );
});

describe("a missing field", () => {
  it.each([
    [{ gone: "x" }],
    [{ gone: { $ne: "x" } }],
    [{ gone: { $not: "x" } }],
    [{ gone: { $nin: ["x"] } }],
    [{ $not: { gone: "x" } }],
    [{ gone: { $regex: "" } }],
    [{ $and: [{ gone: 1 }, { n: 5 }] }],
    [{ $or: [{ gone: 1 }, { n: 6 }] }],
  ])("is unknown and never fires: %j", async (payload) =>
    expect(await test({ payload }, event)).toBe("unknown"),
  );
  it("can be asked for", async () => {
    expect(await test({ payload: { gone: { $exists: false } } }, event)).toBe(true);
    expect(await test({ payload: { nothing: { $exists: true } } }, event)).toBe(true);
    expect(await test({ payload: { "a.__proto__": { $exists: true } } }, { a: {} })).toBe(false);
  });
  it("does not spoil what is decided without it", async () => {
    expect(await test({ payload: { $or: [{ gone: 1 }, { n: 5 }] } }, event)).toBe(true);
    expect(await test({ payload: { $and: [{ gone: 1 }, { n: 6 }] } }, event)).toBe(false);
  });
});

describe("source, headers, query and when", () => {
  it("are looked at too", async () => {
    expect(await test({ source: "mail" }, { source: "mail" })).toBe(true);
    expect(
      await test({ headers: { "X-Event": "push" } }, {}, { headers: { "x-event": "push" } }),
    ).toBe(true);
    expect(await test({ query: { team: ["a", "b"] } }, {}, { query: { team: "b" } })).toBe(true);
    expect(await test({ when: "n > 4 and action = 'opened'" }, event)).toBe(true);
    expect(await test({ when: "n" }, event)).toBe("unknown");
    expect(await test({ when: "$number('x')" }, event)).toEqual({
      failed: expect.stringContaining("the expression failed"),
    });
  });
});

describe("problems are said when the config is loaded", () => {
  it.each([
    [{ payload: { a: { $regex: "/a/gi" } } }, "match.payload.a.$regex", 'write "(?i)a", or [/]'],
    [{ payload: { a: { $regx: "x" } } }, "match.payload.a.$regx", 'Did you mean "$regex"?'],
    [{ payload: { a: { $regex: "(?=x)" } } }, "match.payload.a.$regex", "lookahead"],
    [{ payload: { "a b": 1 } }, "match.payload.a b", "in backticks"],
    [{ payload: { a: { b: 1 } } }, "match.payload.a.b", "one path"],
    [{ payload: { a: {} } }, "match.payload.a", "at least one operator"],
    [{ payload: { a: { $in: "x" } } }, "match.payload.a.$in", "list"],
    [{ query: { page: { $in: ["a", 1] } } }, "match.query.page", "in quotes"],
    [{ headers: { "x-retry": { $not: true } } }, "match.headers.x-retry", "in quotes"],
    [{ when: "$nope()" }, "match.when", "no function"],
  ])("%j", (match, path, message) => {
    const [issue] = issuesOf(match);
    expect(issue?.path).toBe(path);
    expect(issue?.message).toContain(message);
  });
});

describe("an expression is evaluated once for an event:", () => {
  const when = "$count(rows) > 1";
  const mappings = (...ids: string[]): object[] =>
    ids.map((id) => ({ id, match: { path: "shop", when }, messageTemplate: "{{id}}" }));

  it("sets of mappings that decide about the same input share what it gave", async () => {
    const [before, after] = [
      await compile({ mappings: mappings("old") }),
      await compile({ mappings: mappings("new") }),
    ];
    const given = input("shop", { id: 7, rows: [1, 2] }, { results: new Map() });
    expect(await before.set.run(given)).toMatchObject({ kind: "actions", mapping: "old" });
    expect([...(given.results ?? [])]).toEqual([[when, { ok: true, value: true }]]);
    given.results?.set(when, { ok: true, value: false });
    expect(await after.set.run(given)).toMatchObject({
      kind: "unmatched",
      nearest: { mapping: "new", condition: "match.when" },
    });
  });

  it("but not items of a list, nor another input", async () => {
    const each = {
      id: "each",
      match: { path: "shop" },
      forEach: "rows",
      messageTemplate: '{{ $string(item) & "!" }}',
    };
    const { set } = await compile({ mappings: [each] });
    const outcome = await set.run(input("shop", { rows: [1, 2] }, { results: new Map() }));
    const texts =
      outcome.kind === "actions"
        ? outcome.results.map((one) => one.ok && plainText(one.draft.content))
        : [];
    expect(texts).toEqual(["1!", "2!"]);
    const other = await compile({ mappings: mappings("only") });
    expect((await other.set.run(input("shop", { rows: [1, 2] }))).kind).toBe("actions");
    expect((await other.set.run(input("shop", { rows: [1] }))).kind).toBe("unmatched");
  });
});
