/** Mappings that attack the gateway which evaluates them, by the path of their hook. */

const double = "function($s, $n) { $n = 0 ? $s : $f($s & $s, $n - 1) }";

/** Expressions, and the payload that makes them work. */
export const EXPRESSIONS: Record<string, [expression: string, payload: object]> = {
  backtracking: ["$match(a, /^(a+)+$/)", { a: `${"a".repeat(40)}!` }],
  padding: ["$length($pad('x', 100000000))", {}],
  doubling: [`($f := ${double}; $length($f('xxxxxxxxxx', 24)))`, {}],
  recursion: ["($f := function() { $f() }; $f())", {}],
  counting: ["$count([1..1000000000])", {}],
  sequence: ["$sum([1..9000000].($ * 2))", {}],
  appending: [
    "($f := function($a, $n) { $n = 0 ? $a : $f($append($a, $a), $n - 1) }; $count($f([1,2,3], 26)))",
    {},
  ],
  serialising: [`($f := ${double}; $string([1..20000].($f('xxxxxxxxxx', 12))))`, {}],
};

/** Transforms, as the text of their modules. */
export const MODULES: Record<string, string> = {
  endless: "export default () => { for (;;); };",
  allocating:
    "export default () => { const all = []; for (;;) all.push(new Array(1e6).fill(Math.random())); };",
  exiting: "export default () => process.exit(0);",
  throwing: "export default () => { throw new Error('no'); };",
  rejecting: "export default () => Promise.reject(new Error('no'));",
  never: "export default () => new Promise(() => undefined);",
};

const hook = (path: string, more: object): object => ({
  id: path,
  match: { path },
  wakeMode: "next-heartbeat",
  deliver: false,
  ...more,
});

/** A mapping `plain` for honest hooks, and one for each attack. */
export const MAPPINGS: readonly object[] = [
  hook("plain", { messageTemplate: "{{name}} of {{place.town}}" }),
  ...Object.entries(EXPRESSIONS).map(([path, [expression]]) =>
    hook(path, { messageTemplate: `{{ ${expression} }}` }),
  ),
  ...Object.keys(MODULES).map((path) => hook(path, { transform: { module: `${path}.js` } })),
];
