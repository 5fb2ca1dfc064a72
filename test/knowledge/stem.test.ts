import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { toStem } from "../../src/knowledge/stem.ts";
import { indexWords } from "../../src/knowledge/tokenize.ts";
import { FIXTURES } from "./world.ts";

const ENDINGS = (
  "s es ed ing er est y ly ness ment ation ational tional ence ance izer alize icate iciti ical ful ous ive iveness fulness ousness " +
  "aliti iviti biliti able ible ant ement ent ion ism ate iti ize eed ies sses logi bli alli entli eli ousli ize e l ll yed ying ying"
).split(" ");
const ROOTS = "hop hopp fall fil file sky dy cry happ relat condit rat va digit oper feud formal sensit act bow y ay tr by ll ss".split(
  " ",
);
const OTHERS = ["café", "françois", "naïve", "ὀξύς", "港口", "กา", "हिन्दी", "x".repeat(65), "a1", "été"];

it("makes the stems that SQLite makes: both databases find the same", () => {
  const words = new Set([...OTHERS, ...ROOTS.flatMap((root) => ENDINGS.map((ending) => root + ending))]);
  for (const language of ["en", "zh"])
    for (const word of indexWords(readFileSync(join(FIXTURES, `corpus-${language}`, "corpus.jsonl"), "utf8")).split(" ")) words.add(word);
  const list = [...words];
  const db = new DatabaseSync(":memory:");
  db.exec(`CREATE VIRTUAL TABLE words USING fts5(body, tokenize="porter unicode61 categories 'L* N* Co M*'");
    CREATE VIRTUAL TABLE stems USING fts5vocab(words, 'instance'); BEGIN`);
  const insert = db.prepare("INSERT INTO words (rowid, body) VALUES (?, ?)");
  for (const [index, word] of list.entries()) insert.run(index, word);
  db.exec("COMMIT");
  const made = db.prepare("SELECT doc, term FROM stems").all() as { doc: number; term: string }[];
  expect(made.length).toBeGreaterThan(1500);
  expect(made.map(({ doc }) => [list[doc], toStem(list[doc] as string)])).toEqual(made.map(({ doc, term }) => [list[doc], term]));
  db.close();
});
