import { getLanguagesByWord, getScript, type Language, type Script } from "./languages.ts";
import { foldSpelling, findJoined } from "./spelling.ts";
import { splitGrams, toIndexed } from "./stem.ts";

/**
 * Words for the index, made the same way for documents and for questions: in one spelling, words split at everything
 * that is no letter, digit or mark; runs of scripts without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) as
 * overlapping pairs of characters.
 */
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED =
  "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}ー々〆";
const HAS_UNSPACED = new RegExp(`[${UNSPACED}]`, "u");
const WIDE = new RegExp(`[${UNSPACED}]`, "gu");
const RUNS = new RegExp(`([${UNSPACED}]+)|[^${UNSPACED}]+`, "gu");

/**
 * Returns whether a text has characters of a script without spaces; a word of one is a pair of characters, or a single
 * one.
 */
export const isUnspaced = (text: string): boolean => HAS_UNSPACED.test(text);

const none: readonly Language[] = [];

/** A word of texts. What was made of it is kept: the vocabulary of a text comes again and again. */
export class Token {
  readonly text: string;
  /** True if it is characters of a script without spaces. */
  readonly isRun: boolean;
  /** Undefined for numbers and runs. */
  readonly script: Script | undefined;
  /** The languages of which it is a frequent word. Single letters tell nothing: lists and formulas are full of them. */
  readonly frequentIn: readonly Language[];
  #language: Language | undefined;
  #indexed = "";
  #grams: readonly string[] | undefined;

  constructor(text: string, isRun: boolean) {
    this.text = text;
    this.isRun = isRun;
    this.script = isRun ? undefined : getScript(text);
    this.frequentIn = (!isRun && text.length > 1 && getLanguagesByWord(text)) || none;
  }

  /** Returns the form in which the word is indexed in a language. */
  getIndexed(language: Language): string {
    if (this.#language !== language) {
      this.#language = language;
      this.#indexed = toIndexed(this.text, language);
    }
    return this.#indexed;
  }

  /** Its n-grams. */
  get grams(): readonly string[] {
    return (this.#grams ??= this.isRun ? [] : splitGrams(this.text, this.script ?? "other"));
  }
}

/** Lists the different n-grams of words. */
export const listGrams = (tokens: readonly Token[]): string[] => [
  ...new Set([...new Set(tokens)].flatMap(({ grams }) => grams)),
];

/** So many words are kept, with what was made of them. */
const MAX_KNOWN = 50_000;
const known = new Map<string, Token>();

function getWord(word: string): Token {
  const found = known.get(word);
  if (found) return found;
  if (known.size >= MAX_KNOWN) known.clear();
  // A part of a text keeps the whole text in memory; a copy does not.
  const text = Buffer.from(word, "utf16le").toString("utf16le");
  const token = new Token(text, false);
  known.set(text, token);
  return token;
}

/** The words of a text. */
export interface Words {
  /** In order; a word that comes again is the same token, a run is not. */
  tokens: Token[];
  /** Words and numbers that the text has in parts, without what divides them. */
  joined: {
    token: Token;
    /** The places of the first part and behind the last one among the tokens. */
    from: number;
    to: number;
    /** True if the parts tell nothing of their own: `1,000` is one number. */
    isOne: boolean;
  }[];
}

/** Reads the words of a text. */
export function readWords(text: string): Words {
  const normal = foldSpelling(text);
  const tokens: Token[] = [];
  const places = new Map<number, number>();
  const add = (index: number, token: Token): void => {
    places.set(index, tokens.push(token) - 1);
  };
  for (const { 0: word, index } of normal.matchAll(WORD))
    if (!isUnspaced(word)) add(index, getWord(word));
    else
      for (const { 0: part, 1: run, index: at } of word.matchAll(RUNS))
        add(index + at, run === undefined ? getWord(part) : new Token(part, true));
  const joined = findJoined(normal).flatMap(({ text: whole, index, parts, isOne }) => {
    const from = places.get(index);
    return from === undefined || isUnspaced(whole)
      ? []
      : [{ token: getWord(whole), from, to: from + parts, isOne }];
  });
  return { tokens, joined };
}

const CHARS_PER_TOKEN = 4;

/** About how many tokens a model counts: one for each character of a script without spaces, else one for four characters. */
export function countTokens(text: string): number {
  const wide = text.match(WIDE)?.length ?? 0;
  return wide + Math.ceil((text.length - wide) / CHARS_PER_TOKEN);
}
