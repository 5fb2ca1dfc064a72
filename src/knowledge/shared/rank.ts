import { MAX_FUSED, type SearchScope, type WordsQuery } from "../db/protocol.ts";
import { agentMark } from "../db/rows.ts";
import type { Sql } from "../../store/sql.ts";
import { BM25, fuseGrams, Scores, toIdf, type Ranked, type WordRanked } from "../ranking.ts";
import { Coverage, getLeastShare } from "../relevance.ts";
import { readQuestion } from "../tokenize.ts";
import { getAskedGrams, getAskedWords, LEVELS, type Asked } from "./terms.ts";

/** Whether one of the agents may see a document; `$n` is null for all of the tenant's. */
export const visibleTo = (n: number): string =>
  `($${n}::text[] IS NULL OR d.agents = '' OR EXISTS (SELECT 1 FROM unnest($${n}::text[]) AS mark WHERE strpos(d.agents, mark) > 0))`;

export const marksOf = ({ agentIds }: SearchScope): string[] | null =>
  agentIds?.map(agentMark) ?? null;

const { k1: K1, b: B } = BM25;

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

const numberAt = (list: Buffer, at: number): number =>
  list.readUInt32BE(at) * HALF + list.readUInt32BE(at + 4);

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

/** A ranking, and which share of the question each chunk has if the query asks for what is relevant. */
interface Ranking {
  ranked: WordRanked[];
  coverage: Coverage | undefined;
}

/** Ranks chunks by BM25: what an agent may not see counts for the weight of a word but is never among the ranked. */
async function rankBy(
  sql: Sql,
  query: WordsQuery,
  asked: readonly Asked[],
  { size, excluded, unseen }: View,
): Promise<Ranking> {
  const mean = size.words / size.chunks;
  const scores = new Scores();
  const coverage = query.relevantOnly ? new Coverage(size.chunks) : undefined;
  const sum = ({ weight, ...of }: Omit<Asked, "tokens">, lists: readonly Postings[]): void => {
    const having = lists.reduce(
      (count, { chunks }) => count + (chunks.length - HEAD + 4) / STEP,
      0,
    );
    const cover = coverage?.addTerm(having, of);
    const idf = toIdf(size.chunks, having);
    for (const { level, chunks, docs: owners } of lists) {
      const frequency = LEVELS[level] as number;
      const most = weight * idf * frequency * (K1 + 1);
      for (let at = HEAD; at < chunks.length; at += STEP) {
        if (owners && unseen.has(numberAt(owners, at))) continue;
        const low = chunks.readUInt32BE(at + 4);
        const seq = chunks.readUInt32BE(at) * 65536 + (low >>> 16);
        cover?.(seq);
        scores.add(seq, most / (frequency + K1 * (1 - B + (B * (low & 0xffff)) / mean)));
      }
    }
  };
  const text = unseen.size === 0 ? POSTINGS : POSTINGS_WITH_DOCUMENTS;
  // All queries are sent at the same time, and each result is summed up while PostgreSQL executes the next query.
  await Promise.all(
    asked.map(async ({ tokens, ...of }) =>
      sum(of, await sql.query<Postings>(text, [tokens, excluded])),
    ),
  );
  const best = scores.best(query.limit);
  if (best.length === 0) return { ranked: [], coverage };
  const visible = await sql.query<{ seq: number; grams: number }>(VISIBLE, [
    query.tenant,
    marksOf(query),
    best.map(({ seq }) => seq),
  ]);
  const seen = new Map(visible.map(({ seq, grams }) => [seq, grams]));
  const ranked = best.flatMap(({ seq, score }) =>
    seen.has(seq) ? [{ seq, score, hasGrams: (seen.get(seq) ?? 0) > 0 }] : [],
  );
  return { ranked, coverage };
}

async function getLanguages(sql: Sql, tenant: string): Promise<string[]> {
  const text = "SELECT language FROM knowledge_languages WHERE tenant = $1";
  return (await sql.query<{ language: string }>(text, [tenant])).map(({ language }) => language);
}

/** Ranks chunks by what the tenant can find: by words, and by n-grams if passages have them. The caller's transaction sees one moment. */
export async function rank(sql: Sql, query: WordsQuery): Promise<Ranked[]> {
  const [view, languages] = await Promise.all([
    getView(sql, query),
    getLanguages(sql, query.tenant),
  ]);
  const { terms, grams, isTelling } = readQuestion(query.text, languages);
  if (!view || terms.length === 0 || (query.relevantOnly && !isTelling)) return [];
  const deep = grams.length === 0 ? query : { ...query, limit: Math.max(MAX_FUSED, query.limit) };
  const [byWords, byGrams] = await Promise.all([
    rankBy(sql, deep, getAskedWords(query.tenant, terms), view),
    grams.length === 0 ? undefined : rankBy(sql, deep, getAskedGrams(query.tenant, grams), view),
  ]);
  const ranked = fuseGrams(byWords.ranked, byGrams?.ranked ?? []).slice(0, query.limit);
  if (!query.relevantOnly) return ranked;
  const least = getLeastShare(terms);
  return ranked.filter(({ seq }) =>
    [byWords, byGrams].some((by) => (by?.coverage?.getShare(seq) ?? 0) >= least),
  );
}
