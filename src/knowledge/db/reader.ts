import type { SQLInputValue } from "node:sqlite";
import type { Statements } from "../../store/sqlite/statements.ts";
import { fuse, type Ranked } from "../fuse.ts";
import { queryTerms, type Term } from "../tokenize.ts";
import type { Metadata, Passage } from "../types.ts";
import type { ReaderCalls, Scope, WordsQuery } from "./protocol.ts";
import { agentMark, recordOf, type DocumentRow } from "./rows.ts";
import { Vectors } from "./vectors.ts";

const LIST = 50;
const MOST_LISTED = 500;
const NONE = "";
/** So many of each ranking are fused. */
const FUSED = 100;

/** Any of the terms: hardly a question has all its words in one passage. */
const matchOf = (terms: readonly Term[]): string => terms.map(({ text, prefix }) => `"${text}"${prefix ? "*" : ""}`).join(" OR ");

/** Visible chunks of a scope, as a join on `c`: tenant is ?1, the agent's mark ?2, empty for none. */
const VISIBLE = `JOIN documents d ON d.seq = c.doc AND d.generation = c.generation
  WHERE d.tenant = ?1 AND (?2 = '' OR d.agents = '' OR instr(d.agents, ?2) > 0)`;

const markOf = ({ agentId }: Scope): string => (agentId === undefined ? NONE : agentMark(agentId));

interface PassageRow {
  seq: number;
  n: number;
  text: string;
  headings: string;
  page: number | null;
  start_at: number;
  end_at: number;
  id: string;
  filename: string;
  title: string | null;
  version: number;
  external_id: string | null;
  metadata: string;
}

function passageOf(row: PassageRow, score: number): Passage {
  return {
    documentId: row.id,
    id: `${row.id}#${row.n}`,
    filename: row.filename,
    title: row.title,
    text: row.text,
    headings: JSON.parse(row.headings) as string[],
    page: row.page,
    start: row.start_at,
    end: row.end_at,
    score,
    version: row.version,
    externalId: row.external_id,
    metadata: JSON.parse(row.metadata) as Metadata,
  };
}

/** The calls of the thread that reads. */
export function createReader(sql: Statements): ReaderCalls {
  const vectors = new Vectors(sql);
  const embedded = (seq: number, model: string | undefined): number => {
    if (model === undefined) return 0;
    const text = `SELECT count(*) AS n FROM chunks c JOIN documents d ON d.seq = c.doc AND d.generation = c.generation
      JOIN vectors v ON v.seq = c.seq WHERE d.seq = ? AND v.model = ?`;
    return sql.get<{ n: number }>(text, seq, model)?.n ?? 0;
  };

  const rank = (query: WordsQuery): Ranked[] => {
    const terms = queryTerms(query.text);
    if (terms.length === 0) return [];
    return sql.all<Ranked>(
      `SELECT c.seq AS seq, -words.rank AS score FROM words JOIN chunks c ON c.seq = words.rowid
      ${VISIBLE} AND words MATCH ?3 ORDER BY words.rank LIMIT ?4`,
      query.tenant,
      markOf(query),
      matchOf(terms),
      query.limit,
    );
  };

  const nearest = (scope: Scope, model: string, vector: Float32Array): Ranked[] => {
    const text = `SELECT seq, generation FROM documents
      WHERE tenant = ?1 AND generation > 0 AND (?2 = '' OR agents = '' OR instr(agents, ?2) > 0)`;
    const rows = sql.all<{ seq: number; generation: number }>(text, scope.tenant, markOf(scope));
    return vectors.nearest(new Map(rows.map(({ seq, generation }) => [seq, generation])), model, vector, FUSED);
  };

  const passages = (ranking: readonly Ranked[]): Passage[] => {
    const text = `SELECT p.*, d.id, d.filename, coalesce(d.title, d.found_title) AS title, d.version, d.external_id, d.metadata
      FROM chunks c JOIN passages p ON p.seq = c.seq JOIN documents d ON d.seq = c.doc WHERE c.seq = ?`;
    return ranking.flatMap(({ seq, score }) => {
      const row = sql.get<PassageRow>(text, seq);
      return row ? [passageOf(row, score)] : [];
    });
  };

  return {
    get(id, model) {
      const row = sql.get<DocumentRow>("SELECT * FROM documents WHERE id = ?", id);
      return row && recordOf(row, embedded(row.seq, model));
    },
    list(tenant, { limit = LIST, after, status, agentId, externalId }, model) {
      const most = Math.max(1, Math.min(MOST_LISTED, limit));
      const conditions = ["tenant = ?"];
      const values: SQLInputValue[] = [tenant];
      const when = (condition: string, ...of: SQLInputValue[]): void => {
        conditions.push(condition);
        values.push(...of);
      };
      if (after !== undefined) when("seq < (SELECT seq FROM documents WHERE id = ? AND tenant = ?)", after, tenant);
      if (status !== undefined) when("status = ?", status);
      if (agentId !== undefined) when("(agents = '' OR instr(agents, ?) > 0)", agentMark(agentId));
      if (externalId !== undefined) when("external_id = ?", externalId);
      const text = `SELECT * FROM documents WHERE ${conditions.join(" AND ")} ORDER BY seq DESC LIMIT ?`;
      const rows = sql.all<DocumentRow>(text, ...values, most + 1);
      return { documents: rows.slice(0, most).map((row) => recordOf(row, embedded(row.seq, model))), hasMore: rows.length > most };
    },
    search(query, vector) {
      // One transaction: what a new version replaces in the meantime is either all there or all gone.
      sql.db.exec("BEGIN");
      try {
        if (!vector) return passages(rank(query));
        const byWords = rank({ ...query, limit: Math.max(FUSED, query.limit) });
        return passages(fuse([byWords, nearest(query, vector.model, vector.vector)]).slice(0, query.limit));
      } finally {
        sql.db.exec("COMMIT");
      }
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
