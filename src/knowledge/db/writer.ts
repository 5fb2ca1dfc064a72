import type { Statements } from "../../store/sqlite/statements.ts";
import { INDEX_FORM } from "../tokenize.ts";
import { addMark, toGramBody } from "./grams.ts";
import { CHUNKS_A_PART, parseChunkLine, readChunkLines, type ChunkLine } from "./lines.ts";
import { Documents } from "./documents.ts";
import type { IndexedPart, IndexPart, IndexJob, WriterCalls } from "./protocol.ts";
import { mayChange } from "../access.ts";
import { agentIds, toDocumentRecord, type DocumentRow } from "./rows.ts";

class Indexer {
  readonly #sql: Statements;
  readonly #documents: Documents;
  #next: number;

  constructor(sql: Statements, documents: Documents) {
    this.#sql = sql;
    this.#documents = documents;
    this.#next =
      (sql.get<{ seq: number | null }>("SELECT max(seq) AS seq FROM chunks")?.seq ?? 0) + 1;
  }

  #insert(doc: number, generation: number, n: number, chunk: ChunkLine, mark: string): void {
    const seq = this.#next++;
    this.#sql.run(
      "INSERT INTO chunks (seq, doc, generation, gram_count) VALUES (?, ?, ?, ?)",
      seq,
      doc,
      generation,
      chunk.gramCount,
    );
    this.#sql.run(
      "INSERT INTO passages (seq, n, text, headings, page, start_at, end_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      seq,
      n,
      chunk.text,
      JSON.stringify(chunk.headings),
      chunk.page,
      chunk.start,
      chunk.end,
    );
    this.#sql.run("INSERT INTO words (rowid, body) VALUES (?, ?)", seq, chunk.words);
    if (chunk.gramCount > 0)
      this.#sql.run(
        "INSERT INTO grams (rowid, body) VALUES (?, ?)",
        seq,
        toGramBody(mark, chunk.grams),
      );
  }

  #insertAll(
    { seq: doc, tenant }: DocumentRow,
    generation: number,
    first: number,
    lines: readonly string[],
  ): void {
    const chunks = lines.map(parseChunkLine);
    for (const language of new Set(chunks.flatMap(({ languages }) => languages)))
      this.#sql.run(
        "INSERT OR IGNORE INTO languages (tenant, language) VALUES (?, ?)",
        tenant,
        language,
      );
    const mark = chunks.some(({ gramCount }) => gramCount > 0) ? addMark(this.#sql, tenant) : "";
    for (const [index, chunk] of chunks.entries())
      this.#insert(doc, generation, first + index, chunk, mark);
  }

  part({ id, generation, file, offset, first, done, now }: IndexPart): IndexedPart {
    const row = this.#documents.byId(id);
    if (
      !row ||
      row.building !== generation ||
      (row.status !== "extracting" && row.status !== "indexing")
    )
      return { state: "stale" };
    const read = readChunkLines(file, offset, CHUNKS_A_PART);
    this.#insertAll(row, generation, first, read.lines);
    if (read.rest && first + read.lines.length < done.chunks) {
      if (row.status !== "indexing")
        this.#sql.run("UPDATE documents SET status = 'indexing' WHERE seq = ?", row.seq);
      return { state: "more", offset: read.offset, next: first + read.lines.length };
    }
    return { state: "ready", removed: this.#makeVisible(row, generation, done, now) };
  }

  /** In one step the new chunks can be found, and the old ones and what the document replaces cannot. */
  #makeVisible(
    row: DocumentRow,
    generation: number,
    done: IndexPart["done"],
    now: number,
  ): string[] {
    this.#sql.run(
      `UPDATE documents SET status = 'ready', error = NULL, replaces = NULL, generation = ?, mime_type = ?, found_title = ?, page_count = ?,
        chunk_count = ?, indexed = ?, form = ${INDEX_FORM} WHERE seq = ?`,
      generation,
      done.mimeType,
      done.title,
      done.pages,
      done.chunks,
      now,
      row.seq,
    );
    this.#documents.dropChunks(row.seq, `generation <> ${generation}`);
    const replaced = this.#sql.all<DocumentRow>(
      "SELECT * FROM documents WHERE tenant = ?1 AND (id = ?2 OR (external_id = ?3 AND version < ?4))",
      row.tenant,
      row.replaces,
      row.external_id,
      row.version,
    );
    for (const old of replaced) this.#documents.drop(old);
    return replaced.map((old) => old.id);
  }
}

