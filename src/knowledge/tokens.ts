import { getLanguagesByWord, getScript, type Language, type Script } from "./languages.ts";
import { foldSpelling, JoinedWords, type JoinedWord } from "./spelling.ts";
import { GRAM, splitGrams, toIndexed } from "./stem.ts";

/**
 * Words for the index, made the same way for documents and for questions: in one spelling, words split at everything
 * that is no letter, digit or mark; runs of scripts without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese) as
 * overlapping pairs of characters. FTS5's own tokenizers take such a run for one word, and find nothing in it.
 */
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED =
  "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}ー々〆";
const HAS_UNSPACED = new RegExp(`[${UNSPACED}]`, "u");
/** Where the scripts without spaces are, and others: most texts have no such character, which takes less time to find out. */
const MAY_HAVE_UNSPACED = /[\u0e00-\u1fff\u2e80-\uffff]/;
const RUNS = new RegExp(`([${UNSPACED}]+)|[^${UNSPACED}]+`, "gu");

/** Whether a text has characters of a script without spaces; a word of one is a pair of characters, or a single one. */
export const isUnspaced = (text: string): boolean =>
  MAY_HAVE_UNSPACED.test(text) && HAS_UNSPACED.test(text);

const none: readonly Language[] = [];

/** So many words are kept, and their n-grams. */
const MAX_KNOWN = 50_000;

/** A part of so many characters keeps the whole text in memory; V8 copies shorter ones itself. */
const LONG_PART = 13;
const toCopy = (part: string): string =>
  part.length < LONG_PART ? part : Buffer.from(part, "utf16le").toString("utf16le");

/** A hash is a small integer, which a map finds in less time than a part of a text. */
const addToHash = (hash: number, code: number): number => (Math.imul(hash, 31) + code) & 0x3fffffff;

function isAt(part: string, text: string, from: number): boolean {
  for (let at = 0; at < part.length; at++)
    if (part.charCodeAt(at) !== text.charCodeAt(from + at)) return false;
  return true;
}

/**
 * N-grams by their numbers: words have most of theirs in common. Their characters lie side by side, so that a passage's n-grams
 * are compared and written without looking at strings all over the memory.
 */
class Grams {
  readonly #byHash = new Map<number, number>();
  /** The n-gram with the same hash that was there before; -1 if there is none. */
  #before = new Int32Array(1024);
  /** `GRAM` characters each; a shorter one ends with zeros. */
  #chars = new Uint16Array(1024 * GRAM);
  /** The last list that each is in. */
  #lists = new Int32Array(1024);
  #count = 0;
  #list = 0;
  #text = new Uint16Array(1024);

  clear(): void {
    this.#byHash.clear();
    this.#lists.fill(0);
    this.#count = 0;
  }

  #isAt(id: number, text: string, from: number, to: number): boolean {
    for (let at = 0; at < GRAM; at++)
      if (this.#chars[id * GRAM + at] !== (from + at < to ? text.charCodeAt(from + at) : 0))
        return false;
    return true;
  }

