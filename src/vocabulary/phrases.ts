import { ARABIC } from "./phrases/ar.ts";
import { GERMAN } from "./phrases/de.ts";
import { ENGLISH } from "./phrases/en.ts";
import { SPANISH } from "./phrases/es.ts";
import { FRENCH } from "./phrases/fr.ts";
import { JAPANESE } from "./phrases/ja.ts";
import { PORTUGUESE } from "./phrases/pt.ts";
import { RUSSIAN } from "./phrases/ru.ts";
import { CHINESE } from "./phrases/zh.ts";
import type { Phrases } from "./phrases/types.ts";

const PHRASES: Readonly<Record<string, Phrases>> = {
  en: ENGLISH,
  de: GERMAN,
  fr: FRENCH,
  es: SPANISH,
  ru: RUSSIAN,
  zh: CHINESE,
  ar: ARABIC,
  pt: PORTUGUESE,
  ja: JAPANESE,
};

/** The languages that there are phrases in. */
export const LANGUAGES: readonly string[] = Object.keys(PHRASES);

/** The phrases in the language of a language tag (`de`, `pt-br`); English if there are none. */
export function getPhrases(language = ""): Phrases {
  const [base = ""] = language.toLowerCase().split(/[-_]/);
  return (Object.hasOwn(PHRASES, base) ? PHRASES[base] : undefined) ?? ENGLISH;
}

/** Returns what stands in place of an answer without words, by the reason for which the model ended it. */
export const renderSilence = (finish: string, language?: string): string =>
  getPhrases(language)[finish === "length" ? "outOfRoom" : "noAnswer"];
