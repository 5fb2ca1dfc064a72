import fc from "fast-check";

const word = fc.constantFrom(
  ..."the harbour opens at seven and closes late snake_case 2\\*3 a&b x<y 100% #5 C# naïve 日本語 注意 café 👩‍👩‍👧‍👦 🇩🇪 e\u0301 std::vector<int> Map<K,V> <b>x</b> AT&amp;T".split(
    " ",
  ),
);
const words = (max: number) =>
  fc.array(word, { minLength: 1, maxLength: max }).map((list) => list.join(" "));
const plain = fc
  .array(fc.constantFrom("pier", "ship", "berth", "tide", "日本", "café"), {
    minLength: 1,
    maxLength: 4,
  })
  .map((list) => list.join(" "));
const code = fc.constantFrom(
  "npm install",
  "a < b && c",
  "std::vector<int>",
  "<b>x</b>",
  "&amp;",
  "*x*",
  "snake_case",
  "if (a) { b(); }",
);
/** Emphasis in the scripts that put no space beside it, and what is bold or struck through in it. */
export const EAST_ASIAN = [
  "**注意：**请先保存。",
  "这是**“引用”**的例子。",
  "**一：**二，**三：**四",
  "**テスト。**テスト",
  "**스크립트(script)**라고",
  "~~删除。~~后面",
  "正解は**④**です。",
  "*（斜体）*也一样",
];
const inline = fc.oneof(
  { weight: 4, arbitrary: words(6) },
  plain.map((text) => `**${text}**`),
  plain.map((text) => `*${text}*`),
  plain.map((text) => `~~${text}~~`),
  plain.map((text) => `***${text}***`),
  fc.tuple(plain, plain).map(([a, b]) => `**${a} *${b}***`),
  code.map((text) => `\`${text}\``),
  plain.map((text) => `[${text}](https://a.example/x?b=1&c=2)`),
  plain.map((text) => `**[${text}](https://a.example/y)**`),
  fc.constant("https://a.example/z_1?q=2"),
  fc.constantFrom(...EAST_ASIAN),
);
const line = fc.array(inline, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(" "));
const json = fc
  .dictionary(
    fc.constantFrom("id", "html", "tags", "name"),
    fc.oneof(words(3), fc.integer(), fc.array(plain)),
    {
      minKeys: 1,
    },
  )
  .map((value) => JSON.stringify(value, null, 2));
const markup = fc
  .tuple(
    fc.constantFrom("div", "note", "p", "read_file"),
    fc.array(plain, { minLength: 1, maxLength: 3 }),
  )
  .map(
    ([tag, texts]) =>
      `<${tag} class="a">\n${texts.map((text) => `  <b>${text}</b>`).join("\n")}\n</${tag}>`,
  );
const source = fc.oneof(
  json,
  markup,
  fc.array(code, { minLength: 1, maxLength: 4 }).map((lines) => lines.join("\n")),
);
const list = fc
  .array(line, { minLength: 1, maxLength: 4 })
  .map((lines) => lines.map((text, at) => `${"  ".repeat(at % 3)}- ${text}`).join("\n"));
const numbers = fc
  .array(line, { minLength: 1, maxLength: 4 })
  .map((lines) => lines.map((text, at) => `${at + 3}. ${text}`).join("\n"));
const cell = fc.oneof(
  plain,
  plain.map((text) => `**${text}**`),
  code.map((text) => `\`${text.replaceAll("|", "")}\``),
  plain.map((text) => `[${text}](https://a.example/t)`),
);
export const table = (cells: fc.Arbitrary<string>) =>
  fc
    .array(fc.tuple(cells, cells, cells), { minLength: 1, maxLength: 4 })
    .map(
      (rows) =>
        `| Name | Zahl | 数 |\n|---|--:|:-:|\n${rows.map((row) => `| ${row.join(" | ")} |`).join("\n")}`,
    );
const narrow = table(fc.constantFrom("a", "**b**", "日本", "`c`", "12"));
const wide = table(cell).map((text) => `${text}\n| ${"a long name ".repeat(5).trim()} | 2 | 3 |`);

