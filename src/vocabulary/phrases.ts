import { readFileSync } from "node:fs";
import ENGLISH from "./phrases/en.json" with { type: "json" };

/** The languages that there are phrases in: one file each in `phrases/`, with the keys and the `{values}` of `en.json`. */
export const LANGUAGES: readonly string[] = ["en", "de", "fr", "es", "ru", "zh", "ar", "pt", "ja"];

/** The commands that `/help` names, in its order. */
export const HELPED = [
  "new",
  "stop",
  "status",
  "agent",
  "link",
  "unlink",
  "approve",
  "deny",
  "help",
] as const;

type PhraseKey = keyof typeof ENGLISH;

/** One text for all numbers, or one for each plural category of `count` that differs. */
type Phrase = string | (Partial<Record<Intl.LDMLPluralRule, string>> & { other: string });

const loaded = new Map<string, Readonly<Record<PhraseKey, Phrase>>>([["en", ENGLISH]]);

/** A language is read when it is first used. */
function loadPhrases(language: string): Readonly<Record<PhraseKey, Phrase>> {
  const known = loaded.get(language);
  if (known) return known;
  const file = new URL(`./phrases/${language}.json`, import.meta.url);
  const phrases = JSON.parse(readFileSync(file, "utf8")) as Record<PhraseKey, Phrase>;
  loaded.set(language, phrases);
  return phrases;
}

/** Returns the language of a language tag (`de`, `pt-br`); English if there are no phrases in it. */
export function toLanguage(tag = ""): string {
  const [base = ""] = tag.toLowerCase().split(/[-_]/);
  return LANGUAGES.includes(base) ? base : "en";
}

/** Renders what the gateway itself says to people on channels, without a model, in the language of a language tag. */
export function renderPhrase(
  tag: string | undefined,
  key: PhraseKey,
  values: Readonly<Record<string, string | number>> = {},
): string {
  const language = toLanguage(tag);
  const phrase = loadPhrases(language)[key];
  const text =
    typeof phrase === "string"
      ? phrase
      : (phrase[new Intl.PluralRules(language).select(Number(values["count"]))] ?? phrase.other);
  return text.replaceAll(/\{(\w+)\}/g, (mark, name: string) => String(values[name] ?? mark));
}

/** Renders what stands in place of an answer without words, by the reason for which the model ended it. */
export const renderSilence = (finish: string, tag?: string): string =>
  renderPhrase(tag, finish === "length" ? "outOfRoom" : "noAnswer");
