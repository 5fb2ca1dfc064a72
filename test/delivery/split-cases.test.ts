import { describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/split.ts";

const words = (count: number, word = "word"): string => `${word} `.repeat(count).trim();

describe("a piece ends inside", () => {
  it.each<[string, string, number, string[]]>([
    [
      "code in a line, which is code on both sides",
      `run \`${words(8, "npm i")}\` now`,
      40,
      ["run `npm i npm i npm i npm i npm i npm`", "`i npm i npm i` now"],
    ],
    [
      "a link, which leads there from both sides",
      `see [${words(12)}](https://a.example) now`,
      60,
      [
        "see [word word word word word word word](https://a.example)",
        "[word word word word word](https://a.example) now",
      ],
    ],
    [
      "bold in italic text",
      `*a **${words(8)}** b*`,
      30,
      ["*a __word word word word__*", "*__word word word word__ b*"],
    ],
    [
      "a heading, whose rest is one too",
      `## ${words(8)}\n\nText`,
      30,
      ["## word word word word word", "## word word word\n\nText"],
    ],
    [
      "an item, and the next one is an item with its number",
      `1. ${words(8)}\n1. b\n1. c`,
      30,
      ["1. word word word word word", "word word word\n\n2. b\n3. c"],
    ],
    [
      "nested items, which are no code where their parents are missing",
      `- a\n  - ${words(4)}\n    - ${words(4)}\n    - c`,
      30,
      ["- a\n  - word word word word", "- word word word word\n- c"],
    ],
    [
      "a quote",
      `> ${words(8)}\n> more`,
      30,
      ["> word word word word word", "> word word word\n> more"],
    ],
    [
      "a table, whose head stands in each piece",
      `| a | b |\n|--|--|\n${"| 1 | 2 |\n".repeat(5)}`,
      50,
      [
        "| a | b |\n| - | - |\n| 1 | 2 |\n| 1 | 2 |\n| 1 | 2 |",
        "| a | b |\n| - | - |\n| 1 | 2 |\n| 1 | 2 |",
      ],
    ],
    [
      "a cell",
      `| a | b |\n|--|--|\n| **${words(8)}** | 2 |`,
      60,
      [
        "| a | b |\n| - | - |\n| **word word word word word word** |",
        "| a | b |\n| - | - |\n| **word word** | 2 |",
      ],
    ],
    ...[
      "\\- a",
      "\\+ a",
      "\\# a",
      "\\> a",
      "2\\. a",
      "2\\) a",
      "\\<div> a",
      "\\[a]: b",
      "\\---",
    ].map((shown): [string, string, number, string[]] => [
      `words before what would begin a block: ${shown}`,
      `${words(5)} ${shown.replace("\\", "")}`,
      25,
      [words(5), shown],
    ]),
  ])("%s", (_what, text, limit, pieces) => {
    expect(splitText(text, limit)).toEqual(pieces);
  });
});

describe("a piece ends in no", () => {
  it.each<[string, string]>([
    ["escaped sign", "\\*"],
    ["emoji of several characters", "👩‍👩‍👧‍👦"],
    ["flag", "🇩🇪"],
    ["combined letter", "e\u0301\u0302"],
    ["HTML tag", "<b class=x>"],
    ["address", "https://a.example/x"],
  ])("%s", (_what, unit) => {
    for (let before = 20; before < 45; before++) {
      const text = `${"x".repeat(before)} ${unit}${"y".repeat(30)}`;
      expect(
        splitText(text, 45).some((piece) => piece.includes(unit)),
        `${before}`,
      ).toBe(true);
    }
  });
});

it("a long row of flags is cut between flags, wherever it begins", () => {
  for (let before = 0; before < 4; before++) {
    const pieces = splitText("x".repeat(before) + "🇩🇪".repeat(300), 500);
    expect(pieces.filter((piece) => !/^x*(?:🇩🇪)+$/u.test(piece))).toEqual([]);
  }
});

it("a link by reference has its address in every piece, and its definition is not left over", () => {
  const text = `[a][r] ${words(8)}\n\n[b][r] ![c][r] [r]\n\n[r]: https://a.example/x "T"`;
  expect(splitText(text, 60)).toEqual([
    '[a](https://a.example/x "T") word word word word word word',
    'word word\n\n[b](https://a.example/x "T")',
    '![c](https://a.example/x "T") [r](https://a.example/x "T")',
  ]);
});

it("a link by reference has its address although code is cut behind it, and an unused definition stays", () => {
  const text = `see [a][r]\n\n\`\`\`\n${"line\n".repeat(800)}\`\`\`\n\n[r]: https://a.example\n\n[u]: https://b.example`;
  const pieces = splitText(text, 300);
  expect(pieces[0]).toMatch(/^see \[a\]\(https:\/\/a\.example\)/);
  expect(pieces.at(-1)).toMatch(/(?<!\[r\]:.*)\[u\]: https:\/\/b\.example$/s);
});
