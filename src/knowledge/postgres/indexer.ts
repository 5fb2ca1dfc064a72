import type { Db, Sql } from "../../store/postgres/db.ts";
import { CHUNKS_A_PART, readLines } from "../db/lines.ts";
import type { IndexedPart, IndexPart } from "../db/protocol.ts";
import type { ChunkLine } from "../extract/extractor.ts";
import { addSize, DOCUMENT, dropChunks, dropDocuments, lockDocument, lockTenant, type SharedRow } from "./documents.ts";
import type { Files } from "./files.ts";
import { chunkTokens } from "./terms.ts";

interface Found {
  tenant: string;
}

const isUnderWork = (row: Pick<SharedRow, "building" | "status">, generation: number): boolean =>
  row.building === generation && (row.status === "extracting" || row.status === "indexing");

/** The document, locked, where the work on this generation of its index still is what is wanted. */
export async function lockWork(sql: Sql, { id, generation }: { id: string; generation: number }): Promise<SharedRow | undefined> {
  const row = await lockDocument(sql, id);
  return row && isUnderWork(row, generation) ? row : undefined;
}

const literal = (tokens: readonly bigint[]): string => `{${tokens.join(",")}}`;

/** `tokens` come as texts: lists of lists would have to be of one length. */
const INSERT = `
  WITH given AS (
    SELECT * FROM unnest($3::int[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[], $10::int[])
      AS g (n, words, tokens, text, headings, page, start_at, end_at)),
  added AS (
    INSERT INTO knowledge_chunks (doc, generation, n, words, tokens)
      SELECT $1, $2, n, words, tokens::bigint[] FROM given ORDER BY n RETURNING seq, n)
  INSERT INTO knowledge_passages (seq, text, headings, page, start_at, end_at)
    SELECT added.seq, text, headings, page, start_at, end_at FROM added JOIN given USING (n)`;

async function insertChunks(
  sql: Sql,
  { seq, tenant }: SharedRow,
  generation: number,
  first: number,
  chunks: readonly ChunkLine[],
): Promise<void> {
  if (chunks.length === 0) return;
  const found = chunks.map(({ words }) => chunkTokens(tenant, words));
  await sql.query(INSERT, [
    seq,
    generation,
    chunks.map((_, index) => first + index),
    found.map(({ length }) => length),
    found.map(({ tokens }) => literal(tokens)),
    chunks.map(({ text }) => text),
    chunks.map(({ headings }) => JSON.stringify(headings)),
    chunks.map(({ page }) => page),
    chunks.map(({ start }) => start),
    chunks.map(({ end }) => end),
  ]);
}

/** In one step the new chunks can be found, and the old ones and what the document replaces cannot. */
async function makeVisible(sql: Sql, files: Files, row: SharedRow, { generation, done, now }: IndexPart): Promise<string[]> {
  const [built] = await sql.query<{ words: number }>(
    "SELECT coalesce(sum(words), 0)::bigint AS words FROM knowledge_chunks WHERE doc = $1 AND generation = $2",
    [row.seq, generation],
  );
  const words = built?.words ?? 0;
  await sql.query(
    `UPDATE knowledge_documents SET status = 'ready', error = NULL, replaces = NULL, generation = $2, mime_type = $3, found_title = $4,
      page_count = $5, chunk_count = $6, indexed = $7, words = $8, holder = NULL, lease = NULL WHERE seq = $1`,
    [row.seq, generation, done.mimeType, done.title, done.pages, done.chunks, now, words],
  );
  await dropChunks(sql, [row.seq], generation);
  const replaced = await sql.query<SharedRow>(
    `SELECT ${DOCUMENT} FROM knowledge_documents WHERE tenant = $1 AND (id = $2 OR (external_id = $3 AND version < $4)) ORDER BY seq FOR UPDATE`,
    [row.tenant, row.replaces, row.external_id, row.version],
  );
  await dropDocuments(sql, files, replaced);
  const before = row.generation > 0 ? { chunks: row.chunk_count, words: row.words } : { chunks: 0, words: 0 };
  await addSize(sql, row.tenant, { chunks: done.chunks - before.chunks, words: words - before.words });
  return replaced.map(({ id }) => id);
}

/** Indexes the next chunks of a document; after the last of them it can be found. */
export async function indexPart(db: Db, files: Files, part: IndexPart): Promise<IndexedPart> {
  const read = readLines(part.file, part.offset, CHUNKS_A_PART);
  const chunks = read.lines.map((line) => JSON.parse(line) as ChunkLine);
  const next = part.first + chunks.length;
  const tenant = await db.transaction(async (sql): Promise<Found | undefined> => {
    const row = await lockWork(sql, part);
    if (!row) return undefined;
    await insertChunks(sql, row, part.generation, part.first, chunks);
    if (row.status !== "indexing") await sql.query("UPDATE knowledge_documents SET status = 'indexing' WHERE seq = $1", [row.seq]);
    return row;
  });
  if (!tenant) return { state: "stale" };
  if (read.rest && next < part.done.chunks) return { state: "more", offset: read.offset, next };
  return db.transaction(async (sql): Promise<IndexedPart> => {
    await lockTenant(sql, db.address.schema, tenant.tenant);
    const row = await lockWork(sql, part);
    return row ? { state: "ready", removed: await makeVisible(sql, files, row, part) } : { state: "stale" };
  });
}
