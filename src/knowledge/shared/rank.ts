import { MAX_FUSED, type SearchScope, type WordsQuery } from "../db/protocol.ts";
import { agentMark } from "../db/rows.ts";
import type { Sql } from "../../store/sql.ts";
import { fuseGrams, type Ranked, type WordRanked } from "../ranking.ts";
import { readQuestion, type IndexLanguages } from "../tokenize.ts";
import { getAskedGrams, getAskedWords, LEVELS, type Asked } from "./terms.ts";

/** Whether one of the agents may see a document; `$n` is null for all of the tenant's. */
export const visibleTo = (n: number): string =>
  `($${n}::text[] IS NULL OR d.agents = '' OR EXISTS (SELECT 1 FROM unnest($${n}::text[]) AS mark WHERE strpos(d.agents, mark) > 0))`;

export const marksOf = ({ agentIds }: SearchScope): string[] | null => agentIds?.map(agentMark) ?? null;

/** BM25 as FTS5 has it. */
const K1 = 1.2;
const B = 0.75;
const LEAST_IDF = 1e-6;

const SIZE = "SELECT chunks, words FROM knowledge_sizes WHERE tenant = $1";

/** Documents of which there are chunks that cannot be found: of an index that is being built. */
const BUILDING = `SELECT seq FROM knowledge_documents
  WHERE tenant = $1 AND building > generation AND status IN ('queued', 'extracting', 'indexing')`;

/** Those that the agents may not see. */
const HIDDEN = `SELECT array_send(array_agg(seq)) AS docs FROM knowledge_documents d WHERE tenant = $1 AND agents <> '' AND NOT ${visibleTo(2)}`;

/**
 * The chunks that have a word, by how often they have it: the number of the chunk and how many words it has in 64 bits;
 * and their documents where some are hidden. Packed, since a frequent word is in tens of thousands; they are summed up
 * outside of PostgreSQL, which would take several times as long. Most words have no chunk at the upper levels: one look
 * tells it of several.
 */
const postings = (docs: string): string => `
  SELECT (a.place - 1)::int AS level, array_send(p.chunks) AS chunks, array_send(p.docs) AS docs
  FROM unnest($1::bigint[]) WITH ORDINALITY AS a (token, place) CROSS JOIN LATERAL (
    SELECT array_agg(seq << 16 | least(words, 65535)) AS chunks, ${docs} AS docs FROM knowledge_chunks c
    WHERE tokens @> ARRAY[a.token] AND CASE
        WHEN a.place > 6 THEN EXISTS (SELECT 1 FROM knowledge_chunks WHERE tokens && ($1::bigint[])[7:])
        WHEN a.place > 3 THEN EXISTS (SELECT 1 FROM knowledge_chunks WHERE tokens && ($1::bigint[])[4:6])
        ELSE true END
      AND (doc <> ALL($2::bigint[]) OR EXISTS (SELECT 1 FROM knowledge_documents d WHERE d.seq = c.doc AND d.generation = c.generation))) AS p
  WHERE p.chunks IS NOT NULL`;
const POSTINGS = postings("NULL::bigint[]");
const POSTINGS_WITH_DOCUMENTS = postings("array_agg(doc)");

/**
 * What is given back is of the scope, whatever was summed up. One by one, by their numbers: the planner would look through
 * all chunks of a large document for each.
 */
const VISIBLE = `
  SELECT given.seq, c.gram_count AS grams FROM unnest($3::bigint[]) AS given (seq)
    CROSS JOIN LATERAL (SELECT doc, generation, gram_count FROM knowledge_chunks WHERE seq = given.seq OFFSET 0) AS c
    CROSS JOIN LATERAL (SELECT FROM knowledge_documents d
      WHERE d.seq = c.doc AND d.generation = c.generation AND d.tenant = $1 AND ${visibleTo(2)} OFFSET 0) AS seen`;

interface Postings {
  level: number;
  chunks: Buffer;
  docs: Buffer | null;
}

/** Where the items of a list of 64-bit numbers begin, as PostgreSQL sends it, and how far one is from the next. */
const HEAD = 24;
const STEP = 12;
const HALF = 2 ** 32;

const numberAt = (list: Buffer, at: number): number => list.readUInt32BE(at) * HALF + list.readUInt32BE(at + 4);

/** Sums of scores by chunk. */
class Scores {
  readonly #places = new Map<number, number>();
  #seqs = new Float64Array(1024);
  #sums = new Float64Array(1024);

