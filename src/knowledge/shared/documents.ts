import type { Sql } from "../../store/sql.ts";
import type { DocumentRow } from "../db/rows.ts";
import type { Files } from "./files.ts";

/** A document's row; `words` is the length of what can be found of it. */
export type SharedRow = DocumentRow & { words: number };

/** All but the times, which PostgreSQL alone compares. */
export const DOCUMENT_COLUMNS = `seq, id, tenant, sha256, bytes, filename, title, found_title, metadata, agents, mime_type, status, error, external_id,
  version, replaces, generation, building, chunk_count, page_count, created, indexed, words`;

/**
 * What becomes of a tenant's documents is decided by one at a time, whichever gateway it is; always before any of the
 * documents is locked, so that no two wait for each other.
 */
export async function lockTenant(sql: Sql, schema: string, tenant: string): Promise<void> {
  await sql.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7422))", [
    `rouse ${schema} ${tenant}`,
  ]);
}

export async function lockDocument(sql: Sql, id: string): Promise<SharedRow | undefined> {
  return (
    await sql.query<SharedRow>(
      `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents WHERE id = $1 FOR UPDATE`,
      [id],
    )
  )[0];
}

/** Notes what a tenant has more, or less, that can be found. The last thing of a transaction: others wait for this row. */
export async function addSize(
  sql: Sql,
  tenant: string,
  size: { chunks: number; words: number },
): Promise<void> {
  if (size.chunks === 0 && size.words === 0) return;
  await sql.query(
    `INSERT INTO knowledge_sizes AS known (tenant, chunks, words) VALUES ($1, $2, $3)
      ON CONFLICT (tenant) DO UPDATE SET chunks = known.chunks + excluded.chunks, words = known.words + excluded.words`,
    [tenant, size.chunks, size.words],
  );
}

/** Deletes those chunks of documents that are of another generation than `keep`, with all that hangs on them. */
export async function dropChunks(sql: Sql, docs: readonly number[], keep = -1): Promise<void> {
  const gone = await sql.query<{ seq: number }>(
    "DELETE FROM knowledge_chunks WHERE doc = ANY($1::bigint[]) AND generation <> $2 RETURNING seq",
    [docs, keep],
  );
  if (gone.length === 0) return;
  const seqs = gone.map(({ seq }) => seq);
  // Who adds vectors locks the chunk first: none comes after this.
  for (const table of ["knowledge_passages", "knowledge_vectors", "knowledge_claims"])
    await sql.query(`DELETE FROM ${table} WHERE seq = ANY($1::bigint[])`, [seqs]);
}

/** Deletes a tenant's documents with their chunks, words, vectors, and the files that no other document has. Their tenant is locked. */
export async function dropDocuments(
  sql: Sql,
  files: Files,
  rows: readonly SharedRow[],
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const sha256s = [...new Set(rows.map(({ sha256 }) => sha256))];
  await files.lock(sql, sha256s);
  const docs = rows.map(({ seq }) => seq);
  await sql.query("DELETE FROM knowledge_documents WHERE seq = ANY($1::bigint[])", [docs]);
  await dropChunks(sql, docs);
  await files.dropUnused(sql, sha256s);
  const found = rows.filter(({ generation }) => generation > 0);
  const sum = (of: (row: SharedRow) => number): number =>
    found.reduce((total, row) => total - of(row), 0);
  await addSize(sql, first.tenant, {
    chunks: sum((row) => row.chunk_count),
    words: sum((row) => row.words),
  });
}
