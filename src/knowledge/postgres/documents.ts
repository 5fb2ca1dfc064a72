import { rm } from "node:fs/promises";
import { RouseError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import type { Db, Sql } from "../../store/postgres/db.ts";
import { agentIds, agentsText, recordOf, type DocumentRow } from "../db/rows.ts";
import type { DocumentRecord, NewDocument } from "../types.ts";
import type { Files } from "./files.ts";

/** A document's row; `words` is the length of what can be found of it. */
export type SharedRow = DocumentRow & { words: number };

const SHA256 = /^[0-9a-f]{64}$/;

/** All but the times, which PostgreSQL alone compares. */
export const DOCUMENT = `seq, id, tenant, sha256, bytes, filename, title, found_title, metadata, agents, mime_type, status, error, external_id,
  version, replaces, generation, building, chunk_count, page_count, created, indexed, words`;

/**
 * What becomes of a tenant's documents is decided by one at a time, whichever gateway it is; always before any of the
 * documents is locked, so that no two wait for each other.
 */
export async function lockTenant(sql: Sql, schema: string, tenant: string): Promise<void> {
  await sql.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7422))", [`rouse ${schema} ${tenant}`]);
}

export async function lockDocument(sql: Sql, id: string): Promise<SharedRow | undefined> {
  return (await sql.query<SharedRow>(`SELECT ${DOCUMENT} FROM knowledge_documents WHERE id = $1 FOR UPDATE`, [id]))[0];
}

/** Notes what a tenant has more, or less, that can be found. The last thing of a transaction: others wait for this row. */
export async function addSize(sql: Sql, tenant: string, size: { chunks: number; words: number }): Promise<void> {
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
export async function dropDocuments(sql: Sql, files: Files, rows: readonly SharedRow[]): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const sha256s = [...new Set(rows.map(({ sha256 }) => sha256))];
  await files.lock(sql, sha256s);
  const docs = rows.map(({ seq }) => seq);
  await sql.query("DELETE FROM knowledge_documents WHERE seq = ANY($1::bigint[])", [docs]);
  await dropChunks(sql, docs);
  await files.dropUnused(sql, sha256s);
  const found = rows.filter(({ generation }) => generation > 0);
  const sum = (of: (row: SharedRow) => number): number => found.reduce((total, row) => total - of(row), 0);
  await addSize(sql, first.tenant, { chunks: sum((row) => row.chunk_count), words: sum((row) => row.words) });
}

/** What the tenant has already of these bytes; see the same question in `db/documents.ts`. */
async function duplicateOf(sql: Sql, { tenant, sha256, externalId }: NewDocument): Promise<SharedRow | undefined> {
  const rows = await sql.query<SharedRow>(
    `SELECT ${DOCUMENT} FROM knowledge_documents d
      WHERE tenant = $1 AND sha256 = $2 AND ($3::text IS NULL OR external_id IS NULL OR external_id = $3)
        AND NOT (external_id IS NULL AND $3 IS NOT NULL
          AND EXISTS (SELECT 1 FROM knowledge_documents o WHERE o.tenant = $1 AND o.external_id = $3))
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents n WHERE n.tenant = $1 AND n.external_id = d.external_id AND n.version > d.version)
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents r WHERE r.replaces = d.id)
      ORDER BY seq DESC LIMIT 1`,
    [tenant, sha256, externalId ?? null],
  );
  return rows[0];
}

/** A skipped duplicate gains the agents that were asked for; one that had failed is tried again. */
async function join(sql: Sql, twin: SharedRow, upload: NewDocument): Promise<DocumentRecord> {
  const asked = upload.agentIds ?? [];
  const agents = asked.length === 0 || twin.agents === "" ? "" : agentsText([...agentIds(twin.agents), ...asked]);
  const [row] = await sql.query<SharedRow>(
    `UPDATE knowledge_documents SET agents = $2, external_id = coalesce(external_id, $3),
      error = CASE WHEN status = 'failed' THEN NULL ELSE error END, status = CASE WHEN status = 'failed' THEN 'queued' ELSE status END
      WHERE seq = $1 RETURNING ${DOCUMENT}`,
    [twin.seq, agents, upload.externalId ?? null],
  );
  return recordOf(row as SharedRow);
}

async function lastVersion(sql: Sql, tenant: string, externalId: string): Promise<number> {
  const text = "SELECT max(version) AS version FROM knowledge_documents WHERE tenant = $1 AND external_id = $2";
  return (await sql.query<{ version: number | null }>(text, [tenant, externalId]))[0]?.version ?? 0;
}

async function insert(sql: Sql, upload: NewDocument, twin: SharedRow | undefined, now: number): Promise<DocumentRecord> {
  const externalId = upload.externalId ?? twin?.external_id ?? null;
  const version = externalId === null ? (twin?.version ?? 0) + 1 : (await lastVersion(sql, upload.tenant, externalId)) + 1;
  const [row] = await sql.query<SharedRow>(
    `INSERT INTO knowledge_documents (id, tenant, sha256, bytes, filename, title, metadata, agents, status, external_id, version, replaces, created)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', $9, $10, $11, $12) RETURNING ${DOCUMENT}`,
    [
      newId("doc", now),
      upload.tenant,
      upload.sha256,
      upload.bytes,
      upload.filename,
      upload.title ?? null,
      JSON.stringify(upload.metadata ?? {}),
      agentsText(upload.agentIds ?? []),
      externalId,
      version,
      twin?.id ?? null,
      now,
    ],
  );
  return recordOf(row as SharedRow);
}

/** Takes an upload: its bytes first, then what it is. */
export async function addDocument(
  db: Db,
  files: Files,
  upload: NewDocument,
  now: number,
): Promise<{ document: DocumentRecord; duplicate: boolean }> {
  if (!SHA256.test(upload.sha256)) throw new RouseError({ code: "internal", message: "sha256 must be 64 digits of lower-case hex" });
  const how = upload.onDuplicate ?? "skip";
  for (;;) {
    await files.put(upload.sha256, upload.file);
    const added = await db.transaction(async (sql) => {
      await lockTenant(sql, db.address.schema, upload.tenant);
      // The last document that had the same bytes may have gone meanwhile, and they with it.
      if (!(await files.hold(sql, upload.sha256))) return undefined;
      const twin = how === "keep" ? undefined : await duplicateOf(sql, upload);
      if (twin && how === "error") {
        const message = `the document is there already as ${twin.id}; send on_duplicate "replace" or "keep" to index it all the same`;
        throw new RouseError({ code: "duplicate_document", message, extra: { documentId: twin.id } });
      }
      if (twin && how === "skip") return { document: await join(sql, twin, upload), duplicate: true };
      return { document: await insert(sql, upload, twin, now), duplicate: false };
    });
    if (!added) continue;
    await rm(upload.file, { force: true });
    return added;
  }
}
