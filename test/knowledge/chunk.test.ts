import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SEPARATOR, splitChunks, type TextBlock } from "../../src/knowledge/chunk.ts";
import { DocumentTokenizer, readQuestion } from "../../src/knowledge/words/tokenize.ts";
import { countTokens } from "../../src/knowledge/words/tokens.ts";

const terms = (text: string) => readQuestion(text, ["en"]).terms;
const text = (content: string, page?: number): TextBlock => ({
  kind: "text",
  text: content,
  ...(page === undefined ? {} : { page }),
});
const heading = (content: string, level = 1): TextBlock => ({
  kind: "heading",
  text: content,
  level,
});
const row = (content: string, header?: string): TextBlock => ({
  kind: "row",
  text: content,
  ...(header === undefined ? {} : { header }),
});
const sentences = (count: number, from = 0): string =>
  Array.from(
    { length: count },
    (_, index) => `Sentence number ${from + index} says that the tide comes in twice a day.`,
  ).join(" ");

describe("chunks", () => {
  it("have 350 to 500 tokens, and begin with the last sentence of the one before", () => {
    const chunks = [...splitChunks([text(sentences(200))])];
    expect(chunks.length).toBeGreaterThan(4);
    for (const chunk of chunks.slice(0, -1)) {
      expect(countTokens(chunk.text)).toBeGreaterThanOrEqual(350);
      expect(countTokens(chunk.text)).toBeLessThanOrEqual(500);
    }
    for (const [index, chunk] of chunks.slice(1).entries()) {
      const first = /^Sentence number (\d+) /.exec(chunk.text)?.[1];
      const last = [...(chunks[index]?.text ?? "").matchAll(/Sentence number (\d+) /g)].at(-1)?.[1];
      expect(first).toBe(last);
    }
  });

  it("the same in Chinese", () => {
    const chinese = Array.from(
      { length: 120 },
      (_, index) => `第${index}句话说潮水每天来两次，港口的船都知道。`,
    ).join("");
    const chunks = [...splitChunks([text(chinese)])];
    expect(chunks.length).toBeGreaterThan(4);
    for (const { text: own } of chunks) {
      expect(countTokens(own)).toBeLessThanOrEqual(500);
      expect(own.endsWith("。")).toBe(true);
    }
  });

  it("end at a heading, which goes with what follows", () => {
    const chunks = [
      ...splitChunks([heading("One"), text(sentences(20)), heading("Two", 2), text(sentences(20))]),
    ];
    expect(chunks.map((chunk) => [chunk.headings, chunk.text.split("\n")[0]])).toEqual([
      [["One"], "One"],
      [["One", "Two"], "Two"],
    ]);
  });

  it("short sections share one", () => {
    const chunks = [
      ...splitChunks([heading("One"), text("Short."), heading("Two"), text("Also short.")]),
    ];
    expect(chunks.map((chunk) => chunk.text)).toEqual(["One\n\nShort.\n\nTwo\n\nAlso short."]);
  });

  it("keep rows whole, under the names of their columns", () => {
    const rows = [
      row("id | name"),
      ...Array.from({ length: 200 }, (_, index) =>
        row(`${index} | The name of number ${index} is long`, "id | name"),
      ),
    ];
    const chunks = [...splitChunks(rows)];
    expect(chunks.length).toBeGreaterThan(2);
    for (const chunk of chunks)
      for (const line of chunk.text.split("\n"))
        expect(line).toMatch(/^id \| name$|^(\d+) \| The name of number \1 is long$/);
    for (const chunk of chunks) expect(chunk.text.startsWith("id | name\n")).toBe(true);
  });

  it("know the page on which they begin", () => {
    const chunks = [...splitChunks([1, 2, 3].map((page) => text(sentences(60, page * 100), page)))];
    for (const chunk of chunks)
      expect(Number(/number (\d)\d\d /.exec(chunk.text)?.[1])).toBe(chunk.page);
  });

  const block = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 3000 }).map((content) => text(content)),
    fc
      .array(
        fc.constantFrom(
          "tide. ",
          "港口。",
          "A longer sentence about ships, and more! ",
          "\n",
          "x".repeat(300),
          "👩‍🚀 ",
        ),
        {
          maxLength: 300,
        },
      )
      .map((parts) => text(parts.join(""))),
    fc.string({ maxLength: 40 }).map((content) => heading(content)),
    fc.string({ maxLength: 400 }).map((content) => row(content)),
  );

  it("lose nothing, lie where they say, and are never too long, whatever the text", () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 12 }), (blocks) => {
        const used = blocks.filter((one) => one.text.trim() !== "");
        const whole = used.map((one) => one.text).join(SEPARATOR);
        const chunks = [...splitChunks(blocks)];
        const squeeze = (content: string): string => content.replace(/\s+/g, "");
        let covered = 0;
        for (const chunk of chunks) {
          expect(squeeze(whole.slice(chunk.start, chunk.end))).toBe(squeeze(chunk.text));
          // Nothing but white space lies between two of them.
          expect(squeeze(whole.slice(covered, Math.max(covered, chunk.start)))).toBe("");
          covered = Math.max(covered, chunk.end);
          expect(countTokens(chunk.text)).toBeLessThanOrEqual(1500);
        }
        expect(squeeze(whole.slice(covered))).toBe("");
      }),
      { numRuns: 150 },
    );
  });
});

describe("words", () => {
  it.each([
    ["The Espresso-Machine, 2nd", "the espresso machin 2nd espressomachin"],
    ["港口咖啡馆", "港口 口咖 咖啡 啡馆"],
    ["A型 血", "a 型 血"],
    ["ｆｕｌｌ　ＷＩＤＴＨ ①", "full width 1"],
    ["コーヒー豆", "こー ーひ ひー ー豆"],
    ["커피 한잔", "커피 한잔"],
    ["naïve Straße", "naive strasse"],
    ["👍 — … ❤️", ""],
    ["葛󠄀城市 1️⃣ a\u200bb", "葛城 城市 1 ab"],
    ["C++17 .NET8 Müller", "cpp 17 dotnet 8 muller mueller"],
  ])("%s", (from, words) => {
    expect(new DocumentTokenizer().toIndexForm(from).words).toBe(words);
  });

  it("a question: different terms, without stop words where others are left", () => {
    expect(terms("What is the tide of the tide?").map((term) => term.text)).toEqual(["tide"]);
    expect(terms("What is this?").map((term) => term.text)).toEqual(["what", "is", "thi"]);
    expect(terms("茶")).toMatchObject([{ text: "茶", prefix: true }]);
    expect(
      terms("word ".repeat(10) + Array.from({ length: 500 }, (_, index) => `w${index}`).join(" ")),
    ).toHaveLength(64);
  });
});
