import { stemmer } from "stemmer";
import type { Language, Script } from "./languages.ts";

/** Letters of Russian and Arabic, of which neither folding nor the English rules change one. */
const UNCHANGED = /^[\u0430-\u045f\u0621-\u064a]*$/;

/** Latin letters without their accents, and one form of the Greek sigma. */
function folded(word: string): string {
  if (/^[!-~]*$/.test(word)) return word;
  return word
    .normalize("NFD")
    .replaceAll(/(?<=[a-z])[\u0300-\u036f]+/g, "")
    .normalize("NFC")
    .replaceAll("ς", "σ");
}

/** Returns the stem of an English word in lower case; words of other scripts stay as they are. */
export function toStem(word: string): string {
  return UNCHANGED.test(word) ? word : stemmer(folded(word));
}

const ASCII = /^[a-z]*$/;

/** A word as the Snowball rules of its language expect it. */
const NORMALIZE: Partial<Record<Script, (word: string) => string>> = {
  // Turkish İ becomes i and a dot.
  latin: (word) => (ASCII.test(word) ? word : word.replaceAll("i\u0307", "i").normalize("NFC")),
  cyrillic: (word) => word.replaceAll("ё", "е").replaceAll("ґ", "г"),
  arabic: (word) =>
    word
      .replaceAll(/[\u0640\u064b-\u065f\u0670]/g, "")
      .replaceAll(/[یى]/g, "ي")
      .replaceAll("ک", "ك")
      .replaceAll(/[ہھەۀۂ]/g, "ه"),
  // Nasals before a consonant are a dot or a letter; the dot below tells letters of other languages.
  devanagari: (word) =>
    word
      .replaceAll(/[ङञणनम]\u094d(?=[क-ह])/g, "\u0902")
      .replaceAll("\u0901", "\u0902")
      .replaceAll("\u093c", ""),
  hebrew: (word) => word.replaceAll(/[\u0591-\u05c7]/g, ""),
  greek: (word) =>
    word
      .normalize("NFD")
      .replaceAll(/[\u0300-\u036f]/g, "")
      .normalize("NFC"),
};

const normalize = (word: string, script: Script): string => NORMALIZE[script]?.(word) ?? word;

/** Letters that are no letter with a mark, and how they are written on a keyboard without them. */
const PLAIN: Record<string, string> = {
  œ: "oe",
  æ: "ae",
  ø: "o",
  ł: "l",
  đ: "d",
  ð: "d",
  þ: "th",
  ı: "i",
  ς: "σ",
};
const toPlain = (word: string): string =>
  word.replaceAll(/[œæøłđðþıς]/g, (letter) => PLAIN[letter] ?? letter);

/** Arabic letters that carry the same sound in several forms. */
const foldArabic = (word: string): string =>
  word
    .replaceAll(/[أإآٱ]/g, "ا")
    .replaceAll("ؤ", "و")
    .replaceAll("ئ", "ي")
    .replaceAll("ة", "ه");

/** Spellings that the rules of one language have to see as one. */
const SPELLINGS: Record<string, (word: string) => string> = {
  // Umlauts on a keyboard without them.
  de: (word) =>
    /[aou]e/.test(word)
      ? word
          .replaceAll("ae", "ä")
          .replaceAll("oe", "ö")
          .replaceAll(/(?<![aeq])ue/g, "ü")
      : word,
  // The end of feminine words is written with its dots or without.
  ar: (word) => word.replace(/(?<=.{3})ه$/u, "ة"),
};

/** Returns what a word of a language is indexed as. */
export function toIndexed(word: string, { code, script, stem }: Language): string {
  if (code === "en") return toStem(toPlain(word));
  const normal = normalize(word, script);
  const spelled = SPELLINGS[code]?.(normal) ?? normal;
  const ownStem = stem?.(spelled) ?? spelled;
  const stemmed = script === "arabic" ? foldArabic(ownStem) : ownStem;
  return toPlain(folded(stemmed)) || word;
}

/** Characters of an n-gram. Shorter words are kept whole. */
const GRAM = 4;

/** A word as its n-grams are made of it: without the marks that writers leave out. */
function unmarked(word: string, script: Script): string {
  if (ASCII.test(word)) return word;
  const normal = normalize(word, script);
  if (script === "arabic") return foldArabic(normal);
  if (script !== "latin" && script !== "greek") return normal;
  return toPlain(normal.normalize("NFD").replaceAll(/[\u0300-\u036f]+/g, ""));
}

/** Makes the n-grams of a word: inflected forms and compounds have most of them in common. */
export function splitGrams(word: string, script: Script): string[] {
  const bare = unmarked(word, script);
  const grams: string[] = [];
  for (let to = Math.min(GRAM, bare.length); to <= bare.length; to++)
    grams.push(bare.slice(Math.max(0, to - GRAM), to));
  return grams;
}
