import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "../../store/sql/sql.ts";
import type { ExtractDone, IndexedChunk } from "../extract/extractor.ts";
import { mayChange, type Access } from "../access.ts";
import type { DocumentError, DocumentRecord, NewDocument } from "../types.ts";
import { INDEX_FORM } from "../words/tokenize.ts";
import { places, type DocumentCatalog } from "./catalog.ts";
import { dropDocuments, dropGenerations, insertRows, noteChanges } from "./changes.ts";
import { Files } from "./files.ts";
import { agentIds, DOCUMENT_COLUMNS, toDocumentRecord, type DocumentRow } from "./rows.ts";
import { addUpload } from "./uploads.ts";

/** Longer than a request for vectors may take, in milliseconds; another gateway takes the passages over then. */
const CLAIM_MS = 3 * 60_000;

/** A document that is worked on. */
interface WorkedOn {
  id: string;
  /** Which index is built; a reindexing in the meantime makes it a stale one. */
  generation: number;
}

/** A document whose text is to be read now. */
export interface IndexJob extends WorkedOn {
  sha256: string;
  filename: string;
  title: string | null;
}

/** A document whose text was read. */
export interface ReadDocument extends WorkedOn {
  /** Has the chunks, in files that are numbered from 0. */
  folder: string;
  done: ExtractDone;
  now: number;
}

export interface Pending {
  seq: number;
  text: string;
}

export interface NewVector {
  seq: number;
  /** Of length one; null if the embedder refused the text. */
  vector: Float32Array | null;
}

const UNDER_WORK = "status IN ('extracting', 'indexing')";

async function byId(sql: Sql, id: string): Promise<DocumentRow | undefined> {
  const text = `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents WHERE id = $1`;
  return (await sql.query<DocumentRow>(text, [id]))[0];
}

/** The document, where the work on this generation of its index still is what is wanted. */
async function underWork(sql: Sql, { id, generation }: WorkedOn): Promise<DocumentRow | undefined> {
  const row = await byId(sql, id);
  const isWorkedOn = row?.status === "extracting" || row?.status === "indexing";
  return isWorkedOn && row.building === generation ? row : undefined;
}

const SET_READY = `
  UPDATE knowledge_documents SET status = 'ready', error = NULL, replaces = NULL, generation = $2, mime_type = $3, found_title = $4,
    page_count = $5, chunk_count = $6, indexed = $7, languages = $8, form = ${INDEX_FORM}, holder = NULL WHERE seq = $1`;

/** In one step the new passages can be found, and the old ones and what the document replaces cannot. */
async function makeVisible(
  sql: Sql,
  files: Files,
  { seq, tenant, replaces, externalId, version }: DocumentRow,
  { generation, done, now }: ReadDocument,
): Promise<string[]> {
  const { mimeType, title, pages, chunks, languages } = done;
  const found = [mimeType, title, pages, chunks, now, languages.join(" ")];
  await sql.query(SET_READY, [seq, generation, ...found]);
  await dropGenerations(sql, seq, generation);
  await noteChanges(sql, [seq]);
  if (replaces === null && externalId === null) return [];
  const replaced = await sql.query<DocumentRow>(
    `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents
      WHERE tenant = $1 AND (id = $2 OR (external_id = $3 AND version < $4))`,
    [tenant, replaces, externalId, version],
  );
  await dropDocuments(sql, files, replaced);
  return replaced.map(({ id }) => id);
}

const PASSAGES =
  "knowledge_passages (doc, generation, n, page, start_at, end_at, gram_count, headings, text, words, grams)";

/**
 * Takes in the passages of a document, file by file: others write in between. After the last one the document can be found.
 * Returns the documents that it replaced; undefined if it is gone or is being indexed again, or if the work `isStopped`.
 */
async function indexPassages(
  catalog: DocumentCatalog,
  files: Files,
  read: ReadDocument,
  isStopped: () => boolean,
): Promise<string[] | undefined> {
  const { folder, generation, done } = read;
  let replaced: string[] | undefined;
  for (let file = 0, first = 0; first < done.chunks && !isStopped(); file++) {
    const text = await readFile(join(folder, String(file)), "utf8");
    const chunks = JSON.parse(text) as IndexedChunk[];
    const isTaken = await catalog.write(async (sql) => {
      const row = await underWork(sql, read);
      if (!row) return false;
      await insertRows(
        sql,
        PASSAGES,
        chunks.map((chunk, index) => [
          row.seq,
          generation,
          first + index,
          chunk.page,
          chunk.start,
          chunk.end,
          chunk.gramCount,
          JSON.stringify(chunk.headings),
          chunk.text,
          chunk.words,
          chunk.grams,
        ]),
      );
      if (first + chunks.length >= done.chunks) replaced = await makeVisible(sql, files, row, read);
      else
        await sql.query("UPDATE knowledge_documents SET status = 'indexing' WHERE seq = $1", [
          row.seq,
        ]);
      return true;
    });
    if (!isTaken) return undefined;
    first += chunks.length;
  }
  return replaced;
}

