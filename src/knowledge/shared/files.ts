import { createReadStream } from "node:fs";
import { open, readFile } from "node:fs/promises";
import type { Sql, SqlDatabase } from "../../store/sql.ts";

/** The most bytes of a file that are in memory at a time. */
const PIECE = 1024 * 1024;
/** A file of no more than this comes in the transaction of its document, which others of the tenant wait for. */
const SMALL = 256 * 1024;
/** Files that no document has are kept so long: an upload may be between its file and its document. */
const UNUSED = "1 hour";

/** The bytes of documents, in the database. The same bytes are there once. */
export class Files {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  /** Brings a file into the database, piece by piece; nothing happens where it is there. */
  async put(sha256: string, file: string): Promise<void> {
    const touch = "UPDATE knowledge_files SET touched = now() WHERE sha256 = $1 RETURNING sha256";
    if ((await this.#db.query(touch, [sha256])).length > 0) return;
    await this.#db.transaction(async (sql) => {
      const add =
        "INSERT INTO knowledge_files (sha256) VALUES ($1) ON CONFLICT DO NOTHING RETURNING sha256";
      if ((await sql.query(add, [sha256])).length === 0)
        return void (await sql.query(touch, [sha256]));
      let n = 0;
      for await (const piece of createReadStream(file, { highWaterMark: PIECE }))
        await sql.query("INSERT INTO knowledge_file_parts (sha256, n, data) VALUES ($1, $2, $3)", [
          sha256,
          n++,
          piece,
        ]);
    });
  }

  /** The bytes of a file that `putSmall` takes; undefined if the file is too large for that. */
  readSmall(file: string, bytes: number): Promise<Buffer> | undefined {
    return bytes <= SMALL ? readFile(file) : undefined;
  }

  /** Brings a file into the database, in the transaction that adds its document. */
  async putSmall(sql: Sql, sha256: string, data: Buffer): Promise<void> {
    await sql.query(
      `WITH added AS (INSERT INTO knowledge_files (sha256) VALUES ($1) ON CONFLICT DO NOTHING RETURNING sha256)
        INSERT INTO knowledge_file_parts (sha256, n, data) SELECT sha256, 0, $2 FROM added`,
      [sha256, data],
    );
  }

  /** Keeps files from going until the transaction ends; returns those that are still there. */
  async hold(sql: Sql, sha256s: readonly string[]): Promise<Set<string>> {
    const rows = await sql.query<{ sha256: string }>(
      "SELECT sha256 FROM knowledge_files WHERE sha256 = ANY($1::text[]) ORDER BY sha256 FOR SHARE",
      [sha256s],
    );
    return new Set(rows.map(({ sha256 }) => sha256));
  }

  /** Writes the file to `to`; false if the database does not have it, and then there is no `to`. */
  async fetch(sha256: string, to: string): Promise<boolean> {
    const parts = `SELECT data, (SELECT max(n) FROM knowledge_file_parts WHERE sha256 = $1) AS last
      FROM knowledge_file_parts WHERE sha256 = $1 AND n = $2`;
    const [first] = await this.#db.query<{ data: Buffer; last: number }>(parts, [sha256, 0]);
    // An empty file has no part.
    if (
      !first &&
      (await this.#db.query("SELECT sha256 FROM knowledge_files WHERE sha256 = $1", [sha256]))
        .length === 0
    )
      return false;
    await using out = await open(to, "w", 0o600);
    for (
      let n = 0, part = first;
      part;
      part = (await this.#db.query<{ data: Buffer; last: number }>(parts, [sha256, n]))[0]
    ) {
      await out.write(part.data);
      if (n++ === part.last) break;
    }
    return true;
  }

  /** Locks files before documents are deleted: no other transaction adds a document with these bytes until this one ends. */
  async lock(sql: Sql, sha256s: readonly string[]): Promise<void> {
    await sql.query(
      "SELECT sha256 FROM knowledge_files WHERE sha256 = ANY($1::text[]) ORDER BY sha256 FOR UPDATE",
      [sha256s],
    );
  }

  /** After documents went, in the transaction that has locked their files: deletes those that no other document has. */
  async dropUnused(sql: Sql, sha256s: readonly string[]): Promise<void> {
    const gone = await sql.query<{ sha256: string }>(
      `DELETE FROM knowledge_files f WHERE sha256 = ANY($1::text[])
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents d WHERE d.sha256 = f.sha256) RETURNING sha256`,
      [sha256s],
    );
    await sql.query("DELETE FROM knowledge_file_parts WHERE sha256 = ANY($1::text[])", [
      gone.map(({ sha256 }) => sha256),
    ]);
  }

  /** Deletes what uploads left that never became documents. */
  async sweep(): Promise<void> {
    await this.#db.query(
      `WITH gone AS (
          DELETE FROM knowledge_files f WHERE touched < now() - interval '${UNUSED}'
            AND NOT EXISTS (SELECT 1 FROM knowledge_documents d WHERE d.sha256 = f.sha256) RETURNING sha256)
        DELETE FROM knowledge_file_parts p USING gone WHERE p.sha256 = gone.sha256`,
    );
  }
}
