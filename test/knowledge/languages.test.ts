import { createHash } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chunkTokens } from "../../src/knowledge/shared/terms.ts";
import { DocumentTokenizer, indexWords } from "../../src/knowledge/tokenize.ts";
import type { DocumentRecord } from "../../src/knowledge/types.ts";
import { createWorld, describeBoth, type KnowledgeWorld } from "./world.ts";

const TEXTS = {
  de: "Die Krankenhäuser der Stadt werden jeden Morgen mit frischer Wäsche beliefert. Das ist für die Patienten sehr wichtig.",
  ru: "Потерянные зонты хранятся в этом доме девяносто дней. После этого они передаются благотворительной организации.",
  ar: "تحفظ المظلات المفقودة في المكتب لمدة تسعين يوما. وبعد ذلك تقدم إلى الجمعيات الخيرية في المدينة.",
  fr: "Les chevaux du manège sont nourris le matin et le soir par les palefreniers. Ils ne sortent pas dans la cour quand il pleut.",
  tr: "Kitaplarımızın hepsi ikinci kattaki salonda durur ve bir ay için ödünç verilir. Bu süre daha sonra uzatılabilir.",
  pl: "Zgubione parasolki przechowujemy w biurze przez dziewięćdziesiąt dni. Potem są oddawane do schroniska, jeśli nikt się nie zgłosi.",
  hi: "खोई हुई छतरियाँ कार्यालय में नब्बे दिन तक रखी जाती हैं। उसके बाद वे एक संस्था को दी जाती हैं।",
  zh: "失物招领处把雨伞保存九十天。之后雨伞会捐给慈善机构。",
  en: "Umbrellas that were found are kept at the desk for ninety days. After that they are given to a charity of the town.",
};
type Code = keyof typeof TEXTS;

/** A question, and the language of the text that answers it. */
const QUESTIONS: [string, Code][] = [
  ["Krankenhaus", "de"],
  ["Wer bekommt saubere Krankenhauswäsche?", "de"],
  ["зонтик потерялся", "ru"],
  // Too short for n-grams.
  ["дом", "ru"],
  ["Сколько дней хранится потерянный зонт?", "ru"],
  ["أين المظلة؟", "ar"],
  ["كم يوم يتم حفظ مظلة مفقودة في مكتب", "ar"],
  ["cheval", "fr"],
  ["Quand nourrit-on un cheval ?", "fr"],
  ["kitap", "tr"],
  ["parasolka", "pl"],
  ["zgubiona parasolka biuro", "pl"],
  ["छतरी कितने दिन रखी जाती है", "hi"],
  ["雨伞保存多久", "zh"],
  ["How long do you keep an umbrella?", "en"],
];

describe("the language of a passage", () => {
  it.each(Object.entries(TEXTS).filter(([code]) => code !== "zh"))("%s", (code, text) => {
    expect(new DocumentTokenizer().toIndexForm(text).languages).toEqual([code]);
  });

  it("is that of the passage before if it does not tell its own", () => {
    const tokenizer = new DocumentTokenizer();
    const unknown = "Wäschelieferung Krankenhaus Nord 17";
    // Alone it has letters that English lacks: of some Latin language.
    expect(new DocumentTokenizer().toIndexForm(unknown)).toMatchObject({
      languages: ["mis"],
      grams: expect.stringMatching(/^wasc asch /),
    });
    tokenizer.toIndexForm(TEXTS.de);
    expect(tokenizer.toIndexForm(unknown).languages).toEqual(["de"]);
  });

  it("is detected for each script: the words of a quotation in another one are still found by their stems", () => {
    const form = new DocumentTokenizer().toIndexForm(
      `${TEXTS.ru} The umbrellas are kept at the desk and they are for sale.`,
    );
    expect(form.languages).toEqual(["ru", "en"]);
  });

  it("English texts and scripts without spaces have no n-grams: their index is as small as it was", () => {
    for (const text of [TEXTS.en, TEXTS.zh, "Rouse 2.0", ""])
      expect(new DocumentTokenizer().toIndexForm(text).grams).toBe("");
  });
});