async function putVectors(sql: Sql, model: string, vectors: readonly NewVector[]): Promise<void> {
  if (vectors.length === 0) return;
  const seqs = vectors.map(({ seq }) => seq);
  const given = places(seqs.length);
  // A passage may be gone by now.
  const there = await sql.query<{ seq: number }>(
    `SELECT seq FROM knowledge_passages WHERE seq IN ${given}`,
    seqs,
  );
  const known = new Set(there.map(({ seq }) => seq));
  for (const table of ["knowledge_vectors", "knowledge_claims"])
    await sql.query(`DELETE FROM ${table} WHERE seq IN ${given}`, seqs);
  await insertRows(
    sql,
    "knowledge_vectors (seq, model, dimension, vector)",
    vectors
      .filter(({ seq }) => known.has(seq))
      .map(({ seq, vector }) => [
        seq,
        model,
        vector?.length ?? 0,
        vector && Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
      ]),
  );
}

/** Takes documents that wait, and those of gateways whose leases have expired. */
async function take(catalog: DocumentCatalog, holder: string, limit: number): Promise<IndexJob[]> {
  const { now, leaseMs } = catalog;
  const next = `SELECT seq FROM knowledge_documents
    WHERE status IN ('queued', 'extracting', 'indexing') AND (status = 'queued' OR holder IS NULL OR lease < ${now})
    ORDER BY seq LIMIT $1`;
  // A search that finds nothing keeps no other gateway from writing.
  if ((await catalog.query(next, [1])).length === 0) return [];
  return catalog.write(async (sql) => {
    const seqs = (await sql.query<{ seq: number }>(next, [limit])).map(({ seq }) => seq);
    if (seqs.length === 0) return [];
    await sql.query(
      `UPDATE knowledge_documents SET status = 'extracting', holder = $1, lease = ${now} + ${leaseMs},
        building = CASE WHEN building > generation THEN building ELSE generation END + 1 WHERE seq IN ${places(seqs.length, 2)}`,
      [holder, ...seqs],
    );
    return sql.query<IndexJob>(
      `SELECT id, sha256, filename, title, building AS generation FROM knowledge_documents WHERE seq IN ${places(seqs.length)} ORDER BY seq`,
      seqs,
    );
  });
}

/** Takes visible passages that have no vector, so that no other gateway gets one for them. */
function claimPassages(
  catalog: DocumentCatalog,
  holder: string,
  { model, after, limit }: { model: string; after: number; limit: number },
): Promise<Pending[]> {
  const { now } = catalog;
  return catalog.write(async (sql) => {
    const rows = await sql.query<Pending>(
      `SELECT p.seq, p.text FROM knowledge_passages p JOIN knowledge_documents d ON d.seq = p.doc AND d.generation = p.generation
        WHERE p.seq > $2 AND NOT EXISTS (SELECT 1 FROM knowledge_vectors v WHERE v.seq = p.seq AND v.model = $1)
          AND NOT EXISTS (SELECT 1 FROM knowledge_claims k WHERE k.seq = p.seq AND k.holder <> $4 AND k.until > ${now})
        ORDER BY p.seq LIMIT $3`,
      [model, after, limit, holder],
    );
    for (const { seq } of rows)
      await sql.query(
        `INSERT INTO knowledge_claims (seq, holder, until) VALUES ($1, $2, ${now} + ${CLAIM_MS})
          ON CONFLICT (seq) DO UPDATE SET holder = excluded.holder, until = excluded.until`,
        [seq, holder],
      );
    return rows;
  });
}

/**
 * Creates the work of a gateway's writing thread. `holder` names the gateway in what it has taken; `isStopped` says whether the
 * thread is ending.
 */