  /** The number of an n-gram of a text. */
  getId(text: string, from: number, to: number): number {
    let hash = 0;
    for (let at = from; at < to; at++) hash = addToHash(hash, text.charCodeAt(at));
    const last = this.#byHash.get(hash) ?? -1;
    for (let id = last; id >= 0; id = this.#before[id] as number)
      if (this.#isAt(id, text, from, to)) return id;
    const id = this.#count++;
    if (id === this.#lists.length) this.#grow();
    this.#before[id] = last;
    for (let at = 0; at < GRAM; at++)
      this.#chars[id * GRAM + at] = from + at < to ? text.charCodeAt(from + at) : 0;
    this.#byHash.set(hash, id);
    return id;
  }

  #grow(): void {
    const { length } = this.#lists;
    const [before, chars, lists] = [this.#before, this.#chars, this.#lists];
    (this.#before = new Int32Array(length * 2)).set(before);
    (this.#chars = new Uint16Array(length * 2 * GRAM)).set(chars);
    (this.#lists = new Int32Array(length * 2)).set(lists);
  }

  /** Lists the different n-grams of words, separated by spaces. */
  list(tokens: readonly Token[]): { text: string; count: number } {
    const list = ++this.#list;
    let count = 0;
    let to = 0;
    for (const token of tokens) {
      if (token.list === list) continue;
      token.list = list;
      for (const id of token.gramIds) {
        if (this.#lists[id] === list) continue;
        this.#lists[id] = list;
        to = this.#write(id, to, count++ > 0);
      }
    }
    return { text: Buffer.from(this.#text.buffer, 0, to * 2).toString("utf16le"), count };
  }

  #write(id: number, from: number, isNext: boolean): number {
    let to = from;
    if (to + GRAM >= this.#text.length) {
      const text = this.#text;
      (this.#text = new Uint16Array(text.length * 2)).set(text);
    }
    if (isNext) this.#text[to++] = SPACE;
    for (let at = id * GRAM; at < (id + 1) * GRAM; at++) {
      const code = this.#chars[at] as number;
      if (code === 0) break;
      this.#text[to++] = code;
    }
    return to;
  }
}

const SPACE = 32;
const grams = new Grams();

/** Lists the different n-grams of words, separated by spaces. */
export const listGrams = (tokens: readonly Token[]): { text: string; count: number } =>
  grams.list(tokens);

/** A word of texts. What was made of it is kept: the vocabulary of a text comes again and again. */
export class Token {
  readonly text: string;
  /** Whether it is characters of a script without spaces. */
  readonly isRun: boolean;
  /** Undefined for numbers and runs. */
  readonly script: Script | undefined;
  /** The languages of which it is a frequent word. Single letters tell nothing: lists and formulas are full of them. */
  readonly frequentIn: readonly Language[];
  /** The last list of n-grams that has its own. */
  list = 0;
  /** The word with the same hash that was there before. */
  before: Token | undefined;
  #language: Language | undefined;
  #indexed = "";
  #gramIds: readonly number[] | undefined;

  constructor(text: string, isRun: boolean) {
    this.text = text;
    this.isRun = isRun;
    this.script = isRun ? undefined : getScript(text);
    this.frequentIn = (!isRun && text.length > 1 && getLanguagesByWord(text)) || none;
  }

  /** What the word is indexed as in a language. */
  getIndexed(language: Language): string {
    if (this.#language !== language) {
      this.#language = language;
      this.#indexed = toIndexed(this.text, language);
    }
    return this.#indexed;
  }

  isStopWord({ stopWords }: Language): boolean {
    // Most words are frequent in no language.
    return (this.frequentIn !== none || this.text.length === 1) && stopWords.has(this.text);
  }

  get gramIds(): readonly number[] {
    return (this.#gramIds ??= this.isRun
      ? []
      : splitGrams(this.text, this.script ?? "other", (word, from, to) =>
          grams.getId(word, from, to),
        ));
  }
}

/** Words by the hashes of their characters. */
const words = { byHash: new Map<number, Token>(), count: 0 };

function getToken(text: string, from: number, to: number, hash: number): Token {
  const last = words.byHash.get(hash);
  for (let token = last; token; token = token.before)
    if (token.text.length === to - from && isAt(token.text, text, from)) return token;
  const token = new Token(toCopy(text.slice(from, to)), false);
  token.before = last;
  words.byHash.set(hash, token);
  words.count++;
  return token;
}

function getWord(word: string): Token {
  let hash = 0;
  for (let at = 0; at < word.length; at++) hash = addToHash(hash, word.charCodeAt(at));
  return getToken(word, 0, word.length, hash);
}

/** Whether each UTF-16 unit is a part of a word, as far as texts had it: 0 if that is not known yet. */
const kinds = new Uint8Array(2 ** 16);
const IN_WORD = 1;
const BETWEEN = 2;

const toKind = (code: number): number =>
  (kinds[code] ||= String.fromCharCode(code).replace(WORD, "") === "" ? IN_WORD : BETWEEN);

/** Adds the words of a text that has only scripts with spaces. */
function addWords(text: string, tokens: Token[], joined: JoinedWords): void {
  let from = -1;
  let hash = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = text.charCodeAt(at);
    if (at < text.length && toKind(code) === IN_WORD) {
      if (from < 0) {
        from = at;
        hash = 0;
      }
      hash = addToHash(hash, code);
    } else if (from >= 0) {
      tokens.push(getToken(text, from, at, hash));
      joined.add(from, at);
      from = -1;
    }
  }
}

/** The words of a text. */
export interface Words {
  /** In order; a word that comes again is the same token, a run is not. */
  tokens: Token[];
  /** Words and numbers that the text has in parts, without what divides them. */
  joined: (Omit<JoinedWord, "text"> & { token: Token })[];
}

/** Reads the words of a text; to be used before the next text. */
export function readWords(text: string): Words {
  if (words.count >= MAX_KNOWN) {
    words.byHash.clear();
    words.count = 0;
    grams.clear();
  }
  const tokens: Token[] = [];
  const normal = foldSpelling(text);
  const joined = new JoinedWords(normal);
  if (!MAY_HAVE_UNSPACED.test(normal)) addWords(normal, tokens, joined);
  else
    for (const { 0: word, index } of normal.matchAll(WORD)) {
      if (!isUnspaced(word)) {
        tokens.push(getWord(word));
        joined.add(index, index + word.length);
      } else
        for (const { 0: part, 1: unspaced, index: at } of word.matchAll(RUNS)) {
          tokens.push(unspaced === undefined ? getWord(part) : new Token(part, true));
          joined.add(index + at, index + at + part.length);
        }
    }
  joined.end();
  return {
    tokens,
    joined: joined.found.flatMap(({ text: whole, ...place }) =>
      isUnspaced(whole) ? [] : [{ ...place, token: getWord(whole) }],
    ),
  };
}

const WIDE = new RegExp(`[${UNSPACED}]`, "gu");
const CHARS_PER_TOKEN = 4;

/** About how many tokens a model counts: one for each character of a script without spaces, else one for four characters. */
export function countTokens(text: string): number {
  const wide = isUnspaced(text) ? (text.match(WIDE)?.length ?? 0) : 0;
  return wide + Math.ceil((text.length - wide) / CHARS_PER_TOKEN);
}
