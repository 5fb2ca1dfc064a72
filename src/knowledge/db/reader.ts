import type { SQLInputValue } from "node:sqlite";
import type { Statements } from "../../store/sqlite/statements.ts";
import { fuseGrams, fuseRankings, type Ranked } from "../ranking.ts";
import { getLeastShare } from "../relevance.ts";
import { readQuestion, type Question } from "../tokenize.ts";
import type { Passage } from "../types.ts";
import {
  MAX_FUSED,
  DEFAULT_LIST,
  MAX_LIST,
  type ReaderCalls,
  type SearchScope,
  type WordsQuery,
} from "./protocol.ts";
import { ChunkRanking } from "./rank.ts";
import {
  toPassage,
  toPassagePage,
  type PassageRow,
  agentMark,
  toDocumentRecord,
  type DocumentRow,
} from "./rows.ts";
import { Vectors } from "./vectors.ts";

/** Documents of a scope, as a condition with a value for each of its marks. */
function visible({ tenant, agentIds }: SearchScope): { condition: string; values: string[] } {
  if (agentIds === undefined) return { condition: "tenant = ?", values: [tenant] };
  const any = agentIds.map(() => " OR instr(agents, ?) > 0").join("");
  return {
    condition: `tenant = ? AND (agents = ''${any})`,
    values: [tenant, ...agentIds.map(agentMark)],
  };
}

const PASSAGES = `SELECT p.*, d.id, d.filename, coalesce(d.title, d.found_title) AS title, d.version, d.external_id, d.metadata
  FROM documents d JOIN chunks c ON c.doc = d.seq AND c.generation = d.generation JOIN passages p ON p.seq = c.seq
  WHERE d.id = ? AND p.n >= ? ORDER BY p.n LIMIT ?`;