describeBoth((make) => {
  describe("one tenant with documents in many languages", () => {
    let world: KnowledgeWorld;
    beforeAll(async () => {
      world = await make();
      for (const text of Object.values(TEXTS)) await world.index(text);
    });
    afterAll(() => world.close());

    it.each(QUESTIONS)("%s", async (question, code) => {
      expect((await world.found(question))[0]).toBe(TEXTS[code]);
    });

    it("an English question is not answered by passages that share only letters with it", async () => {
      expect((await world.found("ninety days at the desk")).at(0)).toBe(TEXTS.en);
    });

    it("n-grams find only what the agent may see", async () => {
      const hidden =
        "Die Krankenhausküche ist für die Patienten und das Personal da. Das ist der zweite Text.";
      await world.index(hidden, { agentIds: ["ops"] });
      await world.index(hidden, { tenant: "other" });
      expect(await world.found("Krankenhausküchen", { agentIds: ["support"] })).toEqual([TEXTS.de]);
      expect(await world.found("Krankenhausküchen", { agentIds: ["ops"] })).toEqual([
        hidden,
        TEXTS.de,
      ]);
    });

    it("n-grams that were asked for before find what came since, and not what has gone", async () => {
      expect(await world.found("Sägewerk")).toEqual([]);
      const document = await world.index(
        "Die Sägewerke an dem Fluss sind seit dem Winter nicht mehr in Betrieb.",
      );
      expect(await world.found("Sägewerk")).toHaveLength(1);
      await world.knowledge.remove("t", document.id);
      expect(await world.found("Sägewerk")).toEqual([]);
    });

    it("a deleted document leaves no n-grams", async () => {
      const before = await world.rows();
      const document = await world.index(
        "Der Leuchtturmwärter ist nicht da, und die Laterne ist aus.",
      );
      expect(await world.found("Leuchttürme")).toHaveLength(1);
      await world.knowledge.remove("t", document.id);
      expect(await world.found("Leuchttürme")).toEqual([]);
      expect(await world.rows()).toEqual(before);
    });
  });

  describe("a document that was indexed before languages were told apart", () => {
    let world: KnowledgeWorld;
    beforeAll(async () => void (world = await make()));
    afterAll(() => world.close());

    it("is found by the words that it has, and in all forms after the next start, which indexes it again", async () => {
      const { id } = await world.index(TEXTS.ru);
      await makeOld(world, TEXTS.ru);
      expect(await world.found("зонты")).toEqual([TEXTS.ru]);
      expect(await world.found("зонтик")).toEqual([]);
      await world.restart();
      await world.knowledge.wait(id, 20_000);
      expect(await world.found("зонтик")).toEqual([TEXTS.ru]);
    });

    it("is found as before if its file is lost, and is not read at each start", async () => {
      const [document] = (await world.knowledge.list("t")).documents;
      const { id, sha256 } = document as DocumentRecord;
      await makeOld(world, TEXTS.ru);
      await world.loseFile(sha256);
      await world.restart();
      expect(await world.knowledge.wait(id, 20_000)).toMatchObject({
        status: "ready",
        error: { code: "broken_document" },
      });
      expect(await world.found("зонты")).toEqual([TEXTS.ru]);
      await world.restart();
      expect(await world.knowledge.get("t", id)).toMatchObject({ status: "ready" });
    });
  });
});

describe("a file with n-grams that have the long marks of form 1", () => {
  const NEXT =
    "Das zweite Krankenhausgebäude ist für die Kinder der Stadt, und es ist nicht weit von hier.";
  let world: KnowledgeWorld;
  const ids: string[] = [];
  beforeAll(async () => {
    world = await createWorld();
    ids.push((await world.index(TEXTS.de)).id);
    ids.push((await world.index(TEXTS.ru, { tenant: "other" })).id);
    await world.knowledge.close();
    makeForm1(world.dir);
    await world.restart();
  });
  afterAll(() => world.close());

  it("is found, and indexed again with short marks", async () => {
    expect(await world.found("Krankenhausgarten")).toEqual([TEXTS.de]);
    await world.index(NEXT);
    expect((await world.found("Krankenhausgarten")).toSorted()).toEqual(
      [NEXT, TEXTS.de].toSorted(),
    );
    expect(await world.found("зонтик", { tenant: "other" })).toEqual([TEXTS.ru]);
    for (const id of ids) await world.knowledge.wait(id, 20_000);
    expect((await world.found("Krankenhausgarten")).toSorted()).toEqual(
      [NEXT, TEXTS.de].toSorted(),
    );
    const db = new DatabaseSync(join(world.dir, "knowledge.db"), { readOnly: true });
    for (const tenant of ["t", "other"])
      expect(
        db.prepare("SELECT count(*) AS n FROM grams WHERE grams MATCH ?").get(longMark(tenant)),
      ).toEqual({ n: 0 });
    db.close();
  });
});

const longMark = (tenant: string): string =>
  `"${BigInt(`0x${createHash("sha256").update(tenant).digest("hex").slice(0, 15)}`).toString(36)}"`;

/** Writes the file of a closed world as a version with form 1 has left it. */
function makeForm1(dir: string): void {
  const db = new DatabaseSync(join(dir, "knowledge.db"));
  const rows = db
    .prepare(
      "SELECT p.seq, p.text, d.tenant FROM passages p JOIN chunks c USING (seq) JOIN documents d ON d.seq = c.doc",
    )
    .all();
  db.exec(`DELETE FROM grams; UPDATE documents SET form = 1; DROP TABLE gram_tenants; DROP TABLE word_places; DROP INDEX documents_long_marks;
    DELETE FROM migrations WHERE version = 3`);
  for (const { seq, text, tenant } of rows as unknown as {
    seq: number;
    text: string;
    tenant: string;
  }[]) {
    const mark = longMark(tenant).slice(1, -1);
    const { grams } = new DocumentTokenizer().toIndexForm(text);
    const body = [mark, ...grams.split(" ").map((gram) => mark + gram)].join(" ");
    db.prepare("INSERT INTO grams (rowid, body) VALUES (?, ?)").run(seq, body);
  }
  db.close();
}

/** Writes the index of a world's only passage as it was before. */
async function makeOld(world: KnowledgeWorld, text: string): Promise<void> {
  const words = indexWords(text);
  if (world.isShared) {
    const { tokens, length } = chunkTokens("t", { words, grams: "" });
    await world.execute(
      "UPDATE knowledge_chunks SET tokens = $1::bigint[], words = $2, gram_count = 0",
      [`{${tokens.join(",")}}`, length],
    );
    await world.execute("DELETE FROM knowledge_languages", []);
    return world.execute("UPDATE knowledge_documents SET form = 0", []);
  }
  const db = new DatabaseSync(join(world.dir, "knowledge.db"));
  db.exec(
    "DELETE FROM words; DELETE FROM grams; DELETE FROM languages; UPDATE chunks SET gram_count = 0; UPDATE documents SET form = 0",
  );
  db.prepare("INSERT INTO words (rowid, body) VALUES ((SELECT seq FROM chunks), ?)").run(words);
  db.close();
}
