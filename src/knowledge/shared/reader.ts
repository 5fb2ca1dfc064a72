import type { Sql, SqlDatabase } from "../../store/sql.ts";
import { toPassage, toPassagePage, type PassageRow, toDocumentRecord } from "../db/rows.ts";
import {
  MAX_FUSED,
  DEFAULT_LIST,
  MAX_LIST,
  type Pending,
  type ReaderCalls,
  type SearchScope,
} from "../db/protocol.ts";
import { fuseRankings, type Ranked } from "../ranking.ts";
import type { DocumentPage, Passage } from "../types.ts";
import { DOCUMENT_COLUMNS, type SharedRow } from "./documents.ts";
import type { NearestInDatabase } from "./pgvector.ts";
import { rank, marksOf, visibleTo } from "./rank.ts";
import { ScannedVectors } from "./vectors.ts";

type Async<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

/** Longer than a request for vectors may take; another gateway takes the passages over then. */
const CLAIM = "interval '3 minutes'";

const PASSAGES = `
  SELECT c.n, p.text, p.headings, p.page, p.start_at, p.end_at, c.seq, d.id, d.filename, coalesce(d.title, d.found_title) AS title, d.version,
    d.external_id, d.metadata
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (seq, place)
    CROSS JOIN LATERAL (SELECT * FROM knowledge_chunks WHERE seq = given.seq OFFSET 0) AS c
    JOIN knowledge_passages p ON p.seq = c.seq JOIN knowledge_documents d ON d.seq = c.doc
  ORDER BY place`;

const DOCUMENT_PASSAGES = `
  SELECT c.n, p.text, p.headings, p.page, p.start_at, p.end_at, c.seq, d.id, d.filename, coalesce(d.title, d.found_title) AS title, d.version,
    d.external_id, d.metadata
  FROM knowledge_documents d JOIN knowledge_chunks c ON c.doc = d.seq AND c.generation = d.generation
    JOIN knowledge_passages p ON p.seq = c.seq
  WHERE d.id = $1 AND c.n >= $2 ORDER BY c.n LIMIT $3`;

/** How many of a document's chunks have a vector of the model `$1`; 0 if that is null. */
const EMBEDDED = `CASE WHEN $1::text IS NULL THEN 0 ELSE (
  SELECT count(*) FROM knowledge_chunks c JOIN knowledge_vectors v ON v.seq = c.seq
    WHERE c.doc = d.seq AND c.generation = d.generation AND v.model = $1) END`;

const CLAIM_PASSAGES = `
  WITH want AS (
    SELECT c.seq FROM knowledge_chunks c JOIN knowledge_documents d ON d.seq = c.doc AND d.generation = c.generation
    WHERE c.seq > $2 AND NOT EXISTS (SELECT 1 FROM knowledge_vectors v WHERE v.seq = c.seq AND v.model = $1)
      AND NOT EXISTS (SELECT 1 FROM knowledge_claims k WHERE k.seq = c.seq AND k.holder <> $4 AND k.until > now())
    ORDER BY c.seq LIMIT $3)
  INSERT INTO knowledge_claims AS known (seq, holder, until) SELECT seq, $4, now() + ${CLAIM} FROM want ORDER BY seq
  ON CONFLICT (seq) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE known.holder = $4 OR known.until <= now()
  RETURNING seq`;

const CLAIMED = `
  SELECT p.seq, p.text, EXISTS (SELECT 1 FROM knowledge_vectors v WHERE v.seq = p.seq AND v.model = $1) AS done
  FROM knowledge_passages p WHERE p.seq = ANY($2::bigint[]) ORDER BY p.seq`;

/** Takes passages that have no vector, for some minutes. None is left if it returns none. */
async function claimPassages(
  db: SqlDatabase,
  wanted: { model: string; after: number; limit: number; holder: string },
): Promise<Pending[]> {
  const { model, after, limit, holder } = wanted;
  for (;;) {
    const claimed = await db.query<{ seq: number }>(CLAIM_PASSAGES, [model, after, limit, holder]);
    if (claimed.length === 0) return [];
    const rows = await db.query<Pending & { done: boolean }>(CLAIMED, [
      model,
      claimed.map(({ seq }) => seq),
    ]);
    // Another gateway may have claimed a passage and got its vector while the claim waited for that gateway's commit.
    const done = rows.filter((row) => row.done).map(({ seq }) => seq);
    if (done.length > 0)
      await db.query("DELETE FROM knowledge_claims WHERE holder = $1 AND seq = ANY($2::bigint[])", [
        holder,
        done,
      ]);
    if (done.length < rows.length || rows.length === 0)
      return rows.filter((row) => !row.done).map(({ seq, text }) => ({ seq, text }));
  }
}

async function passages(sql: Sql, ranking: readonly Ranked[]): Promise<Passage[]> {
  if (ranking.length === 0) return [];
  const scores = new Map(ranking.map(({ seq, score }) => [seq, score]));
  const rows = await sql.query<PassageRow>(PASSAGES, [ranking.map(({ seq }) => seq)]);
  return rows.map((row) => toPassage(row, scores.get(row.seq) ?? 0));
}