/** The calls of the thread that reads. */
export function createReader(sql: Statements): ReaderCalls {
  const vectors = new Vectors(sql);
  const ranking = new ChunkRanking(sql);
  const embedded = (seq: number, model: string | undefined): number => {
    if (model === undefined) return 0;
    const text = `SELECT count(*) AS n FROM chunks c JOIN documents d ON d.seq = c.doc AND d.generation = c.generation
      JOIN vectors v ON v.seq = c.seq WHERE d.seq = ? AND v.model = ?`;
    return sql.get<{ n: number }>(text, seq, model)?.n ?? 0;
  };

  const getLanguages = (tenant: string): string[] =>
    sql
      .all<{ language: string }>("SELECT language FROM languages WHERE tenant = ?", tenant)
      .map(({ language }) => language);

  const keepRelevant = (
    ranked: readonly Ranked[],
    { terms, grams }: Question,
    tenant: string,
  ): Ranked[] => {
    const least = getLeastShare(terms);
    const seqs = ranked.map(({ seq }) => seq);
    const words = ranking.coverByWords(terms, seqs);
    const isCovered = ({ seq }: Ranked): boolean => words.getShare(seq) >= least;
    if (grams.length === 0 || ranked.every(isCovered)) return ranked.filter(isCovered);
    const byGrams = ranking.coverByGrams(tenant, grams, seqs);
    return ranked.filter((one) => isCovered(one) || byGrams.getShare(one.seq) >= least);
  };

  const rank = (query: WordsQuery): Ranked[] => {
    const question = readQuestion(query.text, getLanguages(query.tenant));
    const { terms, grams, isTelling } = question;
    if (terms.length === 0 || (query.relevantOnly && !isTelling)) return [];
    const deep = grams.length === 0 ? query : { ...query, limit: Math.max(MAX_FUSED, query.limit) };
    const scope = visible(deep);
    const words = ranking.byWords(terms, scope, deep.limit);
    const ranked = fuseGrams(words, ranking.byGrams(deep.tenant, grams, scope, deep.limit)).slice(
      0,
      query.limit,
    );
    return query.relevantOnly ? keepRelevant(ranked, question, query.tenant) : ranked;
  };

  const nearest = (scope: SearchScope, model: string, vector: Float32Array): Ranked[] => {
    const { condition, values } = visible(scope);
    const text = `SELECT seq, generation FROM documents WHERE generation > 0 AND ${condition}`;
    const rows = sql.all<{ seq: number; generation: number }>(text, ...values);
    return vectors.nearest(
      new Map(rows.map(({ seq, generation }) => [seq, generation])),
      model,
      vector,
      MAX_FUSED,
    );
  };

  const passages = (ranked: readonly Ranked[]): Passage[] => {
    const text = `SELECT p.*, d.id, d.filename, coalesce(d.title, d.found_title) AS title, d.version, d.external_id, d.metadata
      FROM chunks c JOIN passages p ON p.seq = c.seq JOIN documents d ON d.seq = c.doc WHERE c.seq = ?`;
    return ranked.flatMap(({ seq, score }) => {
      const row = sql.get<PassageRow>(text, seq);
      return row ? [toPassage(row, score)] : [];
    });
  };

  return {
    get(id, model) {
      const row = sql.get<DocumentRow>("SELECT * FROM documents WHERE id = ?", id);
      return row && toDocumentRecord(row, embedded(row.seq, model));
    },
    settledIds: (ids) =>
      ids.filter((id) => {
        const row = sql.get<DocumentRow>("SELECT * FROM documents WHERE id = ?", id);
        return !row || row.status === "ready" || row.status === "failed";
      }),
    list(
      tenant,
      { limit = DEFAULT_LIST, after, status, agentIds, externalId, externalIdPrefix: prefix },
      model,
    ) {
      const most = Math.max(1, Math.min(MAX_LIST, limit));
      const scope = visible({ tenant, ...(agentIds ? { agentIds } : {}) });
      const conditions = [scope.condition];
      const values: SQLInputValue[] = [...scope.values];
      const when = (condition: string, ...of: SQLInputValue[]): void => {
        conditions.push(condition);
        values.push(...of);
      };
      if (after !== undefined)
        when("seq < (SELECT seq FROM documents WHERE id = ? AND tenant = ?)", after, tenant);
      if (status !== undefined) when("status = ?", status);
      if (externalId !== undefined) when("external_id = ?", externalId);
      // A range, which the index can look up.
      if (prefix !== undefined)
        when("external_id >= ? AND external_id < ?", prefix, `${prefix}\u{10ffff}`);
      const text = `SELECT * FROM documents WHERE ${conditions.join(" AND ")} ORDER BY seq DESC LIMIT ?`;
      const rows = sql.all<DocumentRow>(text, ...values, most + 1);
      return {
        documents: rows
          .slice(0, most)
          .map((row) => toDocumentRecord(row, embedded(row.seq, model))),
        hasMore: rows.length > most,
      };
    },
    search(query, vector) {
      // One transaction: what a new version replaces in the meantime is either all there or all gone.
      sql.db.exec("BEGIN");
      try {
        if (!vector) return passages(rank(query));
        const byWords = rank({ ...query, limit: Math.max(MAX_FUSED, query.limit) });
        return passages(
          fuseRankings([byWords, nearest(query, vector.model, vector.vector)]).slice(
            0,
            query.limit,
          ),
        );
      } finally {
        sql.db.exec("COMMIT");
      }
    },
    passages(id, { from = 0, limit = DEFAULT_LIST }) {
      const most = Math.max(1, Math.min(MAX_LIST, limit));
      return toPassagePage(sql.all<PassageRow>(PASSAGES, id, from, most + 1), most);
    },
    has(scope) {
      const { condition, values } = visible(scope);
      return (
        sql.get(
          `SELECT 1 FROM documents WHERE generation > 0 AND ${condition} LIMIT 1`,
          ...values,
        ) !== undefined
      );
    },
    rank,
    pending: (model, after, limit) =>
      sql.all(
        `SELECT c.seq AS seq, p.text AS text FROM chunks c JOIN documents d ON d.seq = c.doc AND d.generation = c.generation
        JOIN passages p ON p.seq = c.seq LEFT JOIN vectors v ON v.seq = c.seq AND v.model = ?
        WHERE c.seq > ? AND v.seq IS NULL ORDER BY c.seq LIMIT ?`,
        model,
        after,
        limit,
      ),
  };
}
