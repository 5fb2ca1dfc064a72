import fc from "fast-check";
import jsonata from "jsonata";
import { describe, expect, it } from "vitest";
import {
  compileExpression,
  evaluateOutside,
  type JsonataRunner,
} from "../../src/mapping/jsonata/expression.ts";
import { SYSTEM_CLOCK, type CpuClock } from "../../src/mapping/jsonata/cpu-time.ts";
import { compileGuarded } from "../../src/mapping/jsonata/sandbox.ts";
import { parsePath, readPath, type TemplateContext } from "../../src/mapping/template-context.ts";
import { compileRegex } from "../../src/mapping/regex.ts";
import { compileTemplate } from "../../src/mapping/template.ts";
import { parseJson } from "../../src/core/json.ts";
import { plainText } from "../../src/core/text.ts";
import { expectProportional } from "../growth.ts";

const scope = (payload: unknown, more: Partial<TemplateContext> = {}): TemplateContext => ({
  payload,
  headers: {},
  query: {},
  path: "p",
  now: 1_700_000_000_000,
  ...more,
});

/** A clock that stands still: on a busy machine any expression may take longer than its limit. */
const STILL: CpuClock = { wall: () => 0, cpu: () => 0 };

async function evaluate(source: string, payload: unknown, clock = STILL) {
  const compiled = compileExpression(source, { clock });
  if (!compiled.ok) throw new Error(compiled.message);
  return compiled.expression.evaluate(scope(payload));
}

describe("plain paths", () => {
  const name = fc.constantFrom("a", "b", "c");
  const tree: fc.Memo<unknown> = fc.memo((n) =>
    n <= 1
      ? fc.oneof(fc.string({ maxLength: 3 }), fc.integer(), fc.boolean(), fc.constant(null))
      : fc.oneof(
          fc.dictionary(name, tree(n - 1), { maxKeys: 3 }),
          fc.array(tree(n - 1), { maxLength: 3 }),
          tree(1),
        ),
  );
  const step = fc
    .tuple(name, fc.option(fc.integer({ min: -2, max: 2 }), { nil: undefined }))
    .map(([key, position]) => (position === undefined ? key : `${key}[${position}]`));
  const path = fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => steps.join("."));

  it("read what JSONata reads, arrays included", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(name, tree(4), { maxKeys: 3 }),
        path,
        async (value, source) => {
          const ours = readPath(parsePath(source) ?? [], value);
          const theirs: unknown = await jsonata(source).evaluate(value);
          expect(ours === undefined ? undefined : JSON.parse(JSON.stringify(ours))).toEqual(
            theirs === undefined ? undefined : JSON.parse(JSON.stringify(theirs)),
          );
        },
      ),
      { numRuns: 1500 },
    );
  });

  it.each([
    [{ a: [{ b: [1] }] }, "a.b", [1]],
    [{ a: [{ b: [] }, {}] }, "a.b", []],
    [{ a: [{ b: [] }, { b: [] }] }, "a.b", undefined],
    [{ a: [[{ b: [] }]] }, "a.b", undefined],
    [{ a: [[{ b: [[1]] }]] }, "a.b", [1]],
    [{ a: [{ b: [[]] }] }, "a.b[0]", []],
    [{ a: [{ b: [{ c: 1 }] }] }, "a.b.c", 1],
  ])("of %j read %s as JSONata does", async (value, source, wanted) => {
    expect([
      readPath(parsePath(source) ?? [], value),
      await jsonata(source).evaluate(value),
    ]).toEqual([wanted, wanted]);
  });

  it.each([
    ["$match(a, /w+/).match ?: 'x'", "www"],
    ["a[$contains($, /w/)] ?: 'x'", "www"],
    ["$match(a, /q/).match ?: $match(a, /z/).match ?: $replace(a, /w/, 'v')", "vvv"],
  ])("a regular expression before `?:` counts: %s", async (source, wanted) =>
    expect(await evaluate(source, { a: "www" })).toEqual({ ok: true, value: wanted }),
  );

  it.each([
    "__proto__",
    "constructor",
    "prototype",
    "a.__proto__",
    "a.constructor.name",
    "toString",
  ])("finds nothing under %s", async (source) => {
    expect(await evaluate(source, { a: {} })).toEqual({ ok: true, value: undefined });
  });

  it("may hold dashes, take headers in any case, and tell root names from the payload's", async () => {
    const given = scope({ headers: "mine" }, { headers: { "x-event": "push" } });
    for (const source of ["headers.x-event", "headers.X-Event"]) {
      const compiled = compileExpression(source);
      if (!compiled.ok) throw new Error(compiled.message);
      expect(await compiled.expression.evaluate(given)).toEqual({ ok: true, value: "push" });
    }
    expect(await evaluate("payload.messages[0].subject", { messages: [{ subject: "s" }] })).toEqual(
      { ok: true, value: "s" },
    );
    expect(await evaluate("messages[0].subject", { messages: [{ subject: "s" }] })).toEqual({
      ok: true,
      value: "s",
    });
  });
});

