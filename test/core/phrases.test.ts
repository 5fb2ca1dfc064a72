import { expect, it } from "vitest";
import { getPhrases, LANGUAGES } from "../../src/vocabulary/phrases.ts";

/** What is the same word in both languages. */
const SAME = ["de status.agent"];

/** All phrases of an object by their paths. Those with values in them are made with `«1»`, `«2»` and so on. */
function flatten(value: unknown, path = ""): [path: string, text: string][] {
  if (typeof value === "string") return [[path, value]];
  if (typeof value === "function")
    return [
      [
        path,
        String(
          Reflect.apply(value, undefined, ["«1»", "«2»", "«3»", "«4»"].slice(0, value.length)),
        ),
      ],
    ];
  return Object.entries(value ?? {}).flatMap(([key, inner]) =>
    flatten(inner, path === "" ? key : `${path}.${key}`),
  );
}

/** The values and the commands in a phrase. */
const readMarks = (text: string): string[] =>
  [...text.matchAll(/«\d»|\/[a-z]+/g)].map(([mark]) => mark).toSorted();

const english = new Map(flatten(getPhrases("en")));

it("has nine languages, and English for all others", () => {
  expect(LANGUAGES.toSorted()).toEqual(["ar", "de", "en", "es", "fr", "ja", "pt", "ru", "zh"]);
  for (const language of LANGUAGES)
    expect(getPhrases(`${language.toUpperCase()}_XX`).locale).toBe(language);
  for (const unknown of ["tlh", "constructor", "", undefined])
    expect(getPhrases(unknown)).toBe(getPhrases("en"));
});

it.each(LANGUAGES)(
  "has each phrase in the language %s, with its values and commands",
  (language) => {
    const phrases = new Map(flatten(getPhrases(language)));
    expect([...phrases.keys()].toSorted()).toEqual([...english.keys()].toSorted());
    for (const [path, text] of phrases) {
      const original = english.get(path) ?? "";
      expect(text.trim(), path).not.toBe("");
      expect(readMarks(text), path).toEqual(readMarks(original));
      if (language !== "en" && !SAME.includes(`${language} ${path}`))
        expect(text, path).not.toBe(original);
    }
  },
);
