import { readFileSync } from "node:fs";
import { expect, it, describe } from "vitest";
import type { FieldConditions } from "../../src/config/schema/mapping.ts";
import type { ConditionTrace, MappingTrace } from "../../src/mapping/types.ts";
import { EXPLAIN_CASES } from "./explain-cases.ts";
import { compile, input } from "./world.ts";

const action = { messageTemplate: "m" };

async function traceOne(payload: FieldConditions, body: unknown): Promise<MappingTrace> {
  const { set } = await compile({
    mappings: [{ id: "m", match: { path: "p", payload }, ...action }],
  });
  const { traces, outcome } = await set.explain(input("p", body));
  const [trace] = traces;
  if (!trace) throw new Error("no trace");
  // The trace and the outcome agree.
  expect(outcome.kind === "actions").toBe(trace.matched);
  return trace;
}

const without = (trace: MappingTrace): ConditionTrace[] =>
  trace.conditions.filter(({ condition }) => condition !== "match.path");

describe("explaining a condition", () => {
  it("is tested for every operator: holds, does not, missing, of another type, and a list", () => {
    const kindOf = (value: unknown): string =>
      value === undefined ? "missing" : Array.isArray(value) ? "list" : typeof value;
    const schema = readFileSync(
      new URL("../../src/config/schema/mapping.ts", import.meta.url),
      "utf8",
    );
    const all = [...schema.matchAll(/^ {2}(\$\w+)\?: /gm)].map(([, name = ""]) => name);
    // Groups have cases of their own below.
    const operators = all.filter((name) => !["$and", "$or", "$not"].includes(name));
    expect([all.length - operators.length, operators.length]).toEqual([3, 13]);
    for (const operator of operators) {
      const cases = EXPLAIN_CASES.filter(([condition]) =>
        JSON.stringify(condition).startsWith(`{"${operator}":`),
      );
      const results = new Set(cases.map(([, , result]) => result));
      const kinds = new Set(cases.map(([, value]) => kindOf(value)));
      expect([
        operator,
        results.has(true),
        results.has(false),
        kinds.has("missing"),
        kinds.has("list"),
      ]).toEqual([operator, ...Array<boolean>(4).fill(true)]);
      // A field is there whatever its type is.
      expect([
        operator,
        new Set([...kinds].filter((kind) => kind !== "missing" && kind !== "list")).size > 1,
      ]).toEqual([operator, true]);
    }
    expect(EXPLAIN_CASES.length).toBeGreaterThanOrEqual(60);
  });

  it.each(EXPLAIN_CASES)("%j on %j", async (condition, value, result, reason) => {
    const [trace] = without(await traceOne({ "a.b": condition }, { a: { b: value } }));
    expect(trace).toMatchObject({
      condition: "match.payload.a.b",
      result,
      reason: reason.replace("FIELD", "a.b"),
    });
  });

  it("names the fields that a missing one could have meant, three at most", async () => {
    const body = { data: { id: 1, name: "x" }, other: { idd2: 1 }, pull_request: { number: 3 } };
    const [trace] = without(await traceOne({ "data.idd": 1 }, body));
    expect(trace?.saw).toEqual({ type: "missing", near: ["data.id"] });
    const [moved] = without(await traceOne({ number: 3 }, body));
    expect(moved?.saw?.near).toEqual(["pull_request.number"]);
  });

  it("shows where a path leads through a list, and what it found there", async () => {
    const [trace] = without(
      await traceOne({ "labels.name": "bug" }, { labels: [{ name: "a" }, { name: "b" }] }),
    );
    expect(trace).toMatchObject({
      field: "labels[].name",
      saw: { type: "list", length: 2 },
      reason: 'no element of labels[].name equals "bug"',
    });
  });

  it("keeps the conditions of groups apart, in each other", async () => {
    const payload: FieldConditions = { $or: [{ a: 1 }, { $not: { b: { $gt: 1, $lt: 9 } } }] };
    const [trace] = without(await traceOne(payload, { a: 2, b: 5 }));
    expect(trace).toMatchObject({
      condition: "match.payload.$or",
      result: false,
      reason: "0 of 2 true; one must be",
      children: [
        { result: false, reason: "a is the number 2, which does not equal 1" },
        {
          condition: "match.payload.$or[1].$not",
          result: false,
          reason: "the condition inside holds, and must not",
          children: [
            {
              result: true,
              children: [
                { reason: "b is the number 5, which is greater than 1" },
                { result: true },
              ],
            },
          ],
        },
      ],
    });
  });

  it("cuts a long value, and says how long it is", async () => {
    const [trace] = without(await traceOne({ text: "short" }, { text: "x".repeat(10_240) }));
    expect(trace?.reason).toBe(
      `text is the text "${"x".repeat(80)}"… (10240 characters), which does not equal "short"`,
    );
    expect(trace?.saw?.value?.length).toBeLessThan(250);
    expect(trace?.saw?.length).toBe(10_240);
    const [deep] = without(
      await traceOne(
        { list: 1 },
        { list: Array.from({ length: 50_000 }, () => ({ a: "y".repeat(50) })) },
      ),
    );
    expect(deep?.saw?.value?.length).toBeLessThan(250);
  });

  it("reads headers and parameters by their names, and never through the prototype", async () => {
    const match = {
      path: "p",
      headers: { "X-Event": "push", toString: "x" },
      query: { v: { $exists: true } },
    };
    const { set } = await compile({ mappings: [{ id: "m", match, ...action }] });
    const given = { ...input("p", {}), headers: { "x-event": "pull" } };
    const [trace] = (await set.explain(given)).traces;
    expect(trace?.conditions.slice(1)).toMatchObject([
      {
        condition: "match.headers.X-Event",
        reason: 'the header x-event is the text "pull", which does not equal "push"',
      },
      { condition: "match.headers.toString", result: "unknown", saw: { type: "missing" } },
      { condition: "match.query.v", result: false, reason: "the query parameter v is missing" },
    ]);
  });

  it("says what `when` gave, and that only true and false decide", async () => {
    const explain = async (when: string): Promise<ConditionTrace | undefined> => {
      const { set } = await compile({
        mappings: [{ id: "m", match: { path: "p", when }, ...action }],
      });
      return (await set.explain(input("p", { n: 3, who: "Ann" }))).traces[0]?.conditions.at(-1);
    };
    expect(await explain("n > 2")).toMatchObject({
      condition: "match.when",
      wants: "n > 2",
      result: true,
      reason: "the expression gave true",
    });
    expect(await explain("n + 1")).toMatchObject({
      result: "unknown",
      reason: "the expression gave the number 4; only true and false decide",
    });
    expect(await explain("gone + 1")).toMatchObject({
      result: "unknown",
      reason: "the expression gave nothing; only true and false decide",
    });
    expect(await explain("$number(who) = 1")).toMatchObject({
      result: "unknown",
      reason: expect.stringContaining("D3030"),
    });
  });
});

