import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentsWorld, type DocumentsWorld } from "../platform/documents.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { FORMS } from "./forms.ts";

/** Questions that do not find their passage first: one stem is too short, the others have a word in common with a passage in a related language. */
const MISSED = ["płatność faktury", "psom", "placení faktur"];

const PAIRS = Object.entries(FORMS).map(([language, pairs]) => ({
  language,
  asked: pairs.flatMap(([passage, ...questions]) =>
    questions.map((question) => ({ question, passage })),
  ),
}));

function testForms(open: () => Promise<{ world: DocumentsWorld; close(): Promise<void> }>): void {
  let opened: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    opened = await open();
    const passages = Object.values(FORMS).flatMap((pairs) => pairs.map(([passage]) => passage));
    await Promise.all(
      passages.map((passage, index) => opened.world.index(`${index}.txt`, passage)),
    );
  });
  afterAll(() => opened.close());

  it.each(PAIRS)("of $language words find the passage first", async ({ asked }) => {
    const missed: string[] = [];
    for (const { question, passage } of asked) {
      const [first] = await opened.world.search(question);
      if (first !== passage) missed.push(question);
    }
    expect(missed).toEqual(
      asked.map(({ question }) => question).filter((question) => MISSED.includes(question)),
    );
  });
}

describe("other forms, in a file", () =>
  testForms(async () => {
    const world = await documentsWorld();
    return { world, close: () => world.close() };
  }));

describePostgres("other forms, in PostgreSQL", () =>
  testForms(async () => {
    const schema = newSchema();
    const world = await documentsWorld({ config: { store: { url: schema.url } } });
    return { world, close: () => world.close().then(() => schema.drop()) };
  }),
);
