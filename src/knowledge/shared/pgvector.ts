import type { Sql, SqlDatabase } from "../../store/sql.ts";
import type { NewVector } from "../db/protocol.ts";
import type { Ranked } from "../ranking.ts";

const PAGE = 500;

export interface NearestInDatabase {
  /** Keeps vectors also in the form that the extension compares, in the caller's transaction. */
  put(sql: Sql, model: string, vectors: readonly NewVector[]): Promise<void>;
  /** The nearest passages of a scope, best first. \`agents\`: marks of which a document has one, or null for all documents. */
  nearest(sql: Sql, query: NearestQuery): Promise<Ranked[]>;
}

interface NearestQuery {
  tenant: string;
  agents: readonly string[] | null;
  model: string;
  vector: Float32Array;
  limit: number;
}

const textOf = (vector: Float32Array): string => `[${vector.join(",")}]`;

/** The schema that pgvector was put into; undefined if this database does not have the extension. */
async function schemaOf(db: SqlDatabase): Promise<string | undefined> {
  const [row] = await db.query<{ name: string }>(
    "SELECT quote_ident(n.nspname) AS name FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
  );
  return row?.name;
}

/**
 * Compares vectors in the database, by the extension pgvector; undefined if it is not installed. The comparison is exact,
 * over the scope alone: an approximate index would search all tenants first and might find no vector of the tenant.
 * The plain bytes are kept too, so that a gateway still works if the extension is removed.
 */
export async function openPgvector(db: SqlDatabase): Promise<NearestInDatabase | undefined> {
  const schema = await schemaOf(db);
  if (schema === undefined) return undefined;
  const type = `${schema}.vector`;
  await db.transaction(async (sql) => {
    await sql.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7420))", [
      `rouse ${db.schema}`,
    ]);
    await sql.query(`CREATE TABLE IF NOT EXISTS knowledge_embeddings (
      seq bigint PRIMARY KEY REFERENCES knowledge_vectors (seq) ON DELETE CASCADE, model text NOT NULL, dimension int NOT NULL, embedding ${type} NOT NULL)`);
  });
  const insert = `INSERT INTO knowledge_embeddings (seq, model, dimension, embedding)
    SELECT seq, $1, dimension, embedding::${type} FROM unnest($2::bigint[], $3::int[], $4::text[]) AS g (seq, dimension, embedding)
    ON CONFLICT (seq) DO NOTHING`;

  const nearest: NearestInDatabase = {
    async put(sql, model, vectors) {
      const kept = vectors.flatMap(({ seq, vector }) => (vector ? [{ seq, vector }] : []));
      if (kept.length === 0) return;
      await sql.query(insert, [
        model,
        kept.map(({ seq }) => seq),
        kept.map(({ vector }) => vector.length),
        kept.map(({ vector }) => textOf(vector)),
      ]);
    },
    // The operator is the negative product: of vectors of length one the greatest cosine comes first.
    nearest: (sql, { tenant, agents, model, vector, limit }) =>
      sql.query<Ranked>(
        `SELECT e.seq, -(e.embedding OPERATOR(${schema}.<#>) $1::${type}) AS score
          FROM knowledge_documents d JOIN knowledge_chunks c ON c.doc = d.seq AND c.generation = d.generation
            JOIN knowledge_embeddings e ON e.seq = c.seq
          WHERE d.tenant = $2 AND d.generation > 0
            AND ($3::text[] IS NULL OR d.agents = '' OR EXISTS (SELECT 1 FROM unnest($3::text[]) AS mark WHERE strpos(d.agents, mark) > 0))
            AND e.model = $4 AND e.dimension = $5
          ORDER BY score DESC, e.seq LIMIT $6`,
        [textOf(vector), tenant, agents, model, vector.length, limit],
      ),
  };
  await fill(db, nearest);
  return nearest;
}

/** Brings over what was stored before the extension was there. */
async function fill(db: SqlDatabase, nearest: NearestInDatabase): Promise<void> {
  for (;;) {
    const missing = await db.query<{ seq: number; model: string; vector: Uint8Array }>(
      `SELECT v.seq, v.model, v.vector FROM knowledge_vectors v
        WHERE v.vector IS NOT NULL AND NOT EXISTS (SELECT 1 FROM knowledge_embeddings e WHERE e.seq = v.seq) ORDER BY v.seq LIMIT ${PAGE}`,
    );
    if (missing.length === 0) return;
    const models = Map.groupBy(missing, ({ model }) => model);
    await db.transaction(async (sql) => {
      for (const [model, rows] of models) {
        const vectors = rows.map(({ seq, vector }) => ({
          seq,
          vector: new Float32Array(Uint8Array.from(vector).buffer),
        }));
        // A row that was deleted meanwhile is refused by the reference: lock those that are there.
        const there = await sql.query<{ seq: number }>(
          "SELECT seq FROM knowledge_vectors WHERE seq = ANY($1::bigint[]) FOR KEY SHARE",
          [vectors.map(({ seq }) => seq)],
        );
        const known = new Set(there.map(({ seq }) => seq));
        await nearest.put(
          sql,
          model,
          vectors.filter(({ seq }) => known.has(seq)),
        );
      }
    });
  }
}
