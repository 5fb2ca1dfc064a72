import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { RouseError } from "../../core/errors.ts";
import type { Statements } from "../../store/sqlite/statements.ts";
import type { DocumentRecord, NewDocument } from "../types.ts";
import { checkExternalId, decideUpload } from "../access.ts";
import {
  agentIds,
  getExternalId,
  joinAgents,
  NEW_DOCUMENT_COLUMNS,
  newDocumentValues,
  toDocumentRecord,
  type DocumentRow,
} from "./rows.ts";

const SHA256 = /^[0-9a-f]{64}$/;

/** Documents and their files, for the thread that writes. Every method runs inside the caller's transaction. */
export class Documents {
  readonly #sql: Statements;
  readonly #folder: string;
  /** Files to delete once the transaction is on disk. */
  readonly #unlink = new Set<string>();
  #placed = false;

  constructor(sql: Statements, folder: string) {
    this.#sql = sql;
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  getFile(sha256: string): string {
    return join(this.#folder, sha256);
  }

  byId(id: string): DocumentRow | undefined {
    return this.#sql.get<DocumentRow>("SELECT * FROM documents WHERE id = ?", id);
  }

  /** Moves an upload to its place, on disk for good. The same bytes lie there once. */
  #place(upload: NewDocument): void {
    if (!SHA256.test(upload.sha256))
      throw new RouseError({
        code: "internal",
        message: "sha256 must be 64 digits of lower-case hex",
      });
    const file = this.getFile(upload.sha256);
    if (existsSync(file)) return rmSync(upload.file, { force: true });
    this.#placed = true;
    try {
      renameSync(upload.file, file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
      copyFileSync(upload.file, `${file}.part`);
      sync(`${file}.part`);
      renameSync(`${file}.part`, file);
      rmSync(upload.file);
    }
  }

  /** Before a commit: a document on disk has its file there too. */
  syncPlaced(): void {
    if (this.#placed) sync(this.#folder);
    this.#placed = false;
  }

  /**
   * The documents that have these bytes already, newest first: in the same tenant, not one that another is about to take
   * the place of, and not one that its owner calls by another name.
   */
  #findTwins({ tenant, sha256, externalId }: NewDocument): (DocumentRow & { marks: string[] })[] {
    const rows = this.#sql.all<DocumentRow>(
      `SELECT * FROM documents d WHERE tenant = ?1 AND sha256 = ?2 AND (?3 IS NULL OR external_id IS NULL OR external_id = ?3)
        AND NOT (external_id IS NULL AND ?3 IS NOT NULL AND EXISTS (SELECT 1 FROM documents o WHERE o.tenant = ?1 AND o.external_id = ?3))
        AND NOT EXISTS (SELECT 1 FROM documents n WHERE n.tenant = ?1 AND n.external_id = d.external_id AND n.version > d.version)
        AND NOT EXISTS (SELECT 1 FROM documents r WHERE r.replaces = d.id)
      ORDER BY seq DESC`,
      tenant,
      sha256,
      externalId ?? null,
    );
    return rows.map((row) => ({ ...row, marks: agentIds(row.agents) }));
  }

  #marksByExternalId(tenant: string, externalId: string): string[][] {
    const rows = this.#sql.all<{ agents: string }>(
      "SELECT DISTINCT agents FROM documents WHERE tenant = ? AND external_id = ?",
      tenant,
      externalId,
    );
    return rows.map(({ agents }) => agentIds(agents));
  }

  #lastVersion(tenant: string, externalId: string): number {
    const sql =
      "SELECT max(version) AS version FROM documents WHERE tenant = ? AND external_id = ?";
    return this.#sql.get<{ version: number | null }>(sql, tenant, externalId)?.version ?? 0;
  }

  add(upload: NewDocument, now: number): { document: DocumentRecord; duplicate: boolean } {
    if (upload.externalId !== undefined)
      checkExternalId(this.#marksByExternalId(upload.tenant, upload.externalId), upload.access);
    const decision = decideUpload(upload, this.#findTwins(upload));
    this.#place(upload);
    if (decision.kind === "join")
      return { document: this.#join(decision.twin, upload), duplicate: true };
    if (decision.kind === "same")
      return { document: toDocumentRecord(decision.twin), duplicate: true };
    const twin = decision.replaces;
    const externalId = getExternalId(upload, twin);
    const version = externalId === null ? 0 : this.#lastVersion(upload.tenant, externalId);
    const row = this.#sql.get<DocumentRow>(
      `INSERT INTO documents (${NEW_DOCUMENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
      ...newDocumentValues(upload, twin, version, now),
    );
    return { document: toDocumentRecord(row as DocumentRow), duplicate: false };
  }

  /** A skipped duplicate gains the agents that were asked for; one that had failed is tried again. */
  #join(twin: DocumentRow, upload: NewDocument): DocumentRecord {
    const failed = twin.status === "failed";
    const row = this.#sql.get<DocumentRow>(
      "UPDATE documents SET agents = ?, external_id = coalesce(external_id, ?), status = ?, error = ? WHERE seq = ? RETURNING *",
      joinAgents(twin.agents, upload),
      upload.externalId ?? null,
      failed ? "queued" : twin.status,
      failed ? null : twin.error,
      twin.seq,
    );
    return toDocumentRecord(row as DocumentRow);
  }

  /** Deletes a document with its chunks, words and vectors; its file too where no other document has it. */
  drop(row: DocumentRow): void {
    this.dropChunks(row.seq, "1");
    this.#sql.run("DELETE FROM documents WHERE seq = ?", row.seq);
    this.#unlink.add(row.sha256);
  }

  /** Deletes the chunks of a document for which the condition holds. */
  dropChunks(doc: number, condition: string): void {
    const which = `SELECT seq FROM chunks WHERE doc = ? AND ${condition}`;
    // Most documents have none, and FTS5 writes what it has in memory before it deletes.
    if (!this.#sql.get(`${which} LIMIT 1`, doc)) return;
    for (const table of ["passages", "vectors"])
      this.#sql.run(`DELETE FROM ${table} WHERE seq IN (${which})`, doc);
    this.#sql.run(`DELETE FROM words WHERE rowid IN (${which})`, doc);
    this.#sql.run(`DELETE FROM grams WHERE rowid IN (${which} AND gram_count > 0)`, doc);
    this.#sql.run(`DELETE FROM chunks WHERE doc = ? AND ${condition}`, doc);
  }

  /** After a commit: deletes the files of dropped documents. */
  unlinkDropped(): void {
    for (const sha256 of this.#unlink)
      if (!this.#sql.get("SELECT 1 FROM documents WHERE sha256 = ? LIMIT 1", sha256))
        rmSync(this.getFile(sha256), { force: true });
    this.#unlink.clear();
  }

  /** Deletes files that no document has: a process was killed between the two. */
  sweepFiles(): void {
    for (const name of readdirSync(this.#folder)) this.#unlink.add(name);
  }
}

function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
