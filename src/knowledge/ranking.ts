/** Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009. */
const K = 60;

/** A chunk in a ranking; a higher score is better. */
export interface Ranked {
  seq: number;
  score: number;
}

/** BM25 as FTS5 has it, for both indexes. */
export const BM25 = { k1: 1.2, b: 0.75 };
const LEAST_IDF = 1e-6;

/** Returns the weight of a word that so many of all chunks have. There may be more of these by now than were counted. */
export const toIdf = (all: number, having: number): number =>
  Math.max(Math.log(Math.max(all - having + 0.5, 0.5) / (having + 0.5)), LEAST_IDF);

/** Best first; of equal ones the one that is there longer. */
const inOrder = (a: Ranked, b: Ranked): number => b.score - a.score || a.seq - b.seq;

/** Keeps the best so many, without sorting all. Of equal ones the one that came first is the better one. */
export function keepBest(best: Ranked[], limit: number, seq: number, score: number): void {
  if (best.length === limit) {
    if (score <= (best[limit - 1] as Ranked).score) return;
    best.pop();
  }
  let at = 0;
  for (let to = best.length; at < to;) {
    const middle = (at + to) >>> 1;
    if ((best[middle] as Ranked).score < score) to = middle;
    else at = middle + 1;
  }
  best.splice(at, 0, { seq, score });
}

const PAGE = 1024;
/** Inserting into longer lists takes more time than sorting all. */
const SHORT = 1024;

/** Sums of positive scores by chunk, in pages of numbers: a frequent word is in tens of thousands, most of them near the one before. */
export class Scores {
  readonly #pages = new Map<number, Float64Array>();
  #number = -1;
  #page: Float64Array = new Float64Array();

  add(seq: number, score: number): void {
    const number = Math.floor(seq / PAGE);
    if (number !== this.#number) this.#turnTo(number);
    (this.#page[seq - number * PAGE] as number) += score;
  }

  #turnTo(number: number): void {
    this.#number = number;
    const page = this.#pages.get(number) ?? new Float64Array(PAGE);
    this.#pages.set(number, page);
    this.#page = page;
  }

  best(limit: number): Ranked[] {
    const best: Ranked[] = [];
    const isShort = limit <= SHORT;
    for (const [number, page] of [...this.#pages].toSorted(([a], [b]) => a - b))
      for (let at = 0; at < PAGE; at++) {
        const score = page[at] as number;
        if (score <= 0) continue;
        if (isShort) keepBest(best, limit, number * PAGE + at, score);
        else best.push({ seq: number * PAGE + at, score });
      }
    return isShort ? best : best.toSorted(inOrder).slice(0, limit);
  }
}

/** Fuses rankings by their ranks alone: scores of words and of vectors have no common measure. Best first. */
export function fuseRankings(rankings: readonly (readonly Ranked[])[]): Ranked[] {
  const scores = new Map<number, number>();
  for (const ranking of rankings)
    for (const [index, { seq }] of ranking.entries())
      scores.set(seq, (scores.get(seq) ?? 0) + 1 / (K + index + 1));
  return [...scores].map(([seq, score]) => ({ seq, score })).toSorted(inOrder);
}

/** A chunk in the ranking by words, and whether it is indexed by n-grams too. */
export interface WordRanked extends Ranked {
  hasGrams: boolean;
}

/**
 * The weight of n-grams beside words, measured in ten languages (docs/knowledge.md): less finds less if a question has
 * other words than the text; with 1, passages are found that share many parts of words.
 */
const GRAM_WEIGHT = 0.5;

/**
 * Fuses the rankings by words and by n-grams, best first: each score as a share of the best one of its ranking. Both are
 * BM25 over the same text, so shares can be compared, and tell more than ranks. A chunk that has no n-grams counts with its
 * share among the words in both: languages that have n-grams are not preferred to English.
 */
export function fuseGrams(words: readonly WordRanked[], grams: readonly Ranked[]): Ranked[] {
  if (grams.length === 0) return words.map(({ seq, score }) => ({ seq, score }));
  const bestWord = words[0]?.score || 1;
  const bestGram = grams[0]?.score || 1;
  const scores = new Map<number, number>();
  for (const { seq, score, hasGrams } of words)
    scores.set(seq, ((hasGrams ? 1 : 1 + GRAM_WEIGHT) * score) / bestWord);
  for (const { seq, score } of grams)
    scores.set(seq, (scores.get(seq) ?? 0) + (GRAM_WEIGHT * score) / bestGram);
  return [...scores].map(([seq, score]) => ({ seq, score })).toSorted(inOrder);
}
