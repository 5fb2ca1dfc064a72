import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { LANGUAGES, renderPhrase, toLanguage } from "../../src/vocabulary/phrases.ts";

/** The same word in both languages. */
const SAME = ["de status.agent"];

type Forms = Partial<Record<Intl.LDMLPluralRule, string>>;
const readPhrases = (language: string): Map<string, Forms> => {
  const file = new URL(`../../src/vocabulary/phrases/${language}.json`, import.meta.url);
  const phrases = JSON.parse(readFileSync(file, "utf8")) as Record<string, string | Forms>;
  return new Map(
    Object.entries(phrases).map(([key, phrase]) => [
      key,
      typeof phrase === "string" ? { other: phrase } : phrase,
    ]),
  );
};

/** The values and the commands in a phrase. */
const readMarks = (text = ""): string[] =>
  [...text.matchAll(/\{\w+\}|\/[a-z]+/g)].map(([mark]) => mark).toSorted();

const english = readPhrases("en");

it("phrases: there are nine languages, and English for all others", () => {
  expect(LANGUAGES.toSorted()).toEqual(["ar", "de", "en", "es", "fr", "ja", "pt", "ru", "zh"]);
  for (const language of LANGUAGES)
    expect(toLanguage(`${language.toUpperCase()}_XX`)).toBe(language);
  for (const unknown of ["tlh", "constructor", "", undefined]) {
    expect(toLanguage(unknown)).toBe("en");
    expect(renderPhrase(unknown, "stopped")).toBe("Stopped.");
  }
});

it.each(LANGUAGES)(
  "phrases: the language %s has each phrase, with its values and commands",
  (language) => {
    const phrases = readPhrases(language);
    expect([...phrases.keys()]).toEqual([...english.keys()]);
    const { pluralCategories } = new Intl.PluralRules(language).resolvedOptions();
    for (const [key, forms] of phrases) {
      const original = english.get(key)?.other;
      expect(forms, key).toHaveProperty("other");
      expect(pluralCategories, key).toEqual(expect.arrayContaining(Object.keys(forms)));
      for (const text of Object.values(forms)) {
        expect(text.trim(), key).not.toBe("");
        expect(readMarks(text), key).toEqual(readMarks(original));
      }
      if (language !== "en" && !SAME.includes(`${language} ${key}`))
        expect(forms.other, key).not.toBe(original);
    }
  },
);

it("phrases: values are inserted unchanged, and the form follows the number", () => {
  expect(renderPhrase("de", "apologyToOwner", { reason: "{runId} $&", runId: "r1" })).toBe(
    "Das konnte ich nicht beantworten: {runId} $& (r1)",
  );
  const renderCounts = (language: string, ...counts: number[]): string[] =>
    counts.map((count) => renderPhrase(language, "questions.cut", { count, command: "x" }));
  expect(renderCounts("en", 1, 2)).toEqual([
    "[cut: 1 character; x shows it]",
    "[cut: 2 characters; x shows them]",
  ]);
  expect(renderCounts("ru", 21, 22, 25)).toEqual([
    "[сокращено: 21 символ; полностью: x]",
    "[сокращено: 22 символа; их показывает x]",
    "[сокращено: 25 символов; их показывает x]",
  ]);
  expect(renderPhrase("fr", "notStopped", { count: 1 })).toBe(
    "1 réponse n'a pas pu être arrêtée. Réessayez dans une minute.",
  );
  expect(renderPhrase("ja", "notStopped", { count: 1 })).toBe(
    "1件の応答を停止できませんでした。1分後にもう一度お試しください。",
  );
});
