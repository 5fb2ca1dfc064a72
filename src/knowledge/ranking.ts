/** Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009. */
const K = 60;

/** A chunk in a ranking; a higher score is better. */
export interface Ranked {
  seq: number;
  score: number;
}

/** Fuses rankings by their ranks alone: scores of words and of vectors have no common measure. Best first. */
export function fuseRankings(rankings: readonly (readonly Ranked[])[]): Ranked[] {
  const scores = new Map<number, number>();
  for (const ranking of rankings)
    for (const [index, { seq }] of ranking.entries()) scores.set(seq, (scores.get(seq) ?? 0) + 1 / (K + index + 1));
  return [...scores].map(([seq, score]) => ({ seq, score })).toSorted((a, b) => b.score - a.score || a.seq - b.seq);
}

/** A chunk in the ranking by words, and whether it is indexed by n-grams too. */
export interface WordRanked extends Ranked {
  hasGrams: boolean;
}

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
  for (const { seq, score, hasGrams } of words) scores.set(seq, ((hasGrams ? 1 : 2) * score) / bestWord);
  for (const { seq, score } of grams) scores.set(seq, (scores.get(seq) ?? 0) + score / bestGram);
  return [...scores].map(([seq, score]) => ({ seq, score })).toSorted((a, b) => b.score - a.score || a.seq - b.seq);
}

/** Vectors of one allocation. */
const BLOCK = 4096;
const LARGEST = 127;

interface Block {
  /** What a number of the vector is to be multiplied with. */
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

export const toFloats = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/** Keeps the best so many, without sorting all. */
export function keepBest(best: Ranked[], limit: number, seq: number, score: number): void {
  if (best.length === limit && score <= (best.at(-1)?.score ?? -Infinity)) return;
  let at = best.length;
  while (at > 0 && (best[at - 1]?.score ?? 0) < score) at--;
  best.splice(at, 0, { seq, score });
  if (best.length > limit) best.pop();
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

  /** Whether the vectors are those of a model, and can be compared with one of this length. */
  isFor(model: string, dimension: number): boolean {
    return model === this.#model && dimension === this.#dimension;
  }

  /** Whether most vectors are of deleted passages. `live`: how many the database has. */
  isMostlyDead(live: number): boolean {
    return this.#seqs.length > live * (1 + MAX_DEAD_SHARE) + SOME_DEAD;
  }

  add({ id, seq, doc, generation, vector }: KnownVector): void {
    this.last = id;
    const at = this.#seqs.length;
    const slot = at % BLOCK;
    if (slot === 0) this.#blocks.push({ scales: new Float32Array(BLOCK), numbers: new Int8Array(BLOCK * this.#dimension) });
    const { numbers, scales } = this.#blocks.at(-1) as Block;
    const floats = toFloats(vector);
    let most = 0;
    for (let i = 0; i < floats.length; i++) most = Math.max(most, Math.abs(floats[i] as number));
    const scale = most / LARGEST || 1;
    const factor = 1 / scale;
    const from = slot * this.#dimension;
    scales[slot] = scale;
    for (let i = 0; i < floats.length; i++) numbers[from + i] = Math.round((floats[i] as number) * factor);
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
      for (let i = 0; i < vector.length; i++) sum += (vector[i] as number) * (numbers[from + i] as number);
      keepBest(near, limit, this.#seqs[at] as number, sum * (scales[slot] as number));
    }
    return near;
  }
}