describe("expressions around a field that may be missing", () => {
  const value = fc.constantFrom<unknown>(
    "x",
    "",
    "1",
    0,
    -1,
    7,
    1.5,
    1e21,
    true,
    false,
    null,
    [],
    ["x"],
    {},
    { c: "x" },
    [{ c: 1 }],
  );
  const operand = fc.constantFrom(
    "a",
    "b",
    "a.c",
    "b[0]",
    "b[-1].c",
    "d",
    "a-b",
    "'text'",
    '"a & b ?: c"',
    "''",
    "7",
    "true",
    "null",
  );

  it("give what JSONata gives", async () => {
    let atOnce = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.record({ a: value, b: value }, { requiredKeys: [] }),
        fc.array(operand, { minLength: 2, maxLength: 4 }),
        async (payload, operands) => {
          const source = operands.join(" ?: ");
          const compiled = compileExpression(source);
          if (!compiled.ok) throw new Error(compiled.message);
          const ours = compiled.expression.evaluate(scope(payload));
          if (ours instanceof Promise) return;
          atOnce++;
          expect(ours).toEqual({ ok: true, value: await jsonata(source).evaluate(payload) });
        },
      ),
      { numRuns: 1000 },
    );
    // About 240 of 1,000 random expressions: chance never comes down to this.
    expect(atOnce).toBeGreaterThan(100);
  });
});

const DOUBLE_TEXT = "$f := function($s, $n) { $n = 0 ? $s : $f($s & $s, $n - 1) };";
const TIME = "the expression took too long";
const TEXT = "the expression makes a text of more than a million characters";
const ENDS = "it gives a value";
const DOUBLE_LIST = "$g := function($x, $n) { $n = 0 ? $x : $g([[$x], [$x]], $n - 1) };";

