import { readFileSync } from "node:fs";
import { join } from "node:path";
import jsonata from "jsonata";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { compileExpression } from "../../src/mapping/jsonata/expression.ts";
import { jsonataInput, type TemplateContext } from "../../src/mapping/template-context.ts";
import { callsOf, FUNCTIONS, NOW, VALUES } from "./jsonata-cases.ts";

/**
 * Compares our engine with the `jsonata` package. Every call that is generated and every example must give the same value,
 * or fail with the same code. `DIFFERENCES` lists what differs on purpose.
 */
const FIXTURES = join(import.meta.dirname, "../fixtures/jsonata");
const EXAMPLES = readFileSync(join(FIXTURES, "examples.txt"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));

const scopeOf = (payload: unknown): TemplateContext => ({
  payload,
  headers: {},
  query: {},
  path: "p",
  now: NOW,
});
const EXAMPLE_SCOPE = scopeOf(JSON.parse(readFileSync(join(FIXTURES, "data.json"), "utf8")));

/** Renders a result as text. Functions are left out, as JSON has none. */
const render = (value: unknown): string =>
  JSON.stringify(value, (_key, member: unknown) => {
    const { _jsonata_lambda, _jsonata_function } = (member ?? {}) as Record<string, unknown>;
    return _jsonata_lambda === true || _jsonata_function === true ? undefined : member;
  }) ?? "missing";

type Run = (scope: TemplateContext) => Promise<string>;

/** Functions of the package that give something else on purpose, as they should be: called in the same ways as its own. */
const INSTEAD: Record<string, (text?: string) => string | undefined> = {
  base64encode: (text) => (text === undefined ? undefined : Buffer.from(text).toString("base64")),
  base64decode: (text) => (text === undefined ? undefined : Buffer.from(text, "base64").toString()),
};

/** Evaluates with the package. Errors of JavaScript itself have no code of JSONata. */
function theirs(source: string, instead: typeof INSTEAD = {}): Run {
  const fail = (error: unknown): string =>
    `error ${/^[A-Z]\d{4}$/.exec((error as { code?: string }).code ?? "")?.[0] ?? ""}`;
  try {
    const expression = jsonata(source);
    for (const [name, call] of Object.entries(instead))
      expression.registerFunction(name, call, "<s-:s>");
    return (scope) => expression.evaluate(jsonataInput(scope), {}).then(render, fail);
  } catch (error) {
    return async () => fail(error);
  }
}

function codeIn(message: string): string {
  return (
    /\b[A-Z]\d{4}\b/.exec(message)?.[0] ??
    (message.startsWith("the expression failed") ? "" : message)
  );
}

function ours(source: string): Run {
  const compiled = compileExpression(source, { clock: { wall: () => 0, cpu: () => 0 } });
  if (!compiled.ok) return async () => `error ${codeIn(compiled.message)}`;
  return async (scope) => {
    const result = await compiled.expression.evaluate(scope);
    if (result.ok) return render(result.value);
    return result.message.includes("wörld")
      ? `a message that quotes the payload: ${result.message}`
      : `error ${codeIn(result.message)}`;
  };
}

