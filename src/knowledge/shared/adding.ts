import { rm } from "node:fs/promises";
import { RouseError } from "../../core/errors.ts";
import type { Sql, SqlDatabase } from "../../store/sql.ts";
import { checkExternalId, decideUpload, type UploadDecision } from "../access.ts";
import {
  agentIds,
  getExternalId,
  joinAgents,
  NEW_DOCUMENT_COLUMNS,
  newDocumentValues,
  toDocumentRecord,
} from "../db/rows.ts";
import type { DocumentRecord, NewDocument } from "../types.ts";
import { DOCUMENT_COLUMNS, lockTenant, type SharedRow } from "./documents.ts";
import type { Files } from "./files.ts";

const SHA256 = /^[0-9a-f]{64}$/;
/** Uploads of one commit. */
const MAX_AT_ONCE = 16;

export interface Added {
  document: DocumentRecord;
  duplicate: boolean;
}

/** The documents that the tenant has already of these bytes, newest first; see the same question in `db/documents.ts`. */
async function findTwins(
  sql: Sql,
  { tenant, sha256, externalId }: NewDocument,
): Promise<(SharedRow & { marks: string[] })[]> {
  const rows = await sql.query<SharedRow>(
    `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents d
      WHERE tenant = $1 AND sha256 = $2 AND ($3::text IS NULL OR external_id IS NULL OR external_id = $3)
        AND NOT (external_id IS NULL AND $3 IS NOT NULL
          AND EXISTS (SELECT 1 FROM knowledge_documents o WHERE o.tenant = $1 AND o.external_id = $3))
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents n WHERE n.tenant = $1 AND n.external_id = d.external_id AND n.version > d.version)
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents r WHERE r.replaces = d.id)
      ORDER BY seq DESC`,
    [tenant, sha256, externalId ?? null],
  );
  return rows.map((row) => ({ ...row, marks: agentIds(row.agents) }));
}

async function marksByExternalId(
  sql: Sql,
  tenant: string,
  externalId: string,
): Promise<string[][]> {
  const text =
    "SELECT DISTINCT agents FROM knowledge_documents WHERE tenant = $1 AND external_id = $2";
  return (await sql.query<{ agents: string }>(text, [tenant, externalId])).map(({ agents }) =>
    agentIds(agents),
  );
}

/** A skipped duplicate gains the agents that were asked for; one that had failed is tried again. */
async function join(sql: Sql, twin: SharedRow, upload: NewDocument): Promise<DocumentRecord> {
  const [row] = await sql.query<SharedRow>(
    `UPDATE knowledge_documents SET agents = $2, external_id = coalesce(external_id, $3),
      error = CASE WHEN status = 'failed' THEN NULL ELSE error END, status = CASE WHEN status = 'failed' THEN 'queued' ELSE status END
      WHERE seq = $1 RETURNING ${DOCUMENT_COLUMNS}`,
    [twin.seq, joinAgents(twin.agents, upload), upload.externalId ?? null],
  );
  return toDocumentRecord(row as SharedRow);
}

async function lastVersion(sql: Sql, tenant: string, externalId: string): Promise<number> {
  const text =
    "SELECT max(version) AS version FROM knowledge_documents WHERE tenant = $1 AND external_id = $2";
  return (await sql.query<{ version: number | null }>(text, [tenant, externalId]))[0]?.version ?? 0;
}

async function insert(
  sql: Sql,
  upload: NewDocument,
  twin: SharedRow | undefined,
  now: number,
): Promise<DocumentRecord> {
  const externalId = getExternalId(upload, twin);
  const version = externalId === null ? 0 : await lastVersion(sql, upload.tenant, externalId);
  const [row] = await sql.query<SharedRow>(
    `INSERT INTO knowledge_documents (${NEW_DOCUMENT_COLUMNS})
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING ${DOCUMENT_COLUMNS}`,
    newDocumentValues(upload, twin, version, now),
  );
  return toDocumentRecord(row as SharedRow);
}