export function createWriter(catalog: DocumentCatalog, holder: string, isStopped: () => boolean) {
  const files = new Files(catalog);
  const { now, leaseMs } = catalog;
  const inTenant = async (
    sql: Sql,
    tenant: string,
    id: string,
    access: Access | undefined,
  ): Promise<DocumentRow | undefined> => {
    const row = await byId(sql, id);
    return row?.tenant === tenant && mayChange(agentIds(row.agents), access) ? row : undefined;
  };
  const queueOwn = (sql: Sql): Promise<unknown[]> =>
    sql.query(
      `UPDATE knowledge_documents SET status = 'queued', holder = NULL WHERE holder = $1 AND ${UNDER_WORK} RETURNING seq`,
      [holder],
    );

  return {
    add: (upload: NewDocument, at: number) => addUpload(catalog, files, upload, at),
    take: (limit: number) => take(catalog, holder, limit),
    index: (read: ReadDocument) => indexPassages(catalog, files, read, isStopped),
    fail: (job: WorkedOn, error: DocumentError) =>
      catalog.write(async (sql) => {
        const row = await underWork(sql, job);
        if (!row) return;
        await dropGenerations(sql, row.seq, row.generation);
        await noteChanges(sql, [row.seq]);
        // The previous version stays searchable, with the reason that it is not newer.
        await sql.query(
          "UPDATE knowledge_documents SET status = $2, error = $3, replaces = NULL, holder = NULL WHERE seq = $1",
          [row.seq, row.generation > 0 ? "ready" : "failed", JSON.stringify(error)],
        );
      }),
    putBack: ({ id, generation }: WorkedOn) =>
      catalog.write(async (sql) => {
        await sql.query(
          `UPDATE knowledge_documents SET status = 'queued', holder = NULL WHERE id = $1 AND building = $2 AND ${UNDER_WORK}`,
          [id, generation],
        );
      }),
    remove: (tenant: string, id: string, access: Access | undefined) =>
      catalog.write(async (sql) => {
        const row = await inTenant(sql, tenant, id, access);
        if (row) await dropDocuments(sql, files, [row]);
        return row !== undefined;
      }),
    reindex: (tenant: string, id: string, access: Access | undefined) =>
      catalog.write(async (sql): Promise<DocumentRecord | undefined> => {
        if (!(await inTenant(sql, tenant, id, access))) return undefined;
        const [row] = await sql.query<DocumentRow>(
          `UPDATE knowledge_documents SET status = 'queued', error = NULL, holder = NULL WHERE id = $1 RETURNING ${DOCUMENT_COLUMNS}`,
          [id],
        );
        return row && toDocumentRecord(row);
      }),
    /**
     * After a kill: queues what was under way, and what an older version indexed; deletes files that no document has. Says how
     * many documents it queued. The work of another gateway goes to the next one that takes work, after its lease has expired.
     */
    recover: () =>
      catalog.write(async (sql) => {
        // Passages of an interrupted indexing go when the next one ends.
        await files.sweep(sql);
        const own = await queueOwn(sql);
        const old = await sql.query(
          `UPDATE knowledge_documents SET status = 'queued', holder = NULL
            WHERE status = 'ready' AND error IS NULL AND form < ${INDEX_FORM} RETURNING seq`,
        );
        return own.length + old.length;
      }),
    /** Takes visible passages after `seq` that have no vector of the model, for some minutes. None is left if it returns none. */
    pending: (model: string, after: number, limit: number) =>
      claimPassages(catalog, holder, { model, after, limit }),
    putVectors: (model: string, vectors: NewVector[]) =>
      catalog.write((sql) => putVectors(sql, model, vectors)),
    /** Writes the bytes of a document to `to`. */
    fetch: async (sha256: string, to: string) => void (await files.fetch(sha256, to)),
    /** Says that the work on these goes on. Returns those of them that are still one's own; others are to be left alone. */
    renewLeases: (ids: string[]) =>
      catalog.write(async (sql) => {
        const rows = await sql.query<{ id: string }>(
          `UPDATE knowledge_documents SET lease = ${now} + ${leaseMs}
            WHERE holder = $1 AND ${UNDER_WORK} AND id IN ${places(ids.length, 2)} RETURNING id`,
          [holder, ...ids],
        );
        return rows.map(({ id }) => id);
      }),
    /** Lets others take up what this one was at. */
    release: () =>
      catalog.write(async (sql) => {
        await queueOwn(sql);
        await sql.query("DELETE FROM knowledge_claims WHERE holder = $1", [holder]);
      }),
  };
}