const { stackTraceLimit } = Error;
beforeAll(() => {
  // JSONata reads the stack of each of its errors, which takes longer than all the rest.
  Error.stackTraceLimit = 0;
  vi.stubEnv("TZ", "Asia/Kolkata");
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
});
afterAll(() => {
  // The next file may run in the same process.
  Error.stackTraceLimit = stackTraceLimit;
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

describe("JSONata's functions", () => {
  const scopes = new Map<string, TemplateContext>();
  const scopeFor = (kinds: readonly string[]): TemplateContext => {
    const key = kinds.join();
    const known =
      scopes.get(key) ??
      scopeOf(Object.fromEntries(kinds.map((kind, index) => ["abc"[index], VALUES[kind]])));
    scopes.set(key, known);
    return known;
  };

  it.each(FUNCTIONS)(
    "$%s gives what the package gives, whatever and however it is called",
    async (name) => {
      const differences: string[] = [];
      let [source, own, other] = ["", ours("1"), theirs("1")];
      for (const call of callsOf(name)) {
        if (call.source !== source)
          [source, own, other] = [call.source, ours(call.source), theirs(call.source, INSTEAD)];
        const scope = scopeFor(call.kinds);
        const [given, wanted] = [await own(scope), await other(scope)];
        // The package ignores a zone that is no offset, or writes `NaN`.
        if (given !== wanted && !given.includes("a time zone that is no offset"))
          differences.push(`${source} of ${call.kinds.join(", ")}: ${given} instead of ${wanted}`);
      }
      expect(differences.slice(0, 20)).toEqual([]);
    },
  );
});

describe("the examples of JSONata's documentation", () => {
  it.each(EXAMPLES)("%s", async (source) =>
    expect(await ours(source)(EXAMPLE_SCOPE)).toBe(await theirs(source)(EXAMPLE_SCOPE)),
  );
});

const LONG = "x".repeat(1001);
/** Differences from the package: an expression, the reason, and our result. */
const DIFFERENCES: readonly [source: string, reason: string, given: string, payload?: object][] = [
  [
    "$eval('1 + 1')",
    "it would run a source that was not checked when the config was loaded",
    "$eval is not available here",
  ],
  ["$random() < 2", "a replayed event must give the same result", "$random is not available here"],
  [
    "$count($shuffle([1, 2]))",
    "a replayed event must give the same result",
    "$shuffle is not available here",
  ],
  ["$nope(1)", "an unknown function is an error of the config", "there is no function $nope."],
  ["$parseJson('[1]')", "JSONata has no function that parses JSON", "[1]"],
  ["$formatMoney(2200, 'eur')", "JSONata has no function for amounts of money", '"22.00 EUR"'],
  ["$formatPairs({'a': 1})", "JSONata has no function for the members of an object", '"a=1"'],
  [
    "$base64decode(a)",
    "JSONata's own reads each byte as a character, against its documentation",
    '"Größe 世界"',
    { a: Buffer.from("Größe 世界").toString("base64") },
  ],
  [
    "$base64decode($base64encode(a))",
    "JSONata's own loses all but the last byte of a character",
    '"Größe 世界"',
    { a: "Größe 世界" },
  ],
  [
    "$encodeUrlComponent(a) & $encodeUrl(a)",
    "a text that a sender has cut in the middle of a character is no reason to fail",
    '"%EF%BF%BD%EF%BF%BD"',
    { a: "\ud83c" },
  ],
  ["$match('ab', /a(?=b)/).match", "lookaround has no linear time", "lookahead"],
  ["$match('aa', /(a)\\1/).match", "backreferences have no linear time", "backreferences"],
  [
    "$replace(a, /a.b/, '*')",
    "a regular expression reads whole characters, not halves of pairs",
    '"*"',
    { a: "a😀b" },
  ],
  ["$match(a, /.+/).match", "only a line feed ends a line", '"a\\rb"', { a: "a\rb" }],
  ["$match('', /(a*)*/).groups", "a group that may be empty is tried once, even on nothing", '""'],
  ["$contains('a', /\\p{L}/)", "classes of Unicode need no flag", "true"],
  ["$pad('x', 1000001) ~> $length", "bound of a text", "more than a million characters"],
  [
    "$length($join([1..20].($$.a)))",
    "bound of a text",
    "more than a million characters",
    { a: "x".repeat(60_000) },
  ],
  [
    "$length($replace(a, 'x', b))",
    "bound of a text",
    "more than a million characters",
    { a: LONG, b: LONG },
  ],
  [
    "$length($replace(a, /x/, b))",
    "bound of a text",
    "more than a million characters",
    { a: LONG, b: LONG },
  ],
  [
    "$length($string([1..20].($$.a)))",
    "bound of a text",
    "more than a million characters",
    { a: "x".repeat(60_000) },
  ],
  ["$count([1..20001])", "bound of a list", "a list that is too long"],
  [
    "$count($split(a, ''))",
    "bound of a list",
    "more than 20000 members",
    { a: "x".repeat(20_001) },
  ],
  [
    "($f := $append(?, ?); $count($f([1..20000], 1)))",
    "bound of a list",
    "more than 20000 members",
  ],
  ["[1..20000].[1, 2, 3, 4, 5]", "bound of a result", "too large"],
  [
    "($f := function($n) { $n = 0 ? 0 : 1 + $f($n - 1) }; $f(300))",
    "bound of the depth",
    "calls itself too deeply",
  ],
  [
    "$length($formatNumber(1, a))",
    "bound of a picture",
    "a picture of more than 1000",
    { a: `#0${LONG}` },
  ],
  [
    "$toMillis(a, '[Y]x')",
    "bound of a text that is read by a picture",
    "more than 200 characters by a picture",
    { a: "1".repeat(201) },
  ],
  [
    "$toMillis(a)",
    "a time that no calendar has is no time",
    "missing",
    { a: "2024-19-39T10:00:00Z" },
  ],
  ["$toMillis(a)", "a day that no month has is no time", "missing", { a: "2024-02-30T10:00:00Z" }],
  ["$toMillis('2024-02-29T12:30:15')", "the zone of the machine says nothing", "1709209815000"],
  [
    "$fromMillis(0, '[H01]:[m01] [Z]', '+05:30')",
    "JSONata's own reads hours before a colon as minutes",
    '"05:30 +05:30"',
  ],
  [
    "$fromMillis(0, '[H01]:[m01] [Z]', '-0330')",
    "JSONata's own rounds hours down, and adds an hour below zero",
    '"20:30 -03:30"',
  ],
  ["$now('[H01]', 'Europe/Berlin')", "JSONata's own writes `NaN`", 'no offset such as "+0200"'],
  ["$sum", "a function is no JSON", "missing"],
];

describe("what differs from the package", () => {
  it.each(DIFFERENCES)("%s: %s", async (source, _reason, given, payload = {}) => {
    const scope = scopeOf(payload);
    // A function is the one value that `render` leaves out.
    const [own, other] = [
      await ours(source)(scope),
      source === "$sum" ? "a function" : await theirs(source)(scope),
    ];
    expect(own).toContain(given);
    expect(own).not.toBe(other);
  });
});
