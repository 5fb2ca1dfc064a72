import type { Statements } from "../../store/sqlite/statements.ts";
import { toStem } from "../stem.ts";
import type { Term } from "../tokenize.ts";

/**
 * The index of n-grams. FTS5 keeps only which chunks have an n-gram, without places and frequencies: a text has several times as
 * many n-grams as words. Each is kept with a mark of its tenant, so that a look brings only chunks of that tenant; the mark
 * alone stands for all of them. A mark is short, because each n-gram has it. No n-gram has its last character.
 */
const toMark = (number: number): string => `${number.toString(36)}·`;

const GET_NUMBER = "SELECT number FROM gram_tenants WHERE tenant = ?";

/** Gives a tenant its mark. */
export function addMark(sql: Statements, tenant: string): string {
  sql.run("INSERT OR IGNORE INTO gram_tenants (tenant) VALUES (?)", tenant);
  return toMark(sql.get<{ number: number }>(GET_NUMBER, tenant)?.number ?? 0);
}

/** The mark of a tenant; undefined if none of its documents was indexed. */
export function getMark(sql: Statements, tenant: string): string | undefined {
  const row = sql.get<{ number: number }>(GET_NUMBER, tenant);
  return row && toMark(row.number);
}

/** What `grams` holds of a chunk. `grams` are separated by spaces. `replaceAll` makes a string of many parts, which takes long to read. */
export const toGramBody = (mark: string, grams: string): string =>
  `${mark} ${mark}${grams.split(" ").join(` ${mark}`)}`;

/** Any of the terms: hardly a question has all its words in one passage. */
export const renderMatch = (terms: readonly Term[]): string =>
  terms.map(({ text, prefix }) => `"${text}"${prefix ? "*" : ""}`).join(" OR ");

/** Letters for which `toStem` returns what FTS5 makes. It does not for those with several marks, as Vietnamese has them. */
const KNOWN =
  /^[a-z0-9\u00df-\u00f6\u00f8-\u017f\u03b1-\u03c9\u0430-\u045f\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fcc\uac00-\ud7a3]+$/;

/** Returns the entry of a word in the index; undefined if FTS5 alone knows it. */
export const toEntry = (word: string): string | undefined =>
  KNOWN.test(word) ? toStem(word) : undefined;

/** So many numbers of chunks are kept: 16 MB. */
const MAX_KEPT = 4_000_000;
const PAGE = 1024;

/** A number as FTS5 writes it, seven bits a byte, and where the next one begins. */
function readNumber(bytes: Uint8Array, from: number): [number, number] {
  let value = 0;
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    value = value * 128 + (byte & 127);
    if (byte < 128) return [value, at + 1];
  }
  return [value, bytes.length];
}

/**
 * Which chunks have a word or an n-gram. The lists are kept until the index changes: those of frequent words are long, and
 * most questions have some of them.
 */
export class Postings {
  readonly #sql: Statements;
  readonly #lists = new Map<string, Uint32Array>();
  #kept = 0;
  #totals: { chunks: number; words: number } | undefined;
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

  /** The chunks that have an n-gram, or all that have n-grams if it is empty. */
  ofGram(mark: string, gram: string): Uint32Array {
    const match = `"${mark}${gram}"`;
    return this.#list(
      match,
      "SELECT json_group_array(rowid) AS seqs FROM grams WHERE grams MATCH ?",
      match,
    );
  }

  /** The chunks that have a word, each as often as it has the word if the word has an entry. In order. */
  ofWord(term: Term): Uint32Array {
    const entry = toEntry(term.text);
    const key = `${term.prefix ? "*" : "="}${term.text}`;
    if (entry === undefined)
      return this.#list(
        key,
        "SELECT json_group_array(rowid) AS seqs FROM words WHERE words MATCH ?",
        renderMatch([term]),
      );
    const places = "SELECT json_group_array(doc) AS seqs FROM word_places WHERE";
    if (!term.prefix) return this.#list(key, `${places} term = ?`, entry);
    return this.#list(key, `${places} term >= ? AND term < ?`, entry, `${entry}\u{10ffff}`).sort();
  }

  /** How many chunks the index of words has, and how many words, as FTS5 counts them. */
  get totals(): { chunks: number; words: number } {
    if (!this.#totals) {
      const block =
        this.#sql.get<{ block: Uint8Array }>("SELECT block FROM words_data WHERE id = 1")?.block ??
        new Uint8Array();
      const [chunks, at] = readNumber(block, 0);
      this.#totals = { chunks, words: readNumber(block, at)[0] };
    }
    return this.#totals;
  }

  /** How many words a chunk has. */
  getLength(seq: number): number {
    const number = Math.floor(seq / PAGE);
    // A page that was read before the chunk was there has no words for it.
    return (
      this.#lengths.get(number)?.[seq % PAGE] || (this.#readLengths(number)[seq % PAGE] as number)
    );
  }

  #readLengths(number: number): Uint32Array {
    const page = new Uint32Array(PAGE);
    const rows = this.#sql.all<{ id: number; sz: Uint8Array }>(
      "SELECT id, sz FROM words_docsize WHERE id >= ? AND id < ?",
      number * PAGE,
      (number + 1) * PAGE,
    );
    for (const { id, sz } of rows) [page[id % PAGE]] = readNumber(sz, 0);
    this.#lengths.set(number, page);
    return page;
  }
}
