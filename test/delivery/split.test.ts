import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import { expectProportional } from "../growth.ts";

const FENCE = /^[ \t>]*(?:`{3,}|~{3,}).*$/;

/** The characters that must all arrive: without white space, escapes, and lines that are fences. */
function essence(text: string): string {
  return text
    .split("\n")
    .filter((line) => !FENCE.test(line))
    .join("")
    .replace(/[\s\\]+/g, "");
}

/** True if a piece closes every fence that it opens. */
function balanced(piece: string): boolean {
  let open: string | undefined;
  for (const line of piece.split("\n")) {
    const marker = /^[ \t>]*(`{3,}|~{3,})/.exec(line)?.[1];
    if (marker === undefined) continue;
    if (open === undefined) open = marker;
    else if (marker[0] === open[0] && marker.length >= open.length && line.trim() === marker)
      open = undefined;
  }
  return open === undefined;
}

const LONE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

const word = fc.stringMatching(/^[a-zA-Z0-9,.!?äßé。]{1,14}$/);
const prose = fc
  .array(
    fc.oneof(
      word,
      fc.constantFrom("👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "日本語のテキスト。", "[a link](https://a.example/b)"),
    ),
    {
      minLength: 1,
      maxLength: 30,
    },
  )
  .map((words) => words.join(" "));
const codeLine = fc.stringMatching(/^[a-z(){};= ]{0,40}$/);
const code = fc
  .tuple(
    fc.constantFrom("```", "````", "~~~"),
    fc.constantFrom("", "ts", "python"),
    fc.array(codeLine, { minLength: 1, maxLength: 12 }),
  )
  .map(([marker, info, lines]) => `${marker}${info}\n${lines.join("\n")}\n${marker}`);
const document = fc
  .array(fc.oneof(prose, prose, code, fc.constantFrom("# Heading", "", "- item\n  - nested")), {
    minLength: 1,
    maxLength: 12,
  })
  .map((blocks) => blocks.join("\n\n"));

describe("splitText, for every text", () => {
  it("keeps every piece within the limit, loses no text, and closes every fence in the piece that opens it", () => {
    fc.assert(
      fc.property(document, fc.integer({ min: 20, max: 400 }), (text, limit) => {
        const pieces = splitText(text, limit);
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(limit);
        for (const piece of pieces) expect(piece.trim()).not.toBe("");
        expect(pieces.map(essence).join("")).toBe(essence(text));
        expect(pieces.filter((piece) => !balanced(piece))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it("cuts no surrogate pair and ends on any input", () => {
    const anything = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.string({
        unit: fc.constantFrom("`", "~", "\n", " ", "a", "👍", "\u0301", ">", "-", "\r"),
        maxLength: 300,
      }),
    );
    fc.assert(
      fc.property(anything, fc.integer({ min: 20, max: 60 }), (text, limit) => {
        fc.pre(!LONE.test(text));
        const pieces = splitText(text, limit);
        expect(
          pieces.filter((piece) => piece.length > limit || piece.trim() === "" || LONE.test(piece)),
        ).toEqual([]);
        expect(pieces.map(essence).join("").length).toBeLessThanOrEqual(essence(text).length);
      }),
      { numRuns: 500 },
    );
  });

  it("cuts no grapheme that fits", () => {
    const unit = fc.constantFrom("👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "a", "한", "नि");
    const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
    const list = (text: string): string[] =>
      [...graphemes.segment(text)].map((part) => part.segment);
    fc.assert(
      fc.property(
        fc.string({ unit, minLength: 10, maxLength: 200 }),
        fc.integer({ min: 20, max: 60 }),
        (text, limit) => {
          expect(splitText(text, limit).flatMap(list)).toEqual(list(text));
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe("splitText", () => {
  it("leaves a text that fits as it is, and makes nothing of a blank one", () => {
    expect(splitText("  a\n\nb  ", 20)).toEqual(["  a\n\nb  "]);
    expect(splitText(" \n\n ", 20)).toEqual([]);
    expect(splitText(" ".repeat(50), 20)).toEqual([]);
  });

  it("breaks between paragraphs before lines, lines before sentences, sentences before words", () => {
    expect(splitText("one two three\n\nfour five six seven", 24)).toEqual([
      "one two three",
      "four five six seven",
    ]);
    expect(splitText("one two three\n\nfour\nfive six seven eight", 25)).toEqual([
      "one two three",
      "four\nfive six seven eight",
    ]);
    expect(splitText("one two three\nfour. five six seven", 24)).toEqual([
      "one two three",
      "four. five six seven",
    ]);
    expect(splitText("One two three. Four five six seven", 24)).toEqual([
      "One two three.",
      "Four five six seven",
    ]);
    expect(splitText("one two three four five six seven", 20)).toEqual([
      "one two three four",
      "five six seven",
    ]);
    expect(splitText("x".repeat(45), 20)).toEqual(["x".repeat(20), "x".repeat(20), "x".repeat(5)]);
  });

  it("does not end a piece early for a better kind of break", () => {
    const [first = ""] = splitText(`Hi.\n\n${"word ".repeat(40)}`, 100);
    expect(first.length).toBeGreaterThan(90);
  });

  it("closes code at a break and opens it again with its info string", () => {
    const text = `\`\`\`ts\n${Array.from({ length: 6 }, (_, i) => `const value${i} = ${i};`).join("\n")}\n\`\`\``;
    expect(splitText(text, 60)).toEqual([
      "```ts\nconst value0 = 0;\nconst value1 = 1;\n```",
      "```ts\nconst value2 = 2;\nconst value3 = 3;\n```",
      "```ts\nconst value4 = 4;\nconst value5 = 5;\n```",
    ]);
  });

  it("keeps code that fits into one piece whole", () => {
    const code = "```\nfirst line\nsecond line\n```";
    expect(splitText(`Look at this:\n${code}\nThat was all of it.`, 40)).toEqual([
      "Look at this:",
      code,
      "That was all of it.",
    ]);
  });

  it("keeps indentation, blank lines and list marks of code", () => {
    const text = `- \`\`\`py\n  if a:\n\n      b()\n${"  c()\n".repeat(8)}  \`\`\`\n- next`;
    const pieces = splitText(text, 50);
    expect(pieces[0]).toBe("- ```py\n  if a:\n\n      b()\n  c()\n  c()\n  c()\n  ```");
    expect(pieces[1]).toMatch(/^```py\nc\(\)\n/);
    expect(pieces.at(-1)).toMatch(/```\n\n- next$/);
  });

  it("knows a fence that stands inside another", () => {
    const text = "````md\n```js\nfirst()\nsecond()\n```\n~~~\nthird, more text\n````";
    expect(splitText(text, 44)).toEqual([
      "````md\n```js\nfirst()\nsecond()\n```\n~~~\n````",
      "```md\nthird, more text\n```",
    ]);
  });

  it("repeats a short fence where the info string is too long, and treats code like text where even that is too long", () => {
    const long = `\`\`\`${"x".repeat(30)}\n${"code line\n".repeat(10)}\`\`\``;
    expect(splitText(long, 50)[1]).toMatch(/^```\ncode line\n/);
    const huge = `${"`".repeat(40)}\n${"code line\n".repeat(10)}${"`".repeat(40)}`;
    expect(splitText(huge, 50).every((piece) => piece.length <= 50)).toBe(true);
  });

  it("does not break a link that fits", () => {
    const link = "[the whole report of it](https://a.example/report/42)";
    expect(splitText(`Some words stand before ${link} and after.`, 60)).toEqual([
      "Some words stand before",
      `${link} and`,
      "after.",
    ]);
    const pieces = splitText(`[${"a long name ".repeat(10)}](https://a.example)`, 40);
    expect(pieces.join(" ").replace(/\s+/g, " ")).toContain("a long name");
  });

  it("takes time in proportion to the length of hostile texts", async () => {
    for (const unit of ["[", "](", "`", "```\n", ".*", "- ", "a\u0301", "\n", " a", "[a](b "])
      await expectProportional(
        (length) => splitText(unit.repeat(length / unit.length), 4096),
        5_000,
        unit,
      );
  });
});
