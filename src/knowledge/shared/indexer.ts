import type { Sql, SqlDatabase } from "../../store/sql.ts";
import { CHUNKS_A_PART, parseChunkLine, readChunkLines, type ChunkLine } from "../db/lines.ts";
import type { IndexedPart, IndexPart } from "../db/protocol.ts";
import {
  addSize,
  DOCUMENT_COLUMNS,
  dropChunks,
  dropDocuments,
  lockDocument,
  lockTenant,
  type SharedRow,
} from "./documents.ts";
import type { Files } from "./files.ts";
import { INDEX_FORM } from "../tokenize.ts";
import { chunkTokens } from "./terms.ts";

const isUnderWork = (row: Pick<SharedRow, "building" | "status">, generation: number): boolean =>
  row.building === generation && (row.status === "extracting" || row.status === "indexing");

/** The document, locked, where the work on this generation of its index still is what is wanted. */
export async function lockIndexing(
  sql: Sql,
  { id, generation }: { id: string; generation: number },
): Promise<SharedRow | undefined> {
  const row = await lockDocument(sql, id);
  return row && isUnderWork(row, generation) ? row : undefined;
}

/** The tokens of all chunks come in one list; each says where in it its own begin and end. */
const INSERT = `
  WITH given AS (
    SELECT * FROM unnest($4::int[], $5::int[], $6::int[], $7::int[], $8::text[], $9::text[], $10::int[], $11::int[], $12::int[], $13::int[])
      AS g (n, words, tokens_at, tokens_end, text, headings, page, start_at, end_at, grams)),
  added AS (
    INSERT INTO knowledge_chunks (doc, generation, n, words, tokens, gram_count)
      SELECT $1, $2, n, words, ($3::bigint[])[tokens_at:tokens_end], grams FROM given ORDER BY n RETURNING seq, n)
  INSERT INTO knowledge_passages (seq, text, headings, page, start_at, end_at)
    SELECT added.seq, text, headings, page, start_at, end_at FROM added JOIN given USING (n)`;

interface Found {
  tokens: string[];
  length: number;
}

async function insertChunks(
  sql: Sql,
  doc: number,
  { generation, first }: IndexPart,
  chunks: readonly ChunkLine[],
  found: readonly Found[],
): Promise<void> {
  if (chunks.length === 0) return;
  let end = 0;
  const ends = found.map(({ tokens }) => (end += tokens.length));
  await sql.query(INSERT, [
    doc,
    generation,
    `{${found.map(({ tokens }) => tokens.join(",")).join(",")}}`,
    chunks.map((_, index) => first + index),
    found.map(({ length }) => length),
    ends.map((last, index) => last - (found[index]?.tokens.length ?? 0) + 1),
    ends,
    chunks.map(({ text }) => text),
    chunks.map(({ headings }) => JSON.stringify(headings)),
    chunks.map(({ page }) => page),
    chunks.map(({ start }) => start),
    chunks.map(({ end: endAt }) => endAt),
    chunks.map(({ gramCount }) => gramCount),
  ]);
}

const SET_READY = `
  UPDATE knowledge_documents SET status = 'ready', error = NULL, replaces = NULL, generation = $2, mime_type = $3, found_title = $4,
    page_count = $5, chunk_count = $6, indexed = $7, words = $8, form = ${INDEX_FORM}, holder = NULL, lease = NULL WHERE seq = $1`;

/** Notes languages of a tenant's documents, always in the same order: no two transactions wait for each other. */
async function addLanguages(sql: Sql, tenant: string, chunks: readonly ChunkLine[]): Promise<void> {
  const languages = [...new Set(chunks.flatMap((chunk) => chunk.languages))].toSorted();
  if (languages.length === 0) return;
  await sql.query(
    "INSERT INTO knowledge_languages (tenant, language) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING",
    [tenant, languages],
  );
}

/** In one step the new chunks can be found, and those of the document before cannot. */
async function show(
  sql: Sql,
  row: SharedRow,
  { generation, done, now }: IndexPart,
  words: number,
): Promise<void> {
  const before =
    row.generation > 0 ? { chunks: row.chunk_count, words: row.words } : { chunks: 0, words: 0 };
  await Promise.all([
    sql.query(SET_READY, [
      row.seq,
      generation,
      done.mimeType,
      done.title,
      done.pages,
      done.chunks,
      now,
      words,
    ]),
    // The first index of a document has none before it, not even one that was left half-built.
    generation > 1 && dropChunks(sql, [row.seq], generation),
    addSize(sql, row.tenant, { chunks: done.chunks - before.chunks, words: words - before.words }),
  ]);
}

/** Shows a document, and in the same step hides what it takes the place of. Its tenant is locked. */
async function showInstead(
  sql: Sql,
  files: Files,
  row: SharedRow,
  part: IndexPart,
): Promise<string[]> {
  const [built] = await sql.query<{ words: number }>(
    "SELECT coalesce(sum(words), 0)::bigint AS words FROM knowledge_chunks WHERE doc = $1 AND generation = $2",
    [row.seq, part.generation],
  );
  const replaced = await sql.query<SharedRow>(
    `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents WHERE tenant = $1 AND (id = $2 OR (external_id = $3 AND version < $4)) ORDER BY seq FOR UPDATE`,
    [row.tenant, row.replaces, row.external_id, row.version],
  );
  await dropDocuments(sql, files, replaced);
  await show(sql, row, part, built?.words ?? 0);
  return replaced.map(({ id }) => id);
}

/** Indexes the next chunks of a document; after the last of them it can be found. */
export async function indexPart(
  db: SqlDatabase,
  files: Files,
  part: IndexPart,
): Promise<IndexedPart> {
  const read = readChunkLines(part.file, part.offset, CHUNKS_A_PART);
  const chunks = read.lines.map(parseChunkLine);
  const next = part.first + chunks.length;
  const isLast = !read.rest || next >= part.done.chunks;
  const step = await db.transaction(
    async (sql): Promise<{ ended: IndexedPart } | { tenant: string }> => {
      const row = await lockIndexing(sql, part);
      if (!row) return { ended: { state: "stale" } };
      const found = chunks.map((chunk) => chunkTokens(row.tenant, chunk));
      const inserted = Promise.all([
        insertChunks(sql, row.seq, part, chunks, found),
        addLanguages(sql, row.tenant, chunks),
      ]);
      // Most documents are small and replace no other document: they need neither a second commit nor their tenant's lock.
      if (isLast && part.first === 0 && row.replaces === null && row.external_id === null) {
        const words = found.reduce((sum, { length }) => sum + length, 0);
        await Promise.all([inserted, show(sql, row, part, words)]);
        return { ended: { state: "ready", removed: [] } };
      }
      const isNoted = row.status === "indexing";
      await Promise.all([
        inserted,
        !isNoted &&
          sql.query("UPDATE knowledge_documents SET status = 'indexing' WHERE seq = $1", [row.seq]),
      ]);
      return isLast
        ? { tenant: row.tenant }
        : { ended: { state: "more", offset: read.offset, next } };
    },
  );
  if ("ended" in step) return step.ended;
  return db.transaction(async (sql): Promise<IndexedPart> => {
    await lockTenant(sql, db.schema, step.tenant);
    const row = await lockIndexing(sql, part);
    return row
      ? { state: "ready", removed: await showInstead(sql, files, row, part) }
      : { state: "stale" };
  });
}
