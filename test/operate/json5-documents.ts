import fc from "fast-check";

/** The layout of one JSON5 document. */
interface Layout {
  eol: string;
  indent: string;
  bom: string;
}

/** White space of JSON5, without line breaks. */
const SPACES = ["", " ", "\t", "  ", "\u00a0", "\ufeff", "\u2003", "\u000b"];
const BREAKS = ["\u2028", "\u2029"];
/** Comments with what a simple reader takes for the end of something. */
const COMMENTS = [
  " , ] } ",
  ' "',
  " it's",
  " [{",
  " \\",
  " // ",
  " mappings: [",
  " /* ",
  " é 日本 🚀",
];

const spaces = (layout: Layout): fc.Arbitrary<string> => {
  const comment = fc.constantFrom(...COMMENTS);
  const piece = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...SPACES) },
    {
      weight: 3,
      arbitrary: fc.constantFrom(layout.eol, `${layout.eol}${layout.indent}`, ...BREAKS),
    },
    { weight: 2, arbitrary: comment.map((text) => `/*${text}*/`) },
    { weight: 1, arbitrary: comment.map((text) => `/*${text}${layout.eol}*/`) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(comment, fc.constantFrom(layout.eol, "\u2028", "\u2029"))
        .map(([text, end]) => `//${text}${end}`),
    },
  );
  return fc.array(piece, { maxLength: 3 }).map((pieces) => pieces.join(""));
};

const CHARACTERS = [
  "a",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "//",
  "/*",
  "*/",
  " ",
  "é",
  "🚀",
  "\u2028",
  "\u2029",
  "{{x}}",
  "\\n",
  "\\u0041",
  "\\x41",
  "\\\\",
  "\\0",
];

/** A string between quotes, with escapes, line continuations and separators that JSON5 allows there. */
const string = ({ eol }: Layout): fc.Arbitrary<string> =>
  fc.constantFrom('"', "'").chain((quote) =>
    fc
      .array(
        fc.constantFrom(
          ...CHARACTERS,
          quote === '"' ? "'" : '"',
          `\\${quote}`,
          `\\${eol}`,
          `\\${eol}  `,
          "\\\u2028",
        ),
        {
          maxLength: 6,
        },
      )
      .map((characters) => `${quote}${characters.join("")}${quote}`),
  );

const NUMBERS = ["0", "-1", "+2", ".5", "5.", "0xDEADbeef", "1e3", "-Infinity", "Infinity"];
const KEYS = [
  "a",
  "$b",
  "_c",
  "ünï",
  "\\u0064",
  "'e f'",
  '"g"',
  "'h\\\n'",
  "null",
  "if",
  "'//'",
  "'mappings'",
];

const key = fc.constantFrom(...KEYS);

/** A value of JSON5 in any spelling. */
const value = (layout: Layout, depth: number): fc.Arbitrary<string> => {
  const plain = fc.oneof(string(layout), fc.constantFrom(...NUMBERS, "true", "false", "null"));
  if (depth === 0) return plain;
  const inner = value(layout, depth - 1);
  return fc.oneof(
    { weight: 3, arbitrary: plain },
    object(
      layout,
      fc.uniqueArray(fc.tuple(key, inner), { maxLength: 3, selector: ([name]) => name }),
    ),
    list(layout, fc.array(inner, { maxLength: 3 })),
  );
};

const between = (
  parts: readonly string[],
  gaps: readonly string[],
  [open, close]: readonly [string, string],
  trailing: boolean,
): string => {
  let text = open;
  parts.forEach((part, index) => {
    text += `${gaps[index * 2] ?? ""}${part}${gaps[index * 2 + 1] ?? ""}`;
    if (index < parts.length - 1 || trailing) text += ",";
  });
  return `${text}${gaps.at(-1) ?? ""}${close}`;
};

const gapsFor = (layout: Layout, count: number): fc.Arbitrary<string[]> =>
  fc.array(spaces(layout), { minLength: count, maxLength: count });

function list(layout: Layout, parts: fc.Arbitrary<string[]>): fc.Arbitrary<string> {
  return parts.chain((texts) =>
    fc
      .tuple(gapsFor(layout, texts.length * 2 + 1), fc.boolean())
      .map(([gaps, trailing]) => between(texts, gaps, ["[", "]"], trailing && texts.length > 0)),
  );
}

function object(layout: Layout, members: fc.Arbitrary<[string, string][]>): fc.Arbitrary<string> {
  return members.chain((pairs) =>
    fc
      .tuple(gapsFor(layout, pairs.length * 2 + 1), gapsFor(layout, pairs.length * 2), fc.boolean())
      .map(([gaps, inner, trailing]) => {
        const parts = pairs.map(
          ([name, text], index) => `${name}${inner[index * 2]}:${inner[index * 2 + 1]}${text}`,
        );
        return between(parts, gaps, ["{", "}"], trailing && pairs.length > 0);
      }),
  );
}

const layout: fc.Arbitrary<Layout> = fc.record({
  eol: fc.constantFrom("\n", "\r\n", "\r"),
  indent: fc.constantFrom("  ", "\t", "    "),
  bom: fc.constantFrom("", "\ufeff"),
});

const mapping = (given: Layout, id: string): fc.Arbitrary<string> =>
  fc.array(fc.tuple(key, value(given, 2)), { maxLength: 3 }).chain((members) => {
    const own = members.filter(
      ([name], index) => members.findIndex(([other]) => other === name) === index,
    );
    return fc
      .nat(own.length)
      .chain((at) => object(given, fc.constant(own.toSpliced(at, 0, ["id", `'${id}'`]))));
  });

const named = (
  given: Layout,
  name: string,
  text: fc.Arbitrary<string>,
  other: fc.Arbitrary<[string, string][]>,
): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom(
        name,
        `'${name}'`,
        `"${name}"`,
        `\\u${name.charCodeAt(0).toString(16).padStart(4, "0")}${name.slice(1)}`,
      ),
      text,
      other,
    )
    .chain(([spelt, written, members]) => {
      const own = members.filter(
        ([one], index) =>
          !one.includes(name) && members.findIndex(([another]) => another === one) === index,
      );
      return fc
        .nat(own.length)
        .chain((at) => object(given, fc.constant(own.toSpliced(at, 0, [spelt, written]))));
    });

/** A JSON5 text with mappings `m0`, `m1`, …, of a config or of a mapping file, and a mapping to put into it. */
export interface GeneratedDocument {
  text: string;
  home: "config" | "mappings";
  count: number;
  /** A mapping with the id `new`. */
  mapping: string;
}

/** Generates documents by hand: all that JSON5 allows, in any layout. */
export const documents: fc.Arbitrary<GeneratedDocument> = fc
  .tuple(layout, fc.nat(3), fc.constantFrom("config" as const, "mappings" as const), layout)
  .chain(([given, count, home, others]) => {
    const mappings = Array.from({ length: count }, (_, index) => mapping(given, `m${index}`));
    const members = fc.array(fc.tuple(key, value(given, 1)), { maxLength: 2 });
    const file = named(
      given,
      "mappings",
      list(given, mappings.length === 0 ? fc.constant([]) : fc.tuple(...mappings)),
      members,
    );
    const whole = home === "mappings" ? file : named(given, "hooks", file, members);
    return fc
      .tuple(spaces(given), whole, spaces(given), mapping(others, "new"))
      .map(([before, root, after, added]) => ({
        text: `${given.bom}${before}${root}${after}`,
        home,
        count,
        mapping: added,
      }));
  });
