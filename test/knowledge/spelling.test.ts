import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findJoined, foldSpelling } from "../../src/knowledge/words/spelling.ts";
import { createWorld, type KnowledgeWorld } from "./world.ts";

/** A passage, and questions that have a word of it in other spellings; each way round in a tenant of its own. */
const SPELLINGS: [kind: string, passage: string, ...questions: string[]][] = [
  ["traditional Chinese", "圖書館的雨傘櫃子在門邊。", "图书馆", "雨伞柜子", "門邊"],
  ["simplified Chinese", "头发和出发时间表", "頭髮", "出發時間表"],
  ["Japanese forms", "広島の図書館は国道沿いです。", "廣島", "圖書館", "國道"],
  ["Kana", "カフェのいちごケーキ", "かふぇ", "イチゴ", "けーき"],
  ["half width", "ｶﾌｪ ＡＢＣ１２３ 가나", "カフェ", "abc123", "가나"],
  ["Arabic letters", "إدارة الميناء في القاهرة ومستشفى أحمد", "ادارة", "القاهره", "مستشفي", "احمد"],
  ["Arabic digits", "الغرفة ١٢٣ في الطابق ٤٥", "123", "٤٥"],
  ["Persian letters", "کتاب‌های ما در کتابخانه است", "كتابهای", "كتابخانه"],
  ["Urdu letters", "ہمارا دفتر", "همارا"],
  ["Cyrillic ё", "Ёлка и мёд на складе", "елка", "мед"],
  ["Ukrainian apostrophes", "Свіжа м'ята та ґанок", "м’ята", "мʼята", "ганок"],
  ["Serbian Cyrillic", "Кључеви су у Београду и то је све што је било", "ključevi", "Beograd"],
  ["Serbian Latin", "Ključevi su u Beogradu i to je sve što je bilo", "кључеви", "Београд"],
  ["Greek accents", "Το λιμάνι είναι ανοιχτό", "λιμανι", "ΛΙΜΑΝΙ", "ανοιχτο"],
  [
    "German ss",
    "Die Straße an der Großmarkthalle ist für alle da.",
    "Strasse",
    "STRASSE",
    "Grossmarkthalle",
  ],
  ["German ss in English text", "The Hauptstraße is closed.", "hauptstrasse"],
  [
    "German umlauts",
    "Der Schlüssel der Müllers ist in der Küche, und das ist gut so.",
    "Schluessel",
    "Muellers",
  ],
  ["umlauts in English text", "The keys of Mr Müller are here.", "Mueller", "Muller"],
  ["names spelled out in English text", "The keys of Mr Mueller are here.", "Müller"],
  [
    "Latin letters",
    "The ferry to Łódź and Tromsø carries smørrebrød.",
    "lodz",
    "tromso",
    "smorrebrod",
  ],
  ["French accents", "L'élève a été reçu à la mairie, où il est resté.", "eleve", "recu"],
  ["Turkish i", "Isparta'nın ışıkları ve bir kitap için bu gün", "isparta", "isiklari"],
  ["Hindi nasals", "हिन्दी में सम्बन्ध", "हिंदी", "संबंध"],
  ["Hebrew points", "שָׁלוֹם לכולם", "שלום"],
  ["Thai digits", "ห้อง ๑๒๓", "123"],
  ["soft hyphens", "Donau\u00addampf\u00adschiff, und das ist der Name.", "Donaudampfschiff"],
  [
    "numbers with commas",
    "The crane lifts 1,250,000 grams.",
    "1250000",
    "1.250.000",
    "1 250 000",
    "1'250'000",
  ],
  [
    "numbers with points",
    "Der Kran hebt 12.500 Kilo und mehr als das.",
    "12500",
    "12,500",
    "12 500",
  ],
  ["numbers with spaces", "La grue lève 12\u202f500 kilos, et plus.", "12500", "12,500", "500"],
  ["numbers without", "The deposit is 4500 in all.", "4,500", "4.500", "4 500"],
  ["Indian numbers", "The deposit is 1,25,000 in all.", "125000", "125,000"],
  ["node.js", "The desk runs on Node.js and Vue.js.", "nodejs", "NodeJS", "node.js", "vuejs"],
  ["nodejs", "The desk runs on nodejs.", "node.js", "Node-JS"],
  ["hyphens", "Send an e-mail over wi-fi at check-in.", "email", "wifi", "checkin", "e‐mail"],
  ["no hyphens", "Send an email over wifi at checkin.", "e-mail", "Wi-Fi", "check-in"],
  ["covid-19", "The rule about COVID-19 has ended.", "covid19"],
  ["C++", "The driver is written in C++ alone.", "c++", "cpp"],
  [".NET", "The tills run on .NET alone.", ".net", "dotnet"],
  ["versions of names", "The driver is for C++17 and .NET8 alone.", "C++", ".NET 8", "c++17"],
];

describe("in the local index", () => {
  let world: KnowledgeWorld;
  beforeAll(async () => {
    world = await createWorld();
    await Promise.all(
      SPELLINGS.map(async ([tenant, passage]) => {
        // Another passage, which no question is about.
        await world.index("Xylophon 9 8 7.", { tenant });
        await world.index(passage, { tenant });
      }),
    );
  });
  afterAll(() => world.close());

  it.each(SPELLINGS)("%s: %s", async (tenant, passage, ...questions) => {
    for (const text of questions)
      expect([
        text,
        (await world.knowledge.search({ tenant, text, relevantOnly: true })).map(
          (found) => found.text,
        ),
      ]).toEqual([text, [passage]]);
  });

  it("C, C++ and C# are three names", async () => {
    const texts = ["Loader written in C++.", "Loader written in C#.", "Loader written in F#."];
    for (const text of texts) await world.index(text, { tenant: "c" });
    for (const [question, text] of [
      ["C++", texts[0]],
      ["c#", texts[1]],
      ["csharp", texts[1]],
      ["F#", texts[2]],
    ] as const)
      expect(await world.found(question, { tenant: "c" })).toEqual([text]);
  });

  it("a part of a number in a list is found", async () => {
    await world.index("Rooms 101,102,103 and 201 202 203", { tenant: "rooms" });
    for (const room of ["102", "202", "rooms 201 202"])
      expect(await world.found(room, { tenant: "rooms" })).toHaveLength(1);
  });
});

describe("words in parts", () => {
  const joined = (text: string): string[] => findJoined(foldSpelling(text)).map((one) => one.text);
  it.each([
    ["1,000 and 2.500.000 and 3 000", ["1000", "2500000", "3000"]],
    ["1,000.50 or 1.000,50", ["1000", "1000"]],
    ["3.14 3,14 10.5 2026-11-28 12:30 28.11.2026", []],
    ["192.168.1.10 and v1.2.3 and 0.125", []],
    ["1,2,3,4 100,20 1000,200 10,1000", []],
    ["5,000 of 12 berths", ["5000"]],
    ["state-of-the-art", []],
    ["report.pdf", ["reportpdf"]],
    ["end. Next - word", []],
    ["a-very-longlonglonglonglongword", []],
    ["H.264 3-D", ["h264", "3d"]],
  ])("%s", (text, words) => {
    expect(joined(text)).toEqual(words);
  });
});
