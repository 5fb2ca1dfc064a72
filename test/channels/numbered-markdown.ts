import fc from "fast-check";

const inline = fc.constantFrom(
  "§",
  "**§ _§_ §**",
  "*§*",
  "~~§~~",
  "`§`",
  "[§](https://a.example/§_(x))",
  "![§](https://a.example/§.png)",
  "<https://a.example/§>",
  "日本§語",
  "👩‍👩‍👧‍👦 **§👍**",
  "שלום §",
  "<b>§</b>",
  "1 < § && § > 2",
  "\\*§\\*",
);
/** Cells that are narrow enough for a table in columns. A wider table becomes cards, with its words in another order. */
const cell = fc.constantFrom("§", "**§**", "~~§~~", "`§`", "1 < §", "日本§語");
const line = fc.array(inline, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(" "));
const block = fc.oneof(
  line,
  line.map((text) => `## ${text}`),
  line.map((text) => `> ${text}\n>\n> - ${text}`),
  fc.tuple(line, line, line).map(([a, b, c]) => `- ${a}\n- [x] ${b}\n  1. ${c}\n\n     ${a}`),
  fc.tuple(cell, cell).map(([a, b]) => `| ${a} | § |\n|---|--:|\n| § | ${b} |`),
  fc.constant("```ts\n  § {\n\n    §\n```"),
  fc.constant("---"),
  fc.constant("[§][r]\n\n[r]: https://a.example/§"),
  fc.constant("[§][elsewhere]\n\n[unused]: https://a.example/§"),
);

/** Markdown in which `w0`, `w1`, … stand one after the other, wherever text can stand. */
export const numbered: fc.Arbitrary<{ markdown: string; count: number }> = fc
  .array(block, { minLength: 1, maxLength: 6 })
  .map((blocks) => {
    let count = 0;
    const markdown = blocks
      .map((text, index) => text.replaceAll(/\[(r|unused)\]/g, `[$1${index}]`))
      .join("\n\n")
      .replaceAll("§", () => `w${count++}.`);
    return { markdown, count };
  });

/** The numbers in the order in which they stand in a text. */
export const numbersOf = (text: string): number[] =>
  [...text.matchAll(/w(\d+)\./g)].map((match) => Number(match[1]));
