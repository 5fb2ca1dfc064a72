import { hash } from "node:crypto";
import { toStem } from "../stem.ts";
import type { IndexForm, Term } from "../tokenize.ts";
import { isUnspaced } from "../tokens.ts";

/**
 * A word's frequency in a chunk is a part of its token, as one of 15 levels. Up to eight it is exact; above, BM25 hardly
 * tells one from the next (the error of a score is below 2 %).
 */
export const LEVELS: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 18, 25, 40, 70, 120];
const MASK = 0xfn;
const MAX_KNOWN_WORDS = 100_000;
/** Stands for all pairs of characters that begin with the one before it; no word has it. */
const ANY = "*";
/** Stands before an n-gram; no word has it. How often a chunk has an n-gram is not kept. */
const GRAM = "~";

function getLevel(count: number): number {
  let level = 0;
  while (
    level + 1 < LEVELS.length &&
    count - (LEVELS[level] as number) > (LEVELS[level + 1] as number) - count
  )
    level++;
  return level;
}

/** A stem of one tenant's texts. */
interface Stem {
  base: bigint;
  /** Its tokens by level, as far as they were needed. */
  tokens: string[];
  /** How often the chunk that is just looked at has it. */
  count: number;
}

/** What a word of a text counts for. */
type Counted = readonly Stem[];

/** The words and stems of one tenant, since they come again and again; dropped when they become too many. */
class Lexicon {
  readonly #tenant: string;
  readonly #stems = new Map<string, Stem>();
  readonly #words = new Map<string, Counted>();

  constructor(tenant: string) {
    this.#tenant = tenant;
  }

  get isFull(): boolean {
    return this.#words.size >= MAX_KNOWN_WORDS || this.#stems.size >= MAX_KNOWN_WORDS;
  }

  /** 60 bits of SHA-256 of tenant and stem, above the four of the level: no two stems will ever share them. */
  stem(text: string): Stem {
    let stem = this.#stems.get(text);
    if (!stem) {
      const base = hash("sha256", `${this.#tenant}\n${text}`, "buffer").readBigInt64LE(0) & ~MASK;
      this.#stems.set(text, (stem = { base, tokens: [], count: 0 }));
    }
    return stem;
  }

  word(text: string): Counted {
    let counted = this.#words.get(text);
    if (!counted) {
      counted = [this.stem(toStem(text))];
      // A question of one such character finds the pairs that begin with it.
      if (isUnspaced(text))
        counted = [
          ...counted,
          this.stem(`${String.fromCodePoint(text.codePointAt(0) as number)}${ANY}`),
        ];
      this.#words.set(text, counted);
    }
    return counted;
  }
}

/** The tenant whose texts were looked at last: documents come in rows. */
let last: { tenant: string; lexicon: Lexicon } | undefined;

function getLexicon(tenant: string): Lexicon {
  if (last?.tenant !== tenant || last.lexicon.isFull)
    last = { tenant, lexicon: new Lexicon(tenant) };
  return last.lexicon;
}

const tokenOf = ({ base, tokens }: Stem, level: number): string =>
  (tokens[level] ??= String(base | BigInt(level)));

/**
 * PostgreSQL keeps a row of less than 2 KB whole. Searches read very many rows and of none the tokens: a list that is not
 * short is brought to the length that PostgreSQL puts elsewhere, by its first token again, which the index has once.
 */
const SHORT = 64;
const ELSEWHERE = 246;

/** What a chunk is found by, and how many words it has. */
export function chunkTokens(
  tenant: string,
  { words, grams }: Pick<IndexForm, "words" | "grams">,
): { tokens: string[]; length: number } {
  const lexicon = getLexicon(tenant);
  const all = words.split(" ");
  const found: Stem[] = [];
  for (const word of all)
    for (const stem of lexicon.word(word)) if (stem.count++ === 0) found.push(stem);
  const tokens: string[] = [];
  for (const stem of found) {
    tokens.push(tokenOf(stem, getLevel(stem.count)));
    stem.count = 0;
  }
  if (grams !== "")
    for (const gram of grams.split(" ")) tokens.push(tokenOf(lexicon.stem(GRAM + gram), 0));
  if (tokens.length > SHORT) while (tokens.length < ELSEWHERE) tokens.push(tokens[0] as string);
  return { tokens, length: all.length };
}

/** A word that a question asks for, with a token for each of `LEVELS`; or an n-gram, with its only token. */
export interface Asked extends Pick<Term, "word" | "part" | "whole"> {
  /** How often the question has it. */
  weight: number;
  tokens: string[];
}

export function getAskedWords(tenant: string, terms: readonly Term[]): Asked[] {
  const lexicon = getLexicon(tenant);
  const asked = new Map<Stem, Asked>();
  for (const { text, prefix, ...of } of terms) {
    const stem = lexicon.stem(prefix ? `${text}${ANY}` : toStem(text));
    const known = asked.get(stem);
    if (known) known.weight++;
    else
      asked.set(stem, {
        weight: 1,
        tokens: LEVELS.map((_, level) => tokenOf(stem, level)),
        ...of,
      });
  }
  return [...asked.values()];
}

/** The n-grams that a question asks for. */
export function getAskedGrams(tenant: string, grams: readonly string[]): Asked[] {
  const lexicon = getLexicon(tenant);
  return grams.map((gram) => ({ weight: 1, tokens: [tokenOf(lexicon.stem(GRAM + gram), 0)] }));
}