describe("JSONata", () => {
  it("does not mix two evaluations of one expression", async () => {
    // Without the turns that expressions take.
    const guarded = compileGuarded("items.(x & $$.id)", 1000);
    if (!guarded.ok) throw new Error(guarded.message);
    const results = await Promise.all(
      ["A", "B", "C"].map((id) =>
        guarded.compiled.evaluate({ id, items: [{ x: 1 }, { x: 2 }] }, 0),
      ),
    );
    expect(results).toEqual([
      ["1A", "2A"],
      ["1B", "2B"],
      ["1C", "2C"],
    ]);
  });

  it.each([
    ["$nope(a)", "no function $nope"],
    ["$uppercas(a)", 'Did you mean "$uppercase"?'],
    ["$eval('1')", "$eval is not available"],
    ["$random()", "$random is not available"],
    ["a ~> /(?=x)/", "lookahead"],
    ["a[", "is not valid JSONata"],
    ["headers['x-id'] = 'a'", "write .`x-id`"],
    ["headers.x-id ?: 'none'", "the dash subtracts"],
    ["$json.a & 'b'", "there is no variable $json. Write `payload`"],
    ["$query.q", "there is no variable $query"],
    ["a.$k", "a field whose name has a $ in backticks"],
    [
      "a.toUpperCase()",
      'no function toUpperCase; names of functions begin with $. Did you mean "$',
    ],
    ["JSON.stringify(a)", "there is no function stringify"],
    ["now()", 'Did you mean "$now"?'],
    ["a + ' EUR'", "`+` adds numbers; join texts with `&`"],
    ["\u201ca\u201d & b", "straight quotes"],
    ["{{ a = 1 }}", "leave out {{ and }} here (S0202)"],
    ["a == 1", "compare with one `=` (S0211)"],
    ["a === 1", "compare with one `=`"],
    ["$map(a, $i => $i.b)", "`function($x) { … }`"],
    ["a && b", "write `and`"],
    ["a || b", "write `or`"],
    ["a | default('b')", "there are no filters: write `$uppercase(a)`, or `a ?: 'none'`"],
    ["!a", "write `$not(a)`"],
    ["#if a", "there are no blocks"],
    ["/if", "there are no blocks"],
    [".Labels.a", "leave out the first dot"],
    ["{a", "write two braces"],
    ["a.0.b", "write a position as `a[0]`"],
    ["a.@id", "other characters in backticks"],
    ["a.first name", "a name with spaces needs backticks"],
    ["a?.b", "write `.`: a missing field is no error"],
    [String.raw`'it\'s'`, "in double quotes"],
    ["$match(a, /b/gi)", "the flags are i and m, and all matches are found"],
    ["$match(a, /(?i)b/)", "is not valid JSONata: Invalid regular expression"],
  ])("refuses %s when it is compiled", (source, message) => {
    const compiled = compileExpression(source);
    expect(compiled.ok).toBe(false);
    expect(compiled.ok ? "" : compiled.message).toContain(message);
  });

  it.each([
    "headers.`X-Event`",
    "$.headers.`X-Event`",
    '$lookup(headers, "X-Event")',
    "($h := headers.`X-EVENT`; $h)",
    "items.($$.headers.`X-Event`)",
    "items[headers.`X-Event` = 'own'] ? headers.`X-Event`",
    "$map(items, function($item) { headers.`X-Event` })",
  ])("finds a header in any case: %s", async (source) => {
    const compiled = compileExpression(`${source} ?: 'none'`);
    if (!compiled.ok) throw new Error(compiled.message);
    const event = scope({ items: [{ headers: { "X-Event": "own" } }] });
    expect(
      await compiled.expression.evaluate({ ...event, headers: { "x-event": "push" } }),
    ).toEqual({ ok: true, value: "push" });
  });

  it.each([
    ["a@$c.b#$i.{'n': $c.n, 'i': $i}", { a: [{ n: 1 }], b: [2] }, { n: 1, i: 0 }],
    ["($f := {'g': function($x) { $x }}; $f.g(2))", {}, 2],
    ["a ~> |b|{'c': $$.d}|", { a: { b: {} }, d: 3 }, { b: { c: 3 } }],
    ["$map(a, $string)", { a: [1, 2] }, ["1", "2"]],
    ["a + 12345678901234567890 > 1", { a: "12345678901234567890" }, undefined],
  ])("takes %s for what it is", async (source, payload, value) => {
    const result = await evaluate(source, payload);
    expect(result.ok ? result.value : undefined).toEqual(value);
  });

  it.each([
    ["$match(a, /^(a+)+$/)", { a: `${"a".repeat(40)}!` }, ENDS],
    ["$length($pad('x', 100000000))", {}, TEXT],
    [
      "($f := function($s, $n) { $n = 0 ? $s : $f($s & $s, $n - 1) }; $length($f('xxxxxxxxxx', 24)))",
      {},
      TIME,
    ],
    [
      "$join([1..20000].('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'))",
      {},
      TIME,
    ],
    ["($f := function() { $f() }; $f())", {}, TIME],
    ["$count([1..1000000000])", {}, "the expression failed (JSONata D2014)"],
    [
      "($f := function($a, $n) { $n = 0 ? $a : $f($append($a, $a), $n - 1) }; $count($f([1,2,3], 26)))",
      {},
      TIME,
    ],
    [
      "($f := function($s, $n) { $n = 0 ? $s : $f($s & $s, $n - 1) }; $string([1..20000].($f('xxxxxxxxxx', 12))))",
      {},
      TIME,
    ],
    [`(${DOUBLE_LIST} $keys($g({'a': 1}, 23)))`, {}, TIME],
    [`(${DOUBLE_LIST} $clone($g(1, 23)))`, {}, TIME],
    [`(${DOUBLE_LIST} $g(1, 26) = $g(1, 26))`, {}, TIME],
    [`(${DOUBLE_TEXT} $number($f('1111111111', 24)))`, {}, TIME],
    [`(${DOUBLE_TEXT} $encodeUrl($f('1111111111', 24)))`, {}, TIME],
    ["$distinct([1..19000].(function($x) { $x }))", {}, TIME],
    ["$map([1..19000].($$.a), $uppercase)", { a: "x".repeat(900_000) }, TIME],
    ["$join([1..19000].($$.a))", { a: "x".repeat(900_000) }, TIME],
    ["($p := $join(?, ?); $p([1..19000].($$.a), $$.a))", { a: "x".repeat(900_000) }, TIME],
    ["($p := $pad(?, 100000000); $p('x'))", {}, TEXT],
    ["$pad('x', 900000, a)", { a: "x".repeat(900_000) }, TEXT],
    ["$replace(a, /x/, b)", { a: "x".repeat(900_000), b: "$$".repeat(450_000) }, TIME],
    ["$replace(a, 'x', b)", { a: "x".repeat(900_000), b: "y".repeat(900_000) }, TEXT],
    ["$count($match(a, /x.*y|x/))", { a: "x".repeat(900_000) }, TIME],
    ["$fromMillis(1e20)", {}, "the expression gives $fromMillis a time that no calendar has"],
    [
      "$split(a, b)",
      { a: "x" },
      "the expression failed in $split: an argument is missing or has the wrong type",
    ],
    [
      "$formatNumber(5, a)",
      { a: `${"#,".repeat(20_000)}##0` },
      "the expression uses a picture of more than 1000 characters",
    ],
    [
      "$toMillis(a, '[FNn][MNn][PNn][ZN]')",
      { a: `${"a".repeat(5000)}1` },
      "the expression reads a text of more than 200 characters by a picture",
    ],
    [
      "$parseJson(a)",
      { a: "[".repeat(900_000) },
      "the expression gives $parseJson a text that is not JSON",
    ],
  ])("bounds %s", async (source, payload, ends) => {
    const result = await evaluate(source, payload, SYSTEM_CLOCK);
    if (result.ok) expect(JSON.stringify(result.value ?? null).length).toBeLessThan(3_000_000);
    else expect(result.message).toMatch(/^the expression (?!failed$)/);
    // By a clock on which a millisecond passes with each look at it: after ten of them the time is up.
    let now = 0;
    const tick = (): number => ++now;
    const compiled = compileExpression(source, { clock: { wall: tick, cpu: tick } });
    if (!compiled.ok) throw new Error(compiled.message);
    const ticked = await compiled.expression.evaluate(scope(payload));
    expect(ticked.ok ? ENDS : ticked.message).toBe(ends);
  });

  it.each(["$distinct(a)", "$sort(a.id)", "$spread(a)"])(
    "%s takes time in proportion to the members of its list",
    async (source) => {
      const guarded = compileGuarded(source, 60_000);
      if (!guarded.ok) throw new Error(guarded.message);
      const lists = new Map(
        [2500, 20_000].map((count) => [
          count,
          Array.from({ length: count }, (_, n) => ({ id: `label ${(n * 7919) % count}` })),
        ]),
      );
      await expectProportional(
        (count) => guarded.compiled.evaluate({ a: lists.get(count) }, 0),
        2500,
      );
    },
  );

  it("repeats an evaluation that took too long in the child", async () => {
    let calls = 0;
    const runner: JsonataRunner = async () => ({ ok: true, value: ++calls });
    const compiled = compileExpression(
      "$sum([1..19000].($ * 2)) + $sum([1..19000].($ * 3)) + $sum([1..19000].($ * 3)) + $sum([1..19000].($ * 3))",
      { runner },
    );
    if (!compiled.ok) throw new Error(compiled.message);
    expect(await compiled.expression.evaluate(scope({}))).toEqual({ ok: true, value: 1 });
    expect(await compiled.expression.evaluate(scope({}))).toEqual({ ok: true, value: 2 });
  });

  it("interrupts a function between two matches of a regular expression", async () => {
    const runner: JsonataRunner = async () => ({ ok: true, value: "outside" });
    const compiled = compileExpression("$count($split(a, /x/))", { runner });
    if (!compiled.ok) throw new Error(compiled.message);
    const results = [];
    for (let i = 0; i < 5; i++)
      results.push(await compiled.expression.evaluate(scope({ a: "x".repeat(900_000) })));
    expect(results.at(-1)).toEqual({ ok: true, value: "outside" });
    expect((await compiled.expression.evaluate(scope({ a: "x" }))).ok).toBe(true);
  });

  it.each([
    "$split(a, /o/)",
    "$replace(a, /(l+)(o)/, '[$2$1$$$0]')",
    "$replace(a, /o/, '0', 1)",
    "$replace(a, /o/, function($m) { $uppercase($m.match) })",
    "$string(0.1 + 0.2)",
    "$string({'a': [1, {'b': null}]}, true)",
    "$contains(a, /L/i)",
    "$map(list, $uppercase)",
    "$distinct([1, '1', 1, true, {'a': 1, 'b': 2}, {'b': 2, 'a': 1}, [1], [[1]], [1], null, null])",
    "$sort(rows, function($l, $r) { $l.n > $r.n })",
    "$sort(rows, function($l, $r) { $l.kind > $r.kind }).n",
    "rows ~> |$|{'n': n * 2}|",
    "($f := function($n) { $n <= 1 ? 1 : $n * $f($n - 1) }; $f(10))",
    "$reduce(rows.n, function($l, $r) { $l + $r })",
    "a ~> $uppercase ~> $length",
  ])("%s gives what JSONata gives", async (source) => {
    const data = {
      a: "Hello wörld 😀",
      list: ["x", "y"],
      rows: [3, 1, 2].map((n) => ({ kind: "same", n })),
    };
    const theirs: unknown = await jsonata(source).evaluate(data);
    expect(await evaluate(source, data)).toEqual({
      ok: true,
      value: theirs === undefined ? undefined : JSON.parse(JSON.stringify(theirs)),
    });
  });

  it("takes the time from the scope, and never quotes the input in a failure", async () => {
    expect(await evaluate("$millis()", {})).toEqual({ ok: true, value: 1_700_000_000_000 });
    const failed = await evaluate("$number(a)", { a: "canary-input" });
    expect(failed.ok).toBe(false);
    expect(JSON.stringify(failed)).not.toContain("canary");
    expect((await evaluateOutside("$number(a)", { a: "canary-input" }, 0, 100)).ok).toBe(false);
  });

  it("gives plain JSON of its own", async () => {
    const payload = { list: [{ n: 1 }] };
    const result = await evaluate("{ 'copy': list }", payload);
    if (!result.ok) throw new Error(result.message);
    (result.value as { copy: { n: number } }).copy.n = 2;
    expect(payload.list[0]?.n).toBe(1);
    expect(Object.keys(((await evaluate("list[]", payload)) as { value: object }).value)).toEqual([
      "0",
    ]);
  });
});