  add(seq: number, score: number): void {
    const known = this.#places.get(seq);
    if (known !== undefined) return void ((this.#sums[known] as number) += score);
    const place = this.#places.size;
    if (place === this.#seqs.length) {
      [this.#seqs, this.#sums] = [this.#seqs, this.#sums].map((old) => {
        const larger = new Float64Array(old.length * 2);
        larger.set(old);
        return larger;
      }) as [Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>];
    }
    this.#places.set(seq, place);
    this.#seqs[place] = seq;
    this.#sums[place] = score;
  }

  /** Best first; of equal ones the one that is there longer. */
  best(limit: number): Ranked[] {
    const inOrder = (a: Ranked, b: Ranked): number => b.score - a.score || a.seq - b.seq;
    let best: Ranked[] = [];
    let least = -Infinity;
    for (let place = 0; place < this.#places.size; place++) {
      const score = this.#sums[place] as number;
      if (score < least) continue;
      best.push({ seq: this.#seqs[place] as number, score });
      if (best.length < limit * 2 + 100) continue;
      best = best.toSorted(inOrder).slice(0, limit);
      least = best.at(-1)?.score ?? least;
    }
    return best.toSorted(inOrder).slice(0, limit);
  }
}

/** What of a tenant's documents a question sees. */
interface View {
  size: { chunks: number; words: number };
  /** Documents whose index is being built. */
  excluded: number[];
  unseen: ReadonlySet<number>;
}

async function getView(sql: Sql, query: WordsQuery): Promise<View | undefined> {
  const scope = [query.tenant, marksOf(query)];
  const [[size], building, hidden] = await Promise.all([
    sql.query<{ chunks: number; words: number }>(SIZE, [query.tenant]),
    sql.query<{ seq: number }>(BUILDING, [query.tenant]),
    query.agentIds === undefined ? [] : sql.query<{ docs: Buffer | null }>(HIDDEN, scope),
  ]);
  if (!size || size.chunks <= 0) return undefined;
  const unseen = new Set<number>();
  const docs = hidden[0]?.docs;
  if (docs) for (let at = HEAD; at < docs.length; at += STEP) unseen.add(numberAt(docs, at));
  return { size, excluded: building.map(({ seq }) => seq), unseen };
}

/** Ranks chunks by BM25: what an agent may not see counts for the weight of a word but is never among the ranked. */
async function rankBy(sql: Sql, query: WordsQuery, asked: readonly Asked[], { size, excluded, unseen }: View): Promise<WordRanked[]> {
  const mean = size.words / size.chunks;
  const scores = new Scores();
  const sum = (weight: number, lists: readonly Postings[]): void => {
    const having = lists.reduce((count, { chunks }) => count + (chunks.length - HEAD + 4) / STEP, 0);
    const idf = Math.max(Math.log(Math.max(size.chunks - having + 0.5, 0.5) / (having + 0.5)), LEAST_IDF);
    for (const { level, chunks, docs: owners } of lists) {
      const frequency = LEVELS[level] as number;
      const most = weight * idf * frequency * (K1 + 1);
      for (let at = HEAD; at < chunks.length; at += STEP) {
        if (owners && unseen.has(numberAt(owners, at))) continue;
        const low = chunks.readUInt32BE(at + 4);
        const seq = chunks.readUInt32BE(at) * 65536 + (low >>> 16);
        scores.add(seq, most / (frequency + K1 * (1 - B + (B * (low & 0xffff)) / mean)));
      }
    }
  };
  const text = unseen.size === 0 ? POSTINGS : POSTINGS_WITH_DOCUMENTS;
  // All queries are sent at the same time, and each result is summed up while PostgreSQL executes the next query.
  await Promise.all(asked.map(async ({ weight, tokens }) => sum(weight, await sql.query<Postings>(text, [tokens, excluded]))));
  const best = scores.best(query.limit);
  if (best.length === 0) return [];
  const visible = await sql.query<{ seq: number; grams: number }>(VISIBLE, [query.tenant, marksOf(query), best.map(({ seq }) => seq)]);
  const seen = new Map(visible.map(({ seq, grams }) => [seq, grams]));
  return best.flatMap(({ seq, score }) => (seen.has(seq) ? [{ seq, score, hasGrams: (seen.get(seq) ?? 0) > 0 }] : []));
}

const LANGUAGES = `
  SELECT ARRAY(SELECT language FROM knowledge_languages WHERE tenant = $1) AS codes,
    EXISTS (SELECT FROM knowledge_documents WHERE tenant = $1 AND form = 0 AND generation > 0) AS "isOld"`;

async function getLanguages(sql: Sql, tenant: string): Promise<IndexLanguages> {
  const [languages] = await sql.query<IndexLanguages>(LANGUAGES, [tenant]);
  return languages ?? { codes: [], isOld: false };
}

/** Ranks chunks by what the tenant can find: by words, and by n-grams if passages have them. The caller's transaction sees one moment. */
export async function rank(sql: Sql, query: WordsQuery): Promise<Ranked[]> {
  const [view, languages] = await Promise.all([getView(sql, query), getLanguages(sql, query.tenant)]);
  const { terms, grams } = readQuestion(query.text, languages);
  if (!view || terms.length === 0) return [];
  const words = getAskedWords(query.tenant, terms);
  if (grams.length === 0) return rankBy(sql, query, words, view);
  const deep = { ...query, limit: Math.max(MAX_FUSED, query.limit) };
  const byWords = rankBy(sql, deep, words, view);
  const byGrams = rankBy(sql, deep, getAskedGrams(query.tenant, grams), view);
  return fuseGrams(await byWords, await byGrams).slice(0, query.limit);
}