/** The calls of the thread that writes. Each runs in a transaction of its own, or together with others. */
export function createWriter(
  sql: Statements,
  folder: string,
): { calls: WriterCalls; beforeCommit(): void; afterCommit(): void } {
  const documents = new Documents(sql, folder);
  const indexer = new Indexer(sql, documents);
  const inTenant = (tenant: string, id: string): DocumentRow | undefined => {
    const row = documents.byId(id);
    return row?.tenant === tenant ? row : undefined;
  };
  const underWork = ({
    id,
    generation,
  }: {
    id: string;
    generation: number;
  }): DocumentRow | undefined => {
    const row = documents.byId(id);
    return row &&
      row.building === generation &&
      (row.status === "extracting" || row.status === "indexing")
      ? row
      : undefined;
  };

  const calls: WriterCalls = {
    add: (upload, now) => documents.add(upload, now),
    take(limit) {
      const rows = sql.all<DocumentRow>(
        "SELECT * FROM documents WHERE status = 'queued' ORDER BY seq LIMIT ?",
        limit,
      );
      return rows.map((row): IndexJob => {
        const generation = Math.max(row.generation, row.building) + 1;
        sql.run(
          "UPDATE documents SET status = 'extracting', building = ? WHERE seq = ?",
          generation,
          row.seq,
        );
        const { id, sha256, filename, title } = row;
        return { id, sha256, filename, title, generation };
      });
    },
    indexPart: (part) => indexer.part(part),
    fail(job, error) {
      const row = underWork(job);
      if (!row) return;
      documents.dropChunks(row.seq, `generation <> ${row.generation}`);
      // What was found before stays found, with a word about why it is not newer.
      const status = row.generation > 0 ? "ready" : "failed";
      sql.run(
        "UPDATE documents SET status = ?, error = ?, replaces = NULL WHERE seq = ?",
        status,
        JSON.stringify(error),
        row.seq,
      );
    },
    putBack(job) {
      const row = underWork(job);
      if (row) sql.run("UPDATE documents SET status = 'queued' WHERE seq = ?", row.seq);
    },
    remove(tenant, id, access) {
      const row = inTenant(tenant, id);
      if (!row || !mayChange(agentIds(row.agents), access)) return false;
      documents.drop(row);
      return true;
    },
    reindex(tenant, id, access) {
      const row = inTenant(tenant, id);
      if (!row || !mayChange(agentIds(row.agents), access)) return undefined;
      sql.run("UPDATE documents SET status = 'queued', error = NULL WHERE seq = ?", row.seq);
      return toDocumentRecord(documents.byId(id) as DocumentRow);
    },
    recover() {
      // Chunks of an interrupted indexing go when the next one ends.
      documents.sweepFiles();
      return sql.run(
        `UPDATE documents SET status = 'queued' WHERE status IN ('extracting', 'indexing')
          OR (status = 'ready' AND error IS NULL AND form < ${INDEX_FORM})`,
      );
    },
    // One process at a time, with one folder: the files are in place already, and no other process takes the work.
    fetch: () => undefined,
    renewLeases: (ids) => ids,
    putVectors(model, vectors) {
      for (const { seq, vector } of vectors) {
        // The chunk may be gone by now.
        if (!sql.get("SELECT 1 FROM chunks WHERE seq = ?", seq)) continue;
        const bytes =
          vector === null
            ? null
            : new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
        const text =
          "INSERT OR REPLACE INTO vectors (seq, model, dimension, vector) VALUES (?, ?, ?, ?)";
        sql.run(text, seq, model, vector?.length ?? 0, bytes);
      }
    },
  };
  return {
    calls,
    beforeCommit: () => documents.syncPlaced(),
    afterCommit: () => documents.unlinkDropped(),
  };
}
