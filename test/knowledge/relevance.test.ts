import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asksForMore, getSubject } from "../../src/knowledge/words/request.ts";
import { HANDBOOKS } from "./harbour.ts";
import { createWorld, type KnowledgeWorld } from "./world.ts";

describe("what a message asks documents about", () => {
  it.each([
    ["Can you explain where I can buy fuel?", "where i can buy fuel"],
    ["Please tell me more about lost property, thanks", "lost property"],
    ["Übersetze den Abschnitt über Hunde ins Englische", "den abschnitt über hunde"],
    ["請告訴我失物放在哪裡", "失物放在哪里"],
    ["说明书在哪里", "说明书在哪里"],
    ["翻译费用是多少", "翻译费用是多少"],
    ["Hello,\nwhen does the office open?", "when does the office open"],
    ["What is in the handbook?", "what is in the handbook?"],
    ["How do I translate a document?", "how do i translate a document?"],
    ["Who wrote the song of the harbour?", "who wrote the song of the harbour"],
    ["Night fees?", "night fees"],
    ["Thanks a lot!", undefined],
    ["Buenas tardes, ¿qué tal? Gracias", "qué tal"],
    ["Bonne soirée !", undefined],
    ["Guten Abend", undefined],
    ["Доброе утро!", undefined],
    ["谢谢你的帮助", undefined],
    ["ありがとうございます", undefined],
    ["감사합니다", undefined],
    ["Can you write me a haiku about fuel?", undefined],
    ["a limerick about dogs on the pier", undefined],
    ["Dichte ein Lied über den Hafen", undefined],
    ["Raconte-moi une histoire de bateau", undefined],
    ["Scrivi una poesia sul mare", undefined],
    ["Escreva um poema sobre o mar", undefined],
    ["Schrijf een gedicht over de haven", undefined],
    ["Napisz wiersz o morzu", undefined],
    ["Bana deniz hakkında bir şiir yaz", undefined],
    ["समुद्र पर एक कविता लिखो", undefined],
    ["바다에 대한 시를 써 줘", undefined],
    ["給我寫一首關於海港的詩", undefined],
    ["Translate this to Spanish please", undefined],
    ["Make it shorter", undefined],
  ])("%s", (message, subject) => {
    expect(getSubject(message)?.trim()).toBe(subject);
  });

  it.each([
    "Tell me more",
    "mehr dazu bitte",
    "Dis-m'en plus",
    "Расскажи подробнее",
    "更多",
    "もっと教えて",
  ])("%s: asks for more", (message) => expect(asksForMore(message)).toBe(true));
});

describe("in the local index", () => {
  describe.each(Object.entries(HANDBOOKS))("over a harbour's handbook: %s", (_language, book) => {
    let world: KnowledgeWorld;
    beforeAll(async () => {
      world = await createWorld();
      for (const passage of book.passages) await world.index(passage);
    });
    afterAll(() => world.close());
    const find = async (text: string, more: { earlier?: string } = {}): Promise<string[]> =>
      (await world.knowledge.search({ tenant: "t", text, relevantOnly: true, ...more })).map(
        (passage) => passage.text,
      );

    it("a question that no passage answers gets none", async () => {
      for (const question of book.unanswered)
        expect([question, await find(question)]).toEqual([question, []]);
    });

    it("a question that a passage answers gets it", async () => {
      for (const [question, passage] of book.answered)
        expect([question, await find(question)]).toEqual([
          question,
          expect.arrayContaining([book.passages[passage]]),
        ]);
    });

    it("a follow-up question finds what both questions are about, and what it is about alone", async () => {
      const [[first], [second, other]] = book.answered as [
        readonly [string, number],
        readonly [string, number],
      ];
      const found = await find(second, { earlier: first });
      expect(found).toContain(book.passages[other]);
      for (const thanks of book.unanswered)
        if (getSubject(thanks) === undefined && !asksForMore(thanks))
          expect(await find(thanks, { earlier: first })).toEqual([]);
    });
  });
});
