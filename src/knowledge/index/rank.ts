import type { Statements } from "../../store/sqlite/connection.ts";
import { BM25, Scores, toIdf, type Ranked, type WordRanked } from "../ranking.ts";
import { Coverage } from "../relevance.ts";
import type { Term } from "../words/tokenize.ts";
import { Postings } from "./postings.ts";

const { k1: K1, b: B } = BM25;
/** So many more than are wanted are compared by their numbers of n-grams too. */
const MARGIN = 3;
/** So many times more are looked at if too few of them can be found. */
const WIDER = 16;

/** The condition of a scope on documents, as SQL with its values. */
interface Visible {
  condition: string;
  values: readonly string[];
}

interface Found extends Ranked {
  /** The number of its n-grams. */
  grams: number;
}

/** Calls `use` with each different number of a list in order, and how often it is there. */
function eachRun(list: Uint32Array, use: (seq: number, count: number) => void): number {
  let different = 0;
  for (let from = 0, to = 0; from < list.length; from = to) {
    const seq = list[from] as number;
    for (to = from + 1; list[to] === seq;) to++;
    use(seq, to - from);
    different++;
  }
  return different;
}

/** Ranks chunks by words and by n-grams. */
export class ChunkRanking {
  readonly #sql: Statements;
  readonly #postings: Postings;

  constructor(sql: Statements) {
    this.#sql = sql;
    this.#postings = new Postings(sql);
  }

  /** Forgets what is older than the index. */
  forget(): void {
    this.#postings.forget();
  }

  /** Of the best chunks those that can be found, best first: at least `least`, if there are so many. */
  #listVisible(scores: Scores, { condition, values }: Visible, least: number): Found[] {
    const text = `SELECT c.seq AS seq, c.gram_count AS grams FROM json_each(?) j CROSS JOIN chunks c ON c.seq = j.value
      JOIN documents d ON d.seq = c.doc AND d.generation = c.generation WHERE ${condition}`;
    const found: Found[] = [];
    for (let from = 0, to = least; ; from = to, to *= WIDER) {
      const part = new Map(
        scores
          .best(to)
          .slice(from)
          .map(({ seq, score }) => [seq, score]),
      );
      const rows = this.#sql.all<{ seq: number; grams: number }>(
        text,
        JSON.stringify([...part.keys()]),
        ...values,
      );
      for (const { seq, grams } of rows) found.push({ seq, grams, score: part.get(seq) ?? 0 });
      if (found.length >= least || part.size < to - from) return found;
    }
  }

  byWords(terms: readonly Term[], visible: Visible, limit: number): WordRanked[] {
    return this.#listVisible(this.#scoreWords(terms), visible, limit)
      .slice(0, limit)
      .map(({ seq, score, grams }) => ({ seq, score, hasGrams: grams > 0 }));
  }

  /** Sums up BM25, as `bm25()` of FTS5 does in three times the time. */
  #scoreWords(terms: readonly Term[]): Scores {
    const postings = this.#postings;
    const { chunks, words } = postings.totals;
    const mean = words / chunks;
    const scores = new Scores();
    for (const term of terms) {
      const list = postings.ofWord(term);
      const idf = toIdf(
        chunks,
        eachRun(list, () => undefined),
      );
      eachRun(list, (seq, count) =>
        scores.add(
          seq,
          idf *
            ((count * (K1 + 1)) / (count + K1 * (1 - B + (B * postings.getLength(seq)) / mean))),
        ),
      );
    }
    return scores;
  }

  /** Ranks by BM25 as for words, where each n-gram is there once. */
  byGrams(grams: readonly string[], visible: Visible, limit: number): Ranked[] {
    if (grams.length === 0) return [];
    const { grams: total } = this.#postings.totals;
    const scores = new Scores();
    for (const gram of grams) {
      const list = this.#postings.ofGram(gram);
      const idf = toIdf(total, list.length);
      for (const seq of list) scores.add(seq, idf);
    }
    const found = this.#listVisible(scores, visible, limit * MARGIN);
    const mean = found.reduce((sum, one) => sum + one.grams, 0) / found.length;
    return found
      .map(({ seq, score, grams: length }) => ({
        seq,
        score: (score * (K1 + 1)) / (1 + K1 * (1 - B + (B * length) / mean)),
      }))
      .toSorted((a, b) => b.score - a.score || a.seq - b.seq)
      .slice(0, limit);
  }

  /** Sums up which share of the words of a question each of some chunks has. */
  coverByWords(terms: readonly Term[], seqs: readonly number[]): Coverage {
    return this.#cover(
      this.#postings.totals.chunks,
      terms.map((term) => ({ ...term, list: this.#postings.ofWord(term) })),
      seqs,
    );
  }

  /** Sums up which share of the n-grams of a question each of some chunks has. */
  coverByGrams(grams: readonly string[], seqs: readonly number[]): Coverage {
    return this.#cover(
      this.#postings.totals.grams,
      grams.map((gram) => ({ list: this.#postings.ofGram(gram) })),
      seqs,
    );
  }

  #cover(
    chunks: number,
    asked: readonly (Partial<Pick<Term, "words">> & { list: Uint32Array })[],
    seqs: readonly number[],
  ): Coverage {
    const coverage = new Coverage(chunks);
    const wanted = new Set(seqs);
    for (const { list, words } of asked) {
      const found: number[] = [];
      const having = eachRun(list, (seq) => void (wanted.has(seq) && found.push(seq)));
      found.forEach(coverage.addTerm(having, words));
    }
    return coverage;
  }
}
