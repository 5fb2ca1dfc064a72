/** Generates calls of JSONata's functions: every function, by kinds of argument, number of arguments and way of calling. */

/** A source and the names of the values that stand for `a`, `b` and `c` in it. */
export interface Call {
  source: string;
  kinds: readonly string[];
}

/** Every function of JSONata's documentation but `$eval`, `$random` and `$shuffle`. */
export const FUNCTIONS = [
  "string length substring substringBefore substringAfter uppercase lowercase trim pad contains split join match replace",
  "base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent decodeUrl",
  "number abs floor ceil round power sqrt formatNumber formatBase formatInteger parseInteger sum max min average",
  "boolean not exists count append sort reverse distinct zip keys lookup spread merge sift each error assert type clone",
  "now millis fromMillis toMillis map filter single reduce",
].flatMap((line) => line.split(" "));

export const NOW = Date.UTC(2024, 1, 29, 12, 30, 15, 250);

/** Values by kind. Texts that only a payload has hold "wörld", so that a message which quotes one is found. */
export const VALUES: Record<string, unknown> = {
  missing: undefined,
  null: null,
  text: "Hello, wörld  llo ",
  empty: "",
  letter: "l",
  pairs: "😀l👍l",
  digits: "42",
  references: "<$1|$2|$12|$13|$0|$$|$x|$>",
  picture: "#,##0.00",
  date: "2024-02-29T12:30:00.000Z",
  number: 3,
  zero: 0,
  negative: -2,
  fraction: 2.5,
  sum: 0.1 + 0.2,
  true: true,
  false: false,
  numbers: [3, 1, 2, 1],
  texts: ["b", "wörld", "b"],
  mixed: [1, "1", true, null, { a: 1 }, { a: 1 }, [1], [1], 1],
  "empty list": [],
  nested: [[1, 2], [3], [1, 2], []],
  singleton: ["only"],
  object: { b: "x", a: 1, c: null },
  objects: [{ a: 1, b: "x" }, { c: [2] }, { b: "x", a: 1 }],
  "empty object": {},
};
const ALL = Object.keys(VALUES);
const SOME = [
  "missing",
  "null",
  "text",
  "references",
  "number",
  "negative",
  "texts",
  "objects",
  "object",
];
const FEW = ["missing", "text", "letter", "number", "negative"];
const THREE = ["missing", "text", "number"];

/** Values that are not JSON: built-in functions, functions of the expression's own, regular expressions, and values that hold them. */
const FUNCTION_VALUES = [
  "$uppercase",
  "$substring(?, 1)",
  "function($x) { $x }",
  "function($x, $y) { $x > $y }",
  "function($x, $i, $all) { $i & $string($all) }",
  "/l+/",
  "/(L)(x)?(l|o)?/i",
  "/(h)?(e)?(l)?(l)?(o)?(,)?( )?(w)?(ö)?(r)?(l)?(d)/",
  "/x*/",
  "{'f': function($x) { $x }, 'g': [$uppercase, /l/]}",
  "[function($x) { $x }, $uppercase]",
];

/** Ways of calling `$f`, with the kinds that its arguments `a`, `b` and `c` go through. `V` is a value that is no JSON. */
const WAYS: readonly [ways: readonly string[], kinds: readonly (readonly string[])[]][] = [
  [["$f()", "$string($f)", "$type($f)", "{'f': $f}", "$f($f)", "$f(V)"], []],
  [
    ["$f(a)", "a.$f()", "a ~> $f", "($p := $f(?); $p(a))", "($g := $f; $g(a))", "$map(a, $f)"],
    [ALL],
  ],
  [
    [
      "($g := $f ~> $type; $g(a))",
      "a ~> $f ~> $string",
      "($p := $f(a, ?); $p())",
      "($p := $f(?, ?); $p(a))",
    ],
    [SOME],
  ],
  [
    [
      "$filter(a, $f)",
      "$single(a, $f)",
      "$reduce(a, $f)",
      "$each(a, $f)",
      "$sift(a, $f)",
      "$sort(a, $f)",
    ],
    [SOME],
  ],
  [
    [
      "$map(a, $f(?, 1))",
      "$map(a, function($v) { $f($v) })",
      "a[$f()]",
      "a^($f())",
      "$replace(a, /l/, $f)",
    ],
    [SOME],
  ],
  [
    ["$contains(a, $f)", "[a].{'v': $f(v)}", "$f(V, a)", "a ~> $f(V)", "($p := $f(?, V); $p(a))"],
    [FEW],
  ],
  [["$f(a, V)"], [SOME]],
  [["$f(a, V, b)"], [["text"], [...FEW, "references"]]],
  [["$f(a, b)"], [ALL, FEW]],
  [
    ["a.$f(b)", "a ~> $f(b)", "($p := $f(?, b); $p(a))", "$reduce(a, $f, b)", "$map(a, $f(?, b))"],
    [FEW, THREE],
  ],
  [["$f(a, b, c)"], [FEW, THREE, FEW]],
  [
    ["a ~> $f(b, c)", "($p := $f(?, ?, c); $p(a, b))", "($p := $f(a, ?, c); $p(b))"],
    [["text", "missing"], THREE, THREE],
  ],
  [
    ["$f(a, b, c, 1)", "$f(a, b, c, -1)", "$f(a, /(l)(x)?/, b, c)"],
    [["text"], FEW, FEW],
  ],
];

function* combinations(kinds: readonly (readonly string[])[]): Generator<string[]> {
  const [first, ...others] = kinds;
  if (!first) yield [];
  else for (const name of first) for (const rest of combinations(others)) yield [name, ...rest];
}

/** Generates every call of one function. Calls with the same source follow each other. */
export function* callsOf(name: string): Generator<Call> {
  for (const [ways, kinds] of WAYS)
    for (const way of ways)
      for (const value of way.includes("V") ? FUNCTION_VALUES : [""]) {
        const source = way.replace(/\$f\b/g, () => `$${name}`).replace("V", () => value);
        for (const chosen of combinations(kinds)) yield { source, kinds: chosen };
      }
}
