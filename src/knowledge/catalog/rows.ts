import { newId } from "../../core/ids.ts";
import type {
  DocumentError,
  DocumentRecord,
  DocumentStatus,
  Metadata,
  NewDocument,
  Passage,
  PassagePage,
} from "../types.ts";

export interface DocumentRow {
  seq: number;
  id: string;
  tenant: string;
  sha256: string;
  bytes: number;
  filename: string;
  title: string | null;
  found_title: string | null;
  metadata: string;
  agents: string;
  mime_type: string | null;
  status: DocumentStatus;
  error: string | null;
  external_id: string | null;
  version: number;
  replaces: string | null;
  generation: number;
  building: number;
  chunk_count: number;
  page_count: number | null;
  created: number;
  indexed: number | null;
}

/** Agents as one text with a line break around each, so that one of them is found in it; empty for all agents. */
export const agentsText = (ids: readonly string[]): string =>
  ids.length === 0 ? "" : `\n${[...new Set(ids)].join("\n")}\n`;
export const agentIds = (text: string): string[] => text.split("\n").filter((id) => id !== "");
/** What is looked for in it. */
export const agentMark = (id: string): string => `\n${id}\n`;

/** The agents of a document that gains those of an upload; empty for all agents. */
export const joinAgents = (agents: string, { agentIds: asked = [] }: NewDocument): string =>
  asked.length === 0 || agents === "" ? "" : agentsText([...agentIds(agents), ...asked]);

/** All but those of the work on it. */
export const DOCUMENT_COLUMNS =
  "seq, id, tenant, sha256, bytes, filename, title, found_title, metadata, agents, mime_type, status, error, external_id, version, replaces, generation, building, chunk_count, page_count, created, indexed";

export const NEW_DOCUMENT_COLUMNS =
  "id, tenant, sha256, bytes, filename, title, metadata, agents, status, external_id, version, replaces, created";

/** What a document of its own takes over from the document that it takes the place of. */
type Replaced = Pick<DocumentRow, "id" | "version" | "external_id"> | undefined;

export const getExternalId = ({ externalId }: NewDocument, replaced: Replaced): string | null =>
  externalId ?? replaced?.external_id ?? null;

/**
 * Builds the values of a new document's row, in the order of `NEW_DOCUMENT_COLUMNS`.
 * @param lastVersion the newest version of its external id, 0 if there is none
 */
export function newDocumentValues(
  upload: NewDocument,
  replaced: Replaced,
  lastVersion: number,
  now: number,
): (string | number | null)[] {
  const externalId = getExternalId(upload, replaced);
  return [
    newId("doc", now),
    upload.tenant,
    upload.sha256,
    upload.bytes,
    upload.filename,
    upload.title ?? null,
    JSON.stringify(upload.metadata ?? {}),
    agentsText(upload.agentIds ?? []),
    "queued",
    externalId,
    (externalId === null ? (replaced?.version ?? 0) : lastVersion) + 1,
    replaced?.id ?? null,
    now,
  ];
}

const PROGRESS: Record<DocumentStatus, number> = {
  queued: 0,
  extracting: 0,
  indexing: 0.7,
  ready: 1,
  failed: 0,
};

export function toDocumentRecord(row: DocumentRow, embeddedCount = 0): DocumentRecord {
  return {
    id: row.id,
    tenant: row.tenant,
    filename: row.filename,
    title: row.title ?? row.found_title,
    bytes: row.bytes,
    sha256: row.sha256,
    mimeType: row.mime_type,
    status: row.status,
    progress: PROGRESS[row.status],
    error: row.error === null ? null : (JSON.parse(row.error) as DocumentError),
    agentIds: agentIds(row.agents),
    metadata: JSON.parse(row.metadata) as Metadata,
    externalId: row.external_id,
    version: row.version,
    chunkCount: row.chunk_count,
    pageCount: row.page_count,
    embeddedCount,
    createdAt: row.created,
    indexedAt: row.indexed,
  };
}

export interface PassageRow {
  n: number;
  text: string;
  headings: string;
  page: number | null;
  start_at: number;
  end_at: number;
  id: string;
  filename: string;
  title: string | null;
  version: number;
  external_id: string | null;
  metadata: string;
}

export const toPassage = (row: PassageRow, score: number): Passage => ({
  ...toIndexed(row),
  score,
});

/** A page of a document's passages from rows that were asked for with one more than it holds. */
export const toPassagePage = (rows: readonly PassageRow[], most: number): PassagePage => ({
  passages: rows.slice(0, most).map((row) => ({ ...toIndexed(row), number: row.n })),
  hasMore: rows.length > most,
});

function toIndexed(row: PassageRow): Omit<Passage, "score"> {
  return {
    documentId: row.id,
    chunkId: `${row.id}#${row.n}`,
    filename: row.filename,
    title: row.title,
    text: row.text,
    headings: JSON.parse(row.headings) as string[],
    page: row.page,
    start: row.start_at,
    end: row.end_at,
    version: row.version,
    externalId: row.external_id,
    metadata: JSON.parse(row.metadata) as Metadata,
  };
}
