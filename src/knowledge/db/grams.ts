import { hash } from "node:crypto";
import type { Statements } from "../../store/sqlite/statements.ts";
import type { Ranked } from "../ranking.ts";

/**
 * The index of n-grams. FTS5 keeps only which chunks have an n-gram, without places and frequencies: a text has several times as
 * many n-grams as words. Each is kept with a mark of its tenant, so that a look brings only chunks of that tenant; the mark
 * alone stands for all of them.
 */
const toMark = (tenant: string): string => BigInt(`0x${hash("sha256", tenant).slice(0, 15)}`).toString(36);

/** What `grams` holds of a chunk. */
export function toGramBody(tenant: string, grams: readonly string[]): string {
  const mark = toMark(tenant);
  return `${mark} ${grams.map((gram) => mark + gram).join(" ")}`;
}

/** BM25 as for words, where each n-gram is there once. */
const K1 = 1.2;
const B = 0.75;
const LEAST_IDF = 1e-6;
/** So many more than are wanted are compared by their lengths too. */
const MARGIN = 3;

interface Found extends Ranked {
  length: number;
}

/** The condition of a scope on documents, as SQL with its values. */
interface Visible {
  condition: string;
  values: readonly string[];
}

/** Of chunks, best first, those that can be found, with their lengths; stops at `most`. */
function listVisible(sql: Statements, ranking: readonly Ranked[], { condition, values }: Visible, most: number): Found[] {
  const text = `SELECT c.seq AS seq, c.gram_count AS length FROM json_each(?) j CROSS JOIN chunks c ON c.seq = j.value
    JOIN documents d ON d.seq = c.doc AND d.generation = c.generation WHERE ${condition}`;
  const found: Found[] = [];
  for (let from = 0; from < ranking.length && found.length < most; from += most) {
    const part = new Map(ranking.slice(from, from + most).map(({ seq, score }) => [seq, score]));
    const rows = sql.all<{ seq: number; length: number }>(text, JSON.stringify([...part.keys()]), ...values);
    for (const { seq, length } of rows) found.push({ seq, length, score: part.get(seq) ?? 0 });
  }
  return found;
}

/** Ranks the chunks of a scope by the n-grams of a question. */
export function rankByGrams(sql: Statements, tenant: string, grams: readonly string[], visible: Visible, limit: number): Ranked[] {
  if (grams.length === 0) return [];
  const mark = toMark(tenant);
  const total = sql.get<{ n: number }>("SELECT count(*) AS n FROM grams WHERE grams MATCH ?", `"${mark}"`)?.n ?? 0;
  const scores = new Map<number, number>();
  for (const gram of grams) {
    const row = sql.get<{ seqs: string }>("SELECT json_group_array(rowid) AS seqs FROM grams WHERE grams MATCH ?", `"${mark}${gram}"`);
    const seqs = JSON.parse(row?.seqs ?? "[]") as number[];
    const idf = Math.max(Math.log((total - seqs.length + 0.5) / (seqs.length + 0.5)), LEAST_IDF);
    for (const seq of seqs) scores.set(seq, (scores.get(seq) ?? 0) + idf);
  }
  const ranking = [...scores].map(([seq, score]) => ({ seq, score })).toSorted((a, b) => b.score - a.score || a.seq - b.seq);
  const found = listVisible(sql, ranking, visible, limit * MARGIN);
  const mean = found.reduce((sum, { length }) => sum + length, 0) / found.length;
  return found
    .map(({ seq, score, length }) => ({ seq, score: (score * (K1 + 1)) / (1 + K1 * (1 - B + (B * length) / mean)) }))
    .toSorted((a, b) => b.score - a.score || a.seq - b.seq)
    .slice(0, limit);
}