async function visibleDocuments(sql: Sql, scope: SearchScope): Promise<Map<number, number>> {
  const rows = await sql.query<{ seq: number; generation: number }>(
    `SELECT seq, generation FROM knowledge_documents d WHERE tenant = $1 AND generation > 0 AND ${visibleTo(2)}`,
    [scope.tenant, marksOf(scope)],
  );
  return new Map(rows.map(({ seq, generation }) => [seq, generation]));
}

/** What a new version replaces in the meantime is either all there or all gone. */
const atOneMoment = <T>(db: SqlDatabase, work: (sql: Sql) => Promise<T>): Promise<T> =>
  db.transaction(async (sql) => {
    const [, found] = await Promise.all([
      sql.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"),
      work(sql),
    ]);
    return found;
  });

type SharedReader = Async<ReaderCalls> & {
  /** Lets others get vectors for what this one was to. */
  release(): Promise<void>;
};

async function listDocuments(
  db: SqlDatabase,
  ...[tenant, query, model]: Parameters<SharedReader["list"]>
): Promise<DocumentPage> {
  const { limit = DEFAULT_LIST, after, status, agentIds, externalId, externalIdPrefix } = query;
  const most = Math.max(1, Math.min(MAX_LIST, limit));
  const rows = await db.query<SharedRow & { embedded: number }>(
    `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} AS embedded FROM knowledge_documents d
      WHERE tenant = $2 AND ${visibleTo(3)} AND ($4::text IS NULL OR status = $4) AND ($5::text IS NULL OR external_id = $5)
        AND ($8::text IS NULL OR starts_with(external_id, $8))
        AND ($6::text IS NULL OR seq < (SELECT seq FROM knowledge_documents WHERE id = $6 AND tenant = $2))
      ORDER BY seq DESC LIMIT $7`,
    [
      model ?? null,
      tenant,
      marksOf({ tenant, ...(agentIds ? { agentIds } : {}) }),
      status ?? null,
      externalId ?? null,
      after ?? null,
      most + 1,
      externalIdPrefix ?? null,
    ],
  );
  return {
    documents: rows.slice(0, most).map((row) => toDocumentRecord(row, row.embedded)),
    hasMore: rows.length > most,
  };
}

/** What the thread of a gateway that reads does, where many gateways share the documents. `holder` names this one. */
export function createSharedReader(
  db: SqlDatabase,
  holder: string,
  inDatabase: NearestInDatabase | undefined,
): SharedReader {
  const vectors = new ScannedVectors(db);

  const nearest = async (
    sql: Sql,
    scope: SearchScope,
    model: string,
    vector: Float32Array,
  ): Promise<Ranked[]> =>
    inDatabase
      ? inDatabase.nearest(sql, {
          tenant: scope.tenant,
          agents: marksOf(scope),
          model,
          vector,
          limit: MAX_FUSED,
        })
      : vectors.nearest(sql, await visibleDocuments(sql, scope), model, vector, MAX_FUSED);

  return {
    async get(id, model) {
      const [row] = await db.query<SharedRow & { embedded: number }>(
        `SELECT ${DOCUMENT_COLUMNS}, ${EMBEDDED} AS embedded FROM knowledge_documents d WHERE id = $2`,
        [model ?? null, id],
      );
      return row && toDocumentRecord(row, row.embedded);
    },
    async settledIds(ids) {
      const rows = await db.query<{ id: string }>(
        "SELECT id FROM unnest($1::text[]) AS given (id) LEFT JOIN knowledge_documents d USING (id) WHERE d.status IS NULL OR d.status IN ('ready', 'failed')",
        [ids],
      );
      return rows.map(({ id }) => id);
    },
    list: (tenant, query, model) => listDocuments(db, tenant, query, model),
    async search(query, vector) {
      if (vector && !inDatabase) await vectors.catchUp(vector.model, vector.vector.length);
      return atOneMoment(db, async (sql) => {
        if (!vector) return passages(sql, await rank(sql, query));
        const byWords = await rank(sql, { ...query, limit: Math.max(MAX_FUSED, query.limit) });
        const byMeaning = await nearest(sql, query, vector.model, vector.vector);
        return passages(sql, fuseRankings([byWords, byMeaning]).slice(0, query.limit));
      });
    },
    async passages(id, { from = 0, limit = DEFAULT_LIST }) {
      const most = Math.max(1, Math.min(MAX_LIST, limit));
      return toPassagePage(
        await db.query<PassageRow>(DOCUMENT_PASSAGES, [id, from, most + 1]),
        most,
      );
    },
    async has(scope) {
      const found = await db.query(
        `SELECT 1 AS found FROM knowledge_documents d WHERE tenant = $1 AND generation > 0 AND ${visibleTo(2)} LIMIT 1`,
        [scope.tenant, marksOf(scope)],
      );
      return found.length > 0;
    },
    rank: (query) => atOneMoment(db, (sql) => rank(sql, query)),
    pending: (model, after, limit) => claimPassages(db, { model, after, limit, holder }),
    release: async () =>
      void (await db.query("DELETE FROM knowledge_claims WHERE holder = $1", [holder])),
  };
}