describe("explaining which mapping took an event", () => {
  const on = (id: string, more: object = {}): object => ({
    id,
    match: { path: "p" },
    ...action,
    ...more,
  });
  const verdicts = async (mappings: object[], body: unknown = { x: 1 }): Promise<unknown[]> => {
    const { set } = await compile({ mappings });
    return (await set.explain(input("p", body))).traces.map(({ mapping, verdict, by }) => [
      mapping,
      verdict,
      ...(by === undefined ? [] : [by]),
    ]);
  };

  it("tells the first, those that match besides, and those that an earlier one hides", async () => {
    const mappings = [
      on("no", { match: { path: "p", payload: { x: 2 } } }),
      on("open", { match: { path: "p", payload: { y: 2 } } }),
      on("off", { enabled: false }),
      on("a", { continue: true }),
      on("b"),
      on("c"),
      on("d", { match: { path: "p", payload: { x: 2 } } }),
    ];
    expect(await verdicts(mappings)).toEqual([
      ["no", "no"],
      ["open", "unknown"],
      ["off", "disabled"],
      ["a", "first"],
      ["b", "also"],
      ["c", "hidden", "b"],
      ["d", "no"],
    ]);
  });

  it("ends with a mapping whose `when` fails, and with an echo of the agent's own", async () => {
    const failing = on("w", { match: { path: "p", when: "$number('x') = 1" } });
    expect(await verdicts([failing, on("later")])).toEqual([
      ["w", "failed"],
      ["later", "hidden", "w"],
    ]);
    const self = on("self", { ignoreSelf: { accounts: ["bot"], from: ["who"], text: [] } });
    expect(await verdicts([self, on("later")], { who: "bot" })).toEqual([
      ["self", "first"],
      ["later", "hidden", "self"],
    ]);
  });

  it("gives each rendered piece with the expression it came from", async () => {
    const { set } = await compile({
      mappings: [
        on("m", {
          sessionKey: "hook:{{who}}",
          messageTemplate: ["Order {{id}}", "Coupon {{coupon}}", "for {{$uppercase(who)}}"],
        }),
      ],
    });
    const [trace] = (await set.explain(input("p", { id: 7, who: "a:b" }))).traces;
    expect(trace?.fields).toEqual([
      { field: "sessionKey", pieces: [{ text: "hook:" }, { text: "a%3Ab", expression: "who" }] },
      {
        field: "messageTemplate",
        pieces: [
          { text: "Order " },
          { text: "7", expression: "id" },
          { text: "\n" },
          { text: "Coupon " },
          { text: "", expression: "coupon", missing: true },
          { text: "\n" },
          { text: "for " },
          { text: "A:B", expression: "$uppercase(who)" },
        ],
      },
    ]);
  });

  it("renders each item of `forEach`, and says why an expression fails", async () => {
    const { set } = await compile({
      mappings: [on("m", { forEach: "items", messageTemplate: "{{ $number(item.n) }}" })],
    });
    const [trace] = (await set.explain(input("p", { items: [{ n: "1" }, { n: "x" }] }))).traces;
    expect(trace?.fields).toEqual([
      { field: "messageTemplate", item: 0, pieces: [{ text: "1", expression: "$number(item.n)" }] },
      {
        field: "messageTemplate",
        item: 1,
        pieces: [],
        failure: expect.stringContaining("{{ $number(item.n) }}"),
      },
    ]);
  });
});
