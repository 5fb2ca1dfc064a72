import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import type { Sql } from "../../store/sql/sql.ts";
import { places, type DocumentCatalog } from "./catalog.ts";

/** The most bytes of a file that are in memory at a time. */
const PIECE = 1024 * 1024;
/** Files that no document has are kept so long, in milliseconds: an upload may be between its file and its document. */
const UNUSED_MS = 60 * 60_000;

/** The bytes of documents, in the database. The same bytes are there once. */
export class Files {
  readonly #catalog: DocumentCatalog;

  constructor(catalog: DocumentCatalog) {
    this.#catalog = catalog;
  }

  /** Brings a file into the database, piece by piece; nothing happens where it is there. */
  async put(sql: Sql, sha256: string, file: string): Promise<void> {
    const [added] = await sql.query(
      `INSERT INTO knowledge_files (sha256, touched) VALUES ($1, ${this.#catalog.now}) ON CONFLICT DO NOTHING RETURNING sha256`,
      [sha256],
    );
    if (!added) return;
    let n = 0;
    for await (const piece of createReadStream(file, { highWaterMark: PIECE }))
      await sql.query("INSERT INTO knowledge_file_parts (sha256, n, data) VALUES ($1, $2, $3)", [
        sha256,
        n++,
        piece,
      ]);
  }

  /** Writes the file to `to`; false if the database does not have it, and then there is no `to`. */
  async fetch(sha256: string, to: string): Promise<boolean> {
    const text = `SELECT f.sha256, p.data FROM knowledge_files f
      LEFT JOIN knowledge_file_parts p ON p.sha256 = f.sha256 AND p.n = $2 WHERE f.sha256 = $1`;
    const getPart = async (n: number): Promise<{ data: Uint8Array | null } | undefined> =>
      (await this.#catalog.query<{ data: Uint8Array | null }>(text, [sha256, n]))[0];
    let part = await getPart(0);
    if (!part) return false;
    await using out = await open(to, "w", 0o600);
    // An empty file has no part.
    for (let n = 1; part?.data; n++) {
      await out.write(part.data);
      part = part.data.length < PIECE ? undefined : await getPart(n);
    }
    return true;
  }

  /** After documents went, in the same transaction: deletes the files that no other document has. */
  async dropUnused(sql: Sql, sha256s: readonly string[]): Promise<void> {
    await this.#drop(sql, `sha256 IN ${places(sha256s.length)}`, sha256s);
  }

  /** Deletes what uploads left that never became documents. */
  async sweep(sql: Sql): Promise<void> {
    await this.#drop(sql, `touched < ${this.#catalog.now} - ${UNUSED_MS}`);
  }

  async #drop(sql: Sql, condition: string, values: readonly string[] = []): Promise<void> {
    const gone = await sql.query<{ sha256: string }>(
      `DELETE FROM knowledge_files WHERE ${condition}
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents d WHERE d.sha256 = knowledge_files.sha256) RETURNING sha256`,
      values,
    );
    for (const { sha256 } of gone)
      await sql.query("DELETE FROM knowledge_file_parts WHERE sha256 = $1", [sha256]);
  }
}
