import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { toEntry } from "../../src/knowledge/index/postings.ts";
import { toStem } from "../../src/knowledge/stem.ts";
import { DocumentTokenizer } from "../../src/knowledge/tokenize.ts";
import { FIXTURES } from "./world.ts";

const ENDINGS = (
  "s es ed ing er est y ly ness ment ation ational tional ence ance izer alize icate iciti ical ful ous ive iveness fulness ousness " +
  "aliti iviti biliti able ible ant ement ent ion ism ate iti ize eed ies sses logi bli alli entli eli ousli ize e l ll yed ying ying"
).split(" ");
const ROOTS =
  "hop hopp fall fil file sky dy cry happ relat condit rat va digit oper feud formal sensit act bow y ay tr by ll ss".split(
    " ",
  );
const OTHERS = [
  "café",
  "françois",
  "naïve",
  "ὀξύς",
  "港口",
  "กา",
  "हिन्दी",
  "x".repeat(65),
  "a1",
  "été",
];

it("makes the stems that SQLite makes: both databases find the same", () => {
  const words = new Set([
    ...OTHERS,
    ...ROOTS.flatMap((root) => ENDINGS.map((ending) => root + ending)),
  ]);
  for (const language of ["en", "zh"])
    for (const word of new DocumentTokenizer()
      .toIndexForm(readFileSync(join(FIXTURES, `corpus-${language}`, "corpus.jsonl"), "utf8"))
      .words.split(" "))
      words.add(word);
  const made = listMade([...words]);
  expect(made.length).toBeGreaterThan(1500);
  expect(made.map(([word]) => [word, toStem(word)])).toEqual(made);
});

it("knows the entry of a word in SQLite's index, or that it does not know it", () => {
  const letters = Array.from({ length: 0xd800 }, (_, code) => String.fromCharCode(code));
  const words = letters.filter(
    (letter) => letter.normalize("NFKC").toLowerCase() === letter && toEntry(letter) !== undefined,
  );
  expect(words.length).toBeGreaterThan(30_000);
  expect(toEntry("việt")).toBeUndefined();
  const made = listMade(words.map((letter) => `x${letter}q${letter}`));
  expect(made).toHaveLength(words.length);
  expect(made.filter(([word, term]) => toEntry(word) !== term)).toEqual([]);
});

/** Words, and what SQLite makes of them. */
function listMade(words: readonly string[]): [string, string][] {
  const db = new DatabaseSync(":memory:");
  db.exec(`CREATE VIRTUAL TABLE words USING fts5(body, tokenize="porter unicode61 categories 'L* N* Co M*'");
    CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance'); BEGIN`);
  const insert = db.prepare("INSERT INTO words (rowid, body) VALUES (?, ?)");
  for (const [index, word] of words.entries()) insert.run(index, word);
  db.exec("COMMIT");
  const made = db.prepare("SELECT doc, term FROM stems").all() as { doc: number; term: string }[];
  db.close();
  return made.map(({ doc, term }) => [words[doc] as string, term]);
}
