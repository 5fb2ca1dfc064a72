import type { Statements } from "../../store/sqlite/connection.ts";
import type { Term } from "../words/tokenize.ts";

/** So many numbers of chunks are kept: 16 MB. */
const MAX_KEPT = 4_000_000;
const PAGE = 1024;

interface Totals {
  chunks: number;
  words: number;
  grams: number;
}

/**
 * Which chunks have a word or an n-gram. The lists are kept until the index changes: those of frequent words are long, and
 * most questions have some of them.
 */
export class Postings {
  readonly #sql: Statements;
  readonly #lists = new Map<string, Uint32Array>();
  #kept = 0;
  #totals: Totals | undefined;
  /** The numbers of words of chunks, by page. They never change, and no number of a chunk is used again while the index is open. */
  readonly #lengths = new Map<number, Uint32Array>();

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** Forgets what is older than the index. */
  forget(): void {
    this.#lists.clear();
    this.#kept = 0;
    this.#totals = undefined;
  }

  #list(key: string, sql: string, ...values: string[]): Uint32Array {
    let list = this.#lists.get(key);
    if (!list) {
      if (this.#kept > MAX_KEPT) this.forget();
      list = Uint32Array.from(
        JSON.parse(this.#sql.get<{ seqs: string }>(sql, ...values)?.seqs ?? "[]") as number[],
      );
      this.#lists.set(key, list);
      this.#kept += list.length;
    }
    return list;
  }

  /** The chunks that have an n-gram. */
  ofGram(gram: string): Uint32Array {
    const text = "SELECT json_group_array(rowid) AS seqs FROM grams WHERE grams MATCH ?";
    return this.#list(`#${gram}`, text, `"${gram}"`);
  }

  /** The chunks that have a word, each as often as it has the word. In order. */
  ofWord({ text, prefix }: Term): Uint32Array {
    const places = "SELECT json_group_array(doc) AS seqs FROM word_places WHERE";
    if (!prefix) return this.#list(`=${text}`, `${places} term = ?`, text);
    const range = `${places} term >= ? AND term < ?`;
    return this.#list(`*${text}`, range, text, `${text}\u{10ffff}`).sort();
  }

  /** The numbers of chunks, of their words, and of chunks that have n-grams. */
  get totals(): Totals {
    return (this.#totals ??= this.#sql.get<Totals>(
      "SELECT count(*) AS chunks, coalesce(sum(length), 0) AS words, count(nullif(gram_count, 0)) AS grams FROM chunks",
    ) as Totals);
  }

  /** Returns the number of words of a chunk. */
  getLength(seq: number): number {
    const number = Math.floor(seq / PAGE);
    // A page that was read before the chunk was there has no words for it.
    return (
      this.#lengths.get(number)?.[seq % PAGE] || (this.#readLengths(number)[seq % PAGE] as number)
    );
  }

  #readLengths(number: number): Uint32Array {
    const page = new Uint32Array(PAGE);
    const rows = this.#sql.all<{ seq: number; length: number }>(
      "SELECT seq, length FROM chunks WHERE seq >= ? AND seq < ?",
      number * PAGE,
      (number + 1) * PAGE,
    );
    for (const { seq, length } of rows) page[seq % PAGE] = length;
    this.#lengths.set(number, page);
    return page;
  }
}
