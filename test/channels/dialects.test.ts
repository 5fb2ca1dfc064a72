import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toTeams } from "../../plugins/msteams/format.ts";
import { toWhatsApp } from "../../plugins/whatsapp/format.ts";
import { expectProportional } from "../growth.ts";

const DIALECTS: [string, (text: string) => string][] = [
  ["whatsapp", toWhatsApp],
  ["msteams", toTeams],
];

const word = fc.stringMatching(/^[a-zA-Z0-9äé。]{1,10}$/);
const phrase = fc.oneof(
  word,
  fc.constantFrom(
    "日本語",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "2 * 3",
    "snake_case_x",
    "\\*x\\*",
    "1 < 2",
    "a & b",
    "<https://a.example/q>",
  ),
  fc
    .tuple(fc.constantFrom("**", "*", "_", "~~", "`", "***"), word)
    .map(([mark, text]) => mark + text + mark),
  fc
    .tuple(fc.constantFrom("", "!"), word, word)
    .map(([mark, text, path]) => `${mark}[${text}](https://a.example/${path}_(x))`),
);
const line = fc.array(phrase, { minLength: 1, maxLength: 8 }).map((parts) => parts.join(" "));
/** Narrow, since the words of cards stand in another order. */
const cell = fc.stringMatching(/^[a-zA-Z0-9äé。]{1,8}$/);
const table = fc
  .array(fc.tuple(cell, cell), { minLength: 1, maxLength: 4 })
  .map((rows) => `| p | q |\n|---|--:|\n${rows.map((row) => `| ${row.join(" | ")} |`).join("\n")}`);
const block = fc.oneof(
  line,
  line.map((text) => `## ${text}`),
  fc
    .array(line, { minLength: 1, maxLength: 4 })
    .map((lines) => lines.map((text, at) => `${"  ".repeat(at)}- ${text}`).join("\n")),
  fc
    .array(line, { minLength: 1, maxLength: 3 })
    .map((lines) => `\`\`\`\`\n${lines.join("\n")}\n\`\`\`\``),
  table,
  fc.oneof(line, table).map((text) => text.replace(/^/gm, "> ")),
);
const document = fc
  .array(block, { minLength: 1, maxLength: 8 })
  .map((blocks) => blocks.join("\n\n"));

/** Letters, digits and pictures: what every dialect has to carry over as it is. */
const essence = (text: string): string =>
  (text.replaceAll("&lt;", "<").match(/[\p{L}\p{N}\p{M}\p{Extended_Pictographic}]/gu) ?? []).join(
    "",
  );

describe.each(DIALECTS)("the dialect of %s, for every text", (_name, render) => {
  it("loses no word and changes no order", () => {
    fc.assert(
      fc.property(document, (text) => {
        expect(essence(render(text))).toBe(essence(text));
      }),
      { numRuns: 150 },
    );
  });

  it("ends on any input, and makes something of whatever is something", () => {
    const marks = fc.string({
      unit: fc.constantFrom(
        "`",
        "*",
        "_",
        "~",
        "|",
        "-",
        "\n",
        " ",
        "a",
        "<",
        ">",
        "[",
        "]",
        "(",
        ")",
        "!",
        "\\",
        "👍",
      ),
    });
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), marks), (text) => {
        expect(render(text).trim() === "").toBe(text.trim() === "");
      }),
      { numRuns: 300 },
    );
  });

  it("leaves as it is what is nested too deep to be read", () => {
    expect(render("> ".repeat(20_000) + "x")).toContain("x");
  });

  it("takes time in proportion to the length of hostile texts", async () => {
    for (const unit of ["*a ", "_a_", "| a ", "> ", "`a ", "[a](b) ", "<b>", "日本 ", "~~"])
      await expectProportional((length) => render(unit.repeat(length / unit.length)), 1250, unit);
  });
});