const paragraph = fc.oneof(
  line,
  fc.array(line, { minLength: 2, maxLength: 3 }).map((lines) => lines.join("\n")),
);
const block = fc.oneof(
  { weight: 3, arbitrary: paragraph },
  fc
    .tuple(fc.integer({ min: 1, max: 4 }), words(4))
    .map(([depth, text]) => `${"#".repeat(depth)} ${text}`),
  list,
  numbers,
  paragraph.map((text) => text.replace(/^/gm, "> ")),
  fc
    .tuple(fc.constantFrom("", "json", "html", "ts"), source)
    .map(([lang, text]) => `\`\`\`${lang}\n${text}\n\`\`\``),
  { weight: 2, arbitrary: source },
);

/** Answers as models write them, without tables. */
export const prose: fc.Arbitrary<string> = fc
  .array(block, { minLength: 1, maxLength: 6 })
  .map((blocks) => blocks.join("\n\n"));

/** Answers as models write them: markdown, code, HTML, JSON and XML. */
export const answers: fc.Arbitrary<string> = fc
  .array(fc.oneof({ weight: 6, arbitrary: block }, narrow, wide), { minLength: 1, maxLength: 6 })
  .map((blocks) => blocks.join("\n\n"));

const long = words(60);
const longPlain = fc
  .array(
    fc.constantFrom("pier", "ship", "berth!", "tide", "日本。", "café", "注意：", "👩‍👩‍👧‍👦", "🇩🇪"),
    {
      minLength: 10,
      maxLength: 60,
    },
  )
  .chain((list) => fc.constantFrom(list.join(" "), list.join("")));

/** Blocks whose forms a break has to close and to open again: what is in a form is longer than a short piece. */
const lasting = fc.oneof(
  longPlain.map((text) => `**${text}**`),
  longPlain.map((text) => `a *${text}* b`),
  longPlain.map((text) => `~~${text}~~`),
  fc.tuple(longPlain, longPlain).map(([a, b]) => `**${a} *${b}* end**`),
  longPlain.map((text) => `see \`${text}\` there`),
  longPlain.map((text) => `see \`\` ${text} \`a\` ${text} \`\` there`),
  longPlain.map((text) => `see [${text}](https://a.example/x) there`),
  longPlain.map((text) => `**a [${text}](https://a.example/x "title") b**`),
  longPlain.map((text) => `## ${text}`),
  longPlain.map((text) => `${text}\n===`),
  long.map((text) => text.replaceAll(" ", "\\\n")),
  long.map((text) => text.replaceAll(" ", " - ")),
  long.map((text) => text.replaceAll(" ", " 2. ")),
  long.map((text) => text.replaceAll(" ", " > # ")),
  long.map((text) => text.replaceAll(" ", " \\* &amp; \\_ ")),
  fc.tuple(long, longPlain).map(([a, b]) => `> ${a}\n> **${b}**\n>\n> - ${a}\n>   ${b}\n> - ${b}`),
  fc
    .tuple(long, longPlain)
    .map(([a, b]) => `- ${a}\n\n  ${b}\n\n  - **${b}**\n    1. ${a}\n    1. ${b}\n- ${a}`),
  fc.tuple(long, longPlain).map(([a, b]) => `1. ${a}\n1. **${b}**\n1. ${a}\n\n   > ${b}\n1. ${a}`),
  fc
    .tuple(long, source)
    .map(
      ([a, b]) =>
        `- ${a}\n\n  \`\`\`ts\n${b.replace(/^/gm, "  ")}\n${b.replace(/^/gm, "  ")}\n  \`\`\`\n- ${a}`,
    ),
  source.map((text) => `\`\`\`\`ts\n\`\`\`\n${text}\n${text}\n\`\`\`\n\`\`\`\``),
  source.map((text) => `${text}\n${text}`.replace(/^/gm, "    ")),
  source.map((text) => `> ~~~\n${text.replace(/^/gm, "> ")}\n> ~~~`),
  fc.tuple(longPlain, long).map(([a, b]) => `<div>\n*${a}*\n    - ${b}\n</div>`),
  longPlain.map(
    (text) => `[${text}][there] and [there]\n\n[there]: https://a.example/there "A title"`,
  ),
);

/** Long answers in which a break falls into every form. */
export const lastingForms: fc.Arbitrary<string> = fc
  .array(fc.oneof({ weight: 3, arbitrary: lasting }, block), { minLength: 1, maxLength: 5 })
  .map((blocks) => blocks.join("\n\n"));