/** One upload whose tenant is locked, and whose bytes are there. */
async function addOne(sql: Sql, upload: NewDocument, now: number): Promise<Added | RouseError> {
  const { tenant, externalId, access } = upload;
  const named = externalId === undefined ? [] : await marksByExternalId(sql, tenant, externalId);
  const twins = await findTwins(sql, upload);
  let decision: UploadDecision<SharedRow>;
  try {
    checkExternalId(named, access);
    decision = decideUpload(upload, twins);
  } catch (error) {
    // A refusal is the answer to this upload; the other uploads of the commit continue.
    if (error instanceof RouseError) return error;
    throw error;
  }
  if (decision.kind === "join")
    return { document: await join(sql, decision.twin, upload), duplicate: true };
  if (decision.kind === "same")
    return { document: toDocumentRecord(decision.twin), duplicate: true };
  return { document: await insert(sql, upload, decision.replaces, now), duplicate: false };
}

interface Waiting {
  upload: NewDocument;
  now: number;
  small: Buffer | undefined;
  added: PromiseWithResolvers<Added>;
}

/**
 * Takes uploads. Those of one tenant wait for each other in any case (see `lockTenant`): those that arrive while others
 * are written go together in the next commit.
 */
export class Uploads {
  readonly #db: SqlDatabase;
  readonly #files: Files;
  #waiting: Waiting[] = [];
  #running = false;

  constructor(db: SqlDatabase, files: Files) {
    this.#db = db;
    this.#files = files;
  }

  /** Resolves when it is on disk. */
  async add(upload: NewDocument, now: number): Promise<Added> {
    if (!SHA256.test(upload.sha256))
      throw new RouseError({
        code: "internal",
        message: "sha256 must be 64 digits of lower-case hex",
      });
    const small = await this.#files.readSmall(upload.file, upload.bytes);
    if (!small) await this.#files.put(upload.sha256, upload.file);
    const added = Promise.withResolvers<Added>();
    this.#waiting.push({ upload, now, small, added });
    if (!this.#running) void this.#run();
    const result = await added.promise;
    await rm(upload.file, { force: true });
    return result;
  }

  async #run(): Promise<void> {
    this.#running = true;
    for (let first: Waiting | undefined; (first = this.#waiting[0]);) {
      const { tenant } = first.upload;
      const group = this.#waiting
        .filter(({ upload }) => upload.tenant === tenant)
        .slice(0, MAX_AT_ONCE);
      this.#waiting = this.#waiting.filter((one) => !group.includes(one));
      await this.#commit(tenant, group);
    }
    this.#running = false;
  }

  async #write(
    tenant: string,
    group: readonly Waiting[],
  ): Promise<(Added | RouseError | undefined)[]> {
    // Files in one order, first of all: tenants that bring the same ones do not wait for each other.
    const sha256s = [...new Set(group.map(({ upload }) => upload.sha256))].toSorted();
    const small = new Map(group.map((one) => [one.upload.sha256, one.small]));
    return this.#db.transaction(async (sql) => {
      const locked = lockTenant(sql, this.#db.schema, tenant);
      const put = sha256s.map((sha256) => {
        const data = small.get(sha256);
        return data && this.#files.putSmall(sql, sha256, data);
      });
      const [held] = await Promise.all([this.#files.hold(sql, sha256s), locked, ...put]);
      const outcomes: (Added | RouseError | undefined)[] = [];
      // The last document that had the same bytes may have gone meanwhile, and they with it.
      for (const { upload, now } of group)
        outcomes.push(held.has(upload.sha256) ? await addOne(sql, upload, now) : undefined);
      return outcomes;
    });
  }

  /** Never throws. */
  async #commit(tenant: string, group: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#write(tenant, group);
      for (const [index, one] of group.entries()) await this.#end(one, outcomes[index]);
    } catch (error) {
      // If PostgreSQL refuses one upload, the other uploads are still tried.
      const isRefused = error instanceof RouseError && error.code === "internal";
      if (isRefused && group.length > 1) for (const one of group) await this.#commit(tenant, [one]);
      else for (const { added } of group) added.reject(error);
    }
  }

  async #end(one: Waiting, outcome: Added | RouseError | undefined): Promise<void> {
    if (outcome instanceof RouseError) return one.added.reject(outcome);
    if (outcome) return one.added.resolve(outcome);
    try {
      if (!one.small) await this.#files.put(one.upload.sha256, one.upload.file);
      this.#waiting.push(one);
    } catch (error) {
      one.added.reject(error);
    }
  }
}
