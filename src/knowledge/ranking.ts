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

/** Vectors of one allocation. */
const BLOCK = 4096;
const LARGEST = 127;

interface Block {
  /** The factor of each number of the vector. */
  scales: Float32Array;
  numbers: Int8Array;
}

export interface KnownVector {
  id: number;
  seq: number;
  doc: number;
  generation: number;
  vector: Uint8Array;
}

export const toFloats = (bytes: Uint8Array): Float32Array =>
  new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/** Vectors of deleted passages stay in memory until they are as many as half of the vectors of the database. */
const MAX_DEAD_SHARE = 0.5;
const SOME_DEAD = 1000;

/** Vectors of one model and length in memory, a byte for each number. */
export class VectorMemory {
  readonly #model: string;
  readonly #dimension: number;
  readonly #blocks: Block[] = [];
  readonly #seqs: number[] = [];
  readonly #docs: number[] = [];
  readonly #generations: number[] = [];
  /** The id of the last vector that was read. */
  last = 0;

  constructor(model = "", dimension = 0) {
    this.#model = model;
    this.#dimension = dimension;
  }

  /** Returns whether the vectors are those of a model, and can be compared with one of this length. */
  isFor(model: string, dimension: number): boolean {
    return model === this.#model && dimension === this.#dimension;
  }

  /** Returns whether most vectors are of deleted passages. `live`: how many the database has. */
  isMostlyDead(live: number): boolean {
    return this.#seqs.length > live * (1 + MAX_DEAD_SHARE) + SOME_DEAD;
  }

  add({ id, seq, doc, generation, vector }: KnownVector): void {
    this.last = id;
    const at = this.#seqs.length;
    const slot = at % BLOCK;
    if (slot === 0)
      this.#blocks.push({
        scales: new Float32Array(BLOCK),
        numbers: new Int8Array(BLOCK * this.#dimension),
      });
    const { numbers, scales } = this.#blocks.at(-1) as Block;
    const floats = toFloats(vector);
    let most = 0;
    for (let i = 0; i < floats.length; i++) most = Math.max(most, Math.abs(floats[i] as number));
    const scale = most / LARGEST || 1;
    const factor = 1 / scale;
    const from = slot * this.#dimension;
    scales[slot] = scale;
    for (let i = 0; i < floats.length; i++)
      numbers[from + i] = Math.round((floats[i] as number) * factor);
    this.#seqs.push(seq);
    this.#docs.push(doc);
    this.#generations.push(generation);
  }

  /**
   * Those that are nearest, best first; nearly in the order of an exact comparison.
   * `visible`: which generation of which document may be found; all else is not looked at.
   */
  near(visible: ReadonlyMap<number, number>, vector: Float32Array, limit: number): Ranked[] {
    const near: Ranked[] = [];
    for (let at = 0; at < this.#seqs.length; at++) {
      if (visible.get(this.#docs[at] as number) !== this.#generations[at]) continue;
      const { scales, numbers } = this.#blocks[Math.floor(at / BLOCK)] as Block;
      const slot = at % BLOCK;
      const from = slot * vector.length;
      let sum = 0;
      for (let i = 0; i < vector.length; i++)
        sum += (vector[i] as number) * (numbers[from + i] as number);
      keepBest(near, limit, this.#seqs[at] as number, sum * (scales[slot] as number));
    }
    return near;
  }
}
