import { rm } from "node:fs/promises";
import { RouseError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import type { Sql } from "../../store/sql/sql.ts";
import { checkExternalId, isOwned, isVisible, shared } from "../access.ts";
import type { AddedDocument, DocumentRecord, NewDocument } from "../types.ts";
import { places, type DocumentCatalog } from "./catalog.ts";
import { noteChanges } from "./changes.ts";
import type { Files } from "./files.ts";
import {
  agentIds,
  agentsText,
  DOCUMENT_COLUMNS,
  joinAgents,
  toDocumentRecord,
  type DocumentRow,
} from "./rows.ts";

const SHA256 = /^[0-9a-f]{64}$/;
/** A larger file comes before the transaction of its document, which others wait for. */
const SMALL = 256 * 1024;

/** A document with the same bytes, and the agents that may search it. */
interface Twin {
  marks: readonly string[];
  row: DocumentRow;
}

/**
 * The documents that have these bytes already, newest first: in the same tenant, not one that another is about to take the
 * place of, and not one that its owner calls by another name.
 */
async function findTwins(sql: Sql, { tenant, sha256, externalId }: NewDocument): Promise<Twin[]> {
  const name = "CAST($3 AS text)";
  const rows = await sql.query<DocumentRow>(
    `SELECT ${DOCUMENT_COLUMNS} FROM knowledge_documents d
      WHERE tenant = $1 AND sha256 = $2 AND (${name} IS NULL OR external_id IS NULL OR external_id = ${name})
        AND NOT (external_id IS NULL AND ${name} IS NOT NULL
          AND EXISTS (SELECT 1 FROM knowledge_documents o WHERE o.tenant = $1 AND o.external_id = ${name}))
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents n WHERE n.tenant = $1 AND n.external_id = d.external_id AND n.version > d.version)
        AND NOT EXISTS (SELECT 1 FROM knowledge_documents r WHERE r.replaces = d.id)
      ORDER BY seq DESC`,
    [tenant, sha256, externalId ?? null],
  );
  return rows.map((row) => ({ marks: agentIds(row.agents), row }));
}

interface Named {
  agents: string;
  version: number;
}

const withExternalId = (sql: Sql, tenant: string, externalId: string): Promise<Named[]> =>
  sql.query<Named>(
    "SELECT agents, version FROM knowledge_documents WHERE tenant = $1 AND external_id = $2",
    [tenant, externalId],
  );

/** A skipped duplicate gains the agents that were asked for; one that had failed is tried again. */
async function join(sql: Sql, twin: DocumentRow, upload: NewDocument): Promise<DocumentRecord> {
  const failed = twin.status === "failed";
  const [row] = await sql.query<DocumentRow>(
    `UPDATE knowledge_documents SET agents = $2, external_id = coalesce(external_id, $3), error = $4, status = $5
      WHERE seq = $1 RETURNING ${DOCUMENT_COLUMNS}`,
    [
      twin.seq,
      joinAgents(twin.agents, upload),
      upload.externalId ?? null,
      failed ? null : twin.error,
      failed ? "queued" : twin.status,
    ],
  );
  await noteChanges(sql, [twin.seq]);
  return toDocumentRecord(row as DocumentRow);
}

const NEW =
  "id, tenant, sha256, bytes, filename, title, metadata, agents, status, external_id, version, replaces, created";

/** Adds a document of its own, which takes over the external id of the one that it takes the place of. */
async function insert(
  sql: Sql,
  upload: NewDocument,
  replaced: DocumentRow | undefined,
  now: number,
): Promise<DocumentRecord> {
  const { tenant, sha256, bytes, filename, title = null, metadata = {} } = upload;
  const externalId = upload.externalId ?? replaced?.externalId ?? null;
  const named = externalId === null ? [] : await withExternalId(sql, tenant, externalId);
  const versions = externalId === null ? [replaced?.version ?? 0] : named.map((one) => one.version);
  const values = [
    newId("doc", now),
    tenant,
    sha256,
    bytes,
    filename,
    title,
    JSON.stringify(metadata),
    agentsText(upload.agentIds ?? []),
    "queued",
    externalId,
    Math.max(0, ...versions) + 1,
    replaced?.id ?? null,
    now,
  ];
  const [row] = await sql.query<DocumentRow>(
    `INSERT INTO knowledge_documents (${NEW}) VALUES ${places(values.length)} RETURNING ${DOCUMENT_COLUMNS}`,
    values,
  );
  return toDocumentRecord(row as DocumentRow);
}

/**
 * Takes an upload whose bytes the tenant may have already. Documents that the caller may not see do not count; documents that it
 * may not change stay as they are.
 * @throws RouseError `duplicate_document`, or `document_shared` for `replace` of a document that others use too.
 */
async function addOne(sql: Sql, upload: NewDocument, now: number): Promise<AddedDocument> {
  const { tenant, externalId, access, agentIds: asked = [], onDuplicate = "skip" } = upload;
  const named = externalId === undefined ? [] : await withExternalId(sql, tenant, externalId);
  checkExternalId(
    named.map(({ agents }) => agentIds(agents)),
    access,
  );
  const twins = await findTwins(sql, upload);
  const seen = twins.filter(({ marks }) => isVisible(marks, access));
  const own = twins.find(({ marks }) => isOwned(marks, access));
  const add = async (replaced?: DocumentRow): Promise<AddedDocument> => ({
    document: await insert(sql, upload, replaced, now),
    duplicate: false,
  });
  const [first] = seen;
  if (onDuplicate === "keep" || !first) return add();
  if (onDuplicate === "error") {
    const { id: documentId } = first.row;
    const message = `the document is there already as ${documentId}; send on_duplicate "replace" or "keep" to index it all the same`;
    throw new RouseError({ code: "duplicate_document", message, extra: { documentId } });
  }
  if (onDuplicate === "replace") {
    if (!own) throw shared();
    return add(own.row);
  }
  if (own) return { document: await join(sql, own.row, upload), duplicate: true };
  const covers = ({ marks }: Twin): boolean =>
    marks.length === 0 || (asked.length > 0 && asked.every((mark) => marks.includes(mark)));
  const same = seen.find(covers);
  return same ? { document: toDocumentRecord(same.row), duplicate: true } : add();
}

/** Takes an upload. Resolves when it is on disk. */
export async function addUpload(
  catalog: DocumentCatalog,
  files: Files,
  upload: NewDocument,
  now: number,
): Promise<AddedDocument> {
  const { sha256, file, bytes } = upload;
  if (!SHA256.test(sha256))
    throw new RouseError({
      code: "internal",
      message: "sha256 must be 64 digits of lower-case hex",
    });
  const put = (sql: Sql): Promise<void> => files.put(sql, sha256, file);
  if (bytes > SMALL) await catalog.prepareWrite(put);
  const added = await catalog.write(async (sql) => {
    const result = await addOne(sql, upload, now);
    await put(sql);
    return result;
  });
  await rm(file, { force: true });
  return added;
}
