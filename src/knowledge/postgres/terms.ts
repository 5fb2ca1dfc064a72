import { hash } from "node:crypto";
import { stemOf } from "../stem.ts";
import { isUnspaced, queryTerms } from "../tokenize.ts";

/**
 * A word's frequency in a chunk is a part of its token, as one of 15 levels. Up to eight it is exact; above, BM25 hardly
 * tells one from the next (the error of a score is below 2 %).
 */
const LEVELS: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 18, 25, 40, 70, 120];
const MASK = 0xfn;
const MOST_KNOWN = 100_000;
/** Stands for all pairs of characters that begin with the one before it; no word has it. */
const ANY = "*";

function levelOf(count: number): number {
  let level = 0;
  while (level + 1 < LEVELS.length && count - (LEVELS[level] as number) > (LEVELS[level + 1] as number) - count) level++;
  return level;
}

/** Numbers and stems of words that come again and again. Both are dropped when they become too many. */
const bases = new Map<string, bigint>();
const stems = new Map<string, string>();

function known<V>(map: Map<string, V>, key: string, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    if (map.size >= MOST_KNOWN) map.clear();
    map.set(key, (value = make()));
  }
  return value;
}

/** 60 bits of SHA-256 of tenant and word, above the four of the level: no two words will ever share them. */
const baseOf = (tenant: string, word: string): bigint =>
  known(bases, `${tenant}\n${word}`, () => hash("sha256", `${tenant}\n${word}`, "buffer").readBigInt64LE(0) & ~MASK);

const tokenOf = (tenant: string, word: string, level: number): bigint => baseOf(tenant, word) | BigInt(level);

/** What a chunk is found by. `words`: as `indexWords` makes them. */
export function chunkTokens(tenant: string, words: string): { tokens: bigint[]; length: number } {
  const counts = new Map<string, number>();
  const count = (word: string): void => void counts.set(word, (counts.get(word) ?? 0) + 1);
  const all = words.split(" ");
  for (const word of all) {
    count(known(stems, word, () => stemOf(word)));
    // A question of one such character finds the pairs that begin with it.
    if (isUnspaced(word)) count(`${String.fromCodePoint(word.codePointAt(0) as number)}${ANY}`);
  }
  return { tokens: [...counts].map(([word, n]) => tokenOf(tenant, word, levelOf(n))), length: all.length };
}

/** What a question asks for: of each word a token for every frequency that it may have. Values of one place belong together. */
export interface Asked {
  words: number[];
  /** How often the question has the word. */
  weights: number[];
  frequencies: number[];
  tokens: bigint[];
}

export function askedTokens(tenant: string, text: string): Asked {
  const weights = new Map<string, number>();
  for (const term of queryTerms(text)) {
    const word = term.prefix ? `${term.text}${ANY}` : stemOf(term.text);
    weights.set(word, (weights.get(word) ?? 0) + 1);
  }
  const asked: Asked = { words: [], weights: [], frequencies: [], tokens: [] };
  for (const [number, [word, weight]] of [...weights].entries()) {
    for (const [level, frequency] of LEVELS.entries()) {
      asked.words.push(number);
      asked.weights.push(weight);
      asked.frequencies.push(frequency);
      asked.tokens.push(tokenOf(tenant, word, level));
    }
  }
  return asked;
}
