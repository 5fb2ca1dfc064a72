import { places, type DocumentCatalog } from "../catalog/catalog.ts";
import { createCatalogReader, FOUND, type SearchScope } from "../catalog/reader.ts";
import { agentMark, PASSAGE_COLUMNS, toPassage, type PassageRow } from "../catalog/rows.ts";
import { readQuestion, type Question } from "../words/tokenize.ts";
import type { Passage } from "../types.ts";
import { LocalIndex } from "./local-index.ts";
import { ChunkRanking } from "./rank.ts";
import { fuseGrams, fuseRankings, type Ranked } from "../ranking.ts";
import { getLeastShare } from "../relevance.ts";
import { Vectors } from "./vectors.ts";

/** So many of each ranking are fused. */
export const MAX_FUSED = 100;
/** A search is done again so many times if documents that it found were deleted or replaced before their passages were read. */
const MAX_TRIES = 3;

export interface WordsQuery extends SearchScope {
  text: string;
  limit: number;
  /** Leaves out passages that have too little of the question. */
  relevantOnly?: boolean;
}

/** A vector of the question, and its model. */
type NearVector = { model: string; vector: Float32Array } | undefined;

/** Documents of a scope, as a condition with a value for each of its marks. */
function visible({ tenant, agentIds }: SearchScope): { condition: string; values: string[] } {
  if (agentIds === undefined) return { condition: "tenant = ?", values: [tenant] };
  const any = agentIds.map(() => " OR instr(agents, ?) > 0").join("");
  return {
    condition: `tenant = ? AND (agents = ''${any})`,
    values: [tenant, ...agentIds.map(agentMark)],
  };
}

/** The calls of the thread that reads and searches. */
export async function createReader(catalog: DocumentCatalog, file: string) {
  const index = await LocalIndex.open(file, catalog, () => ranking.forget());
  const { sql } = index;
  const ranking = new ChunkRanking(sql);
  const vectors = new Vectors(catalog);

  const getLanguages = (tenant: string): string[] =>
    sql
      .all<{ language: string }>("SELECT language FROM languages WHERE tenant = ?", tenant)
      .map(({ language }) => language);

  const keepRelevant = (ranked: readonly Ranked[], { terms, grams }: Question): Ranked[] => {
    const least = getLeastShare(terms);
    const seqs = ranked.map(({ seq }) => seq);
    const words = ranking.coverByWords(terms, seqs);
    const isCovered = ({ seq }: Ranked): boolean => words.getShare(seq) >= least;
    if (grams.length === 0 || ranked.every(isCovered)) return ranked.filter(isCovered);
    const byGrams = ranking.coverByGrams(grams, seqs);
    return ranked.filter((one) => isCovered(one) || byGrams.getShare(one.seq) >= least);
  };

  const rank = (query: WordsQuery): Ranked[] => {
    const question = readQuestion(query.text, getLanguages(query.tenant));
    const { terms, grams, isTelling } = question;
    if (terms.length === 0 || (query.relevantOnly && !isTelling)) return [];
    const deep = grams.length === 0 ? query : { ...query, limit: Math.max(MAX_FUSED, query.limit) };
    const scope = visible(deep);
    const words = ranking.byWords(terms, scope, deep.limit);
    const ranked = fuseGrams(words, ranking.byGrams(grams, scope, deep.limit)).slice(
      0,
      query.limit,
    );
    return query.relevantOnly ? keepRelevant(ranked, question) : ranked;
  };

  const rankAll = async (query: WordsQuery, near: NearVector): Promise<Ranked[]> => {
    if (!near) return rank(query);
    const byWords = rank({ ...query, limit: Math.max(MAX_FUSED, query.limit) });
    const { condition, values } = visible(query);
    const rows = sql.all<{ seq: number; generation: number }>(
      `SELECT seq, generation FROM documents WHERE ${condition}`,
      ...values,
    );
    const byMeaning = await vectors.nearest(
      new Map(rows.map(({ seq, generation }) => [seq, generation])),
      near.model,
      near.vector,
      MAX_FUSED,
    );
    return fuseRankings([byWords, byMeaning]).slice(0, query.limit);
  };

  const readPassages = async (ranked: readonly Ranked[]): Promise<Passage[]> => {
    if (ranked.length === 0) return [];
    const rows = await catalog.query<PassageRow & { seq: number }>(
      `SELECT p.seq, ${PASSAGE_COLUMNS} FROM ${FOUND} WHERE p.seq IN ${places(ranked.length)}`,
      ranked.map(({ seq }) => seq),
    );
    const found = new Map(rows.map(({ seq, ...row }) => [seq, row]));
    return ranked.flatMap(({ seq, score }) => {
      const row = found.get(seq);
      if (!row) return [];
      const { number: _, ...passage } = toPassage(row);
      return [{ ...passage, score }];
    });
  };

  return {
    ...createCatalogReader(catalog),
    /** By words, and by a vector if there is one. Finds all that was ready when it was asked. */
    async search(query: WordsQuery, near: NearVector): Promise<Passage[]> {
      for (let tries = 1; ; tries++) {
        await index.catchUp();
        const ranked = await rankAll(query, near);
        const passages = await readPassages(ranked);
        // Passages that a new version replaces meanwhile are either all there or all gone.
        if (passages.length === ranked.length || tries === MAX_TRIES) return passages;
      }
    },
    /** Ranks passages by words alone, without their texts. */
    async rank(query: WordsQuery): Promise<Ranked[]> {
      await index.catchUp();
      return rank(query);
    },
    /** Takes into the index what is new, before a search has to. */
    catchUp: () => index.catchUp(),
    close: () => index.close(),
  };
}
