import { afterAll, beforeAll, expect, it } from "vitest";
import { documentsWorld, type DocumentsWorld } from "../platform/documents.ts";
import { FORMS } from "./forms.ts";

/** Questions that do not find their passage first: these have a word in common with a passage in a related language. */
const MISSED = ["płatność faktury", "placení faktur"];

const PAIRS = Object.entries(FORMS).map(([language, pairs]) => ({
  language,
  asked: pairs.flatMap(([passage, ...questions]) =>
    questions.map((question) => ({ question, passage })),
  ),
}));

let world: DocumentsWorld;
beforeAll(async () => {
  world = await documentsWorld();
  const passages = Object.values(FORMS).flatMap((pairs) => pairs.map(([passage]) => passage));
  await Promise.all(passages.map((passage, index) => world.index(`${index}.txt`, passage)));
});
afterAll(() => world.close());

it.each(PAIRS)("other forms of $language words find the passage first", async ({ asked }) => {
  const missed: string[] = [];
  for (const { question, passage } of asked) {
    const [first] = await world.search(question);
    if (first !== passage) missed.push(question);
  }
  expect(missed).toEqual(
    asked.map(({ question }) => question).filter((question) => MISSED.includes(question)),
  );
});