describe("regular expressions", () => {
  it.each(["(a)\\1", "(?<=x)y", "(?!x)y", "("])("refuses %s", (source) =>
    expect(compileRegex(source).ok).toBe(false),
  );
  it.each([
    ["^\\\\\\\\10\\.", "\\\\10.0.0.5"],
    ["\\(?=", "f(=x"],
    ["[(?=]", "="],
  ])("take %s, which only looks like one that is refused", (source, text) => {
    const compiled = compileRegex(source);
    expect(compiled.ok && compiled.regex.test(text)).toBe(true);
  });
  it("are linear", () => {
    const compiled = compileRegex("^(a+)+$");
    if (!compiled.ok) throw new Error(compiled.message);
    expect(compiled.regex.test(`${"a".repeat(5000)}!`)).toBe(false);
    expect(compiled.regex.test("aaa")).toBe(true);
  });
});

describe("templates", () => {
  async function render(source: string, payload: unknown, encodeColon = false) {
    const compiled = compileTemplate(source, { encodeColon });
    if (!compiled.ok) throw new Error(compiled.message);
    const rendered = await compiled.template.render(scope(payload));
    if (!rendered.ok) throw new Error(rendered.message);
    return rendered;
  }

  it("tells the operator's words from what came in", async () => {
    expect(
      await render("Order {{id}} by {{ name }}{{x}}!", { id: 7, name: "Ann", x: true }),
    ).toMatchObject({
      ok: true,
      missing: [],
      empty: [],
      parts: [
        { text: "Order ", outside: false },
        { text: "7", outside: true },
        { text: " by ", outside: false },
        { text: "Anntrue", outside: true },
        { text: "!", outside: false },
      ],
    });
  });

  it("renders objects as JSON, null and missing as nothing, and says what was missing", async () => {
    const rendered = await render("{{a}}|{{b}}|{{c}}|{{d.e}}", { a: { x: [1] }, b: null, c: 0 });
    expect(plainText(rendered.parts)).toBe('{"x":[1]}||0|');
    expect(rendered.missing).toEqual(["b", "d.e"]);
  });

  it("writes a number of the scope, and one that was rounded, as it is, whatever equal number the body has", async () => {
    const compiled = compileTemplate(
      "{{ count }} events, {{ index }}: {{ price }}, {{ a }}, {{ $floor(price + 0.5) }}",
    );
    if (!compiled.ok) throw new Error(compiled.message);
    const payload = parseJson('{"price":3.00,"a":1.0}');
    const scope = { payload, headers: {}, query: {}, path: "p", now: 0, count: 3, index: 1 };
    const rendered = await compiled.template.render(scope);
    expect(rendered.ok && plainText(rendered.parts)).toBe("3 events, 1: 3.00, 1.0, 3");
  });

  it.each([
    ["{{ '}}' & $string({'a': {'b': 1}}) }}!", '}}{"a":{"b":1}}!'],
    ["{{ $replace(a, /[\"'`]/, '-') & $replace(a, /\\{/, '(') }}!", `-{-"('!`],
    ["{{ a /* it's }} */ }}!", `"{'!`],
  ])("finds the end of an expression past what is in it: %s", async (source, expected) =>
    expect(plainText((await render(source, { a: `"{'` })).parts)).toBe(expected),
  );

  it("encodes colons where the text is a session key", async () => {
    expect(plainText((await render("hook:{{a}}", { a: "x:y%" }, true)).parts)).toBe(
      "hook:x%3Ay%25",
    );
  });

  it.each(["{{ a", "{{ }}", "{{ a b c( }}"])("refuses %s", (source) =>
    expect(compileTemplate(source).ok).toBe(false),
  );

  it("is rendered immediately if all expressions are plain paths", () => {
    const compiled = compileTemplate("{{a}} {{b.c}}");
    expect(compiled.ok && compiled.template.render(scope({ a: 1 }))).not.toBeInstanceOf(Promise);
  });
});
