import type { DocumentError, DocumentRecord, DocumentStatus, Metadata } from "../types.ts";

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

/** Agents as one text with a line break around each, so that one of them is found by `instr`; empty for all agents. */
export const agentsText = (ids: readonly string[]): string => (ids.length === 0 ? "" : `\n${[...new Set(ids)].join("\n")}\n`);
export const agentIds = (text: string): string[] => text.split("\n").filter((id) => id !== "");
/** What `instr` looks for. */
export const agentMark = (id: string): string => `\n${id}\n`;

const PROGRESS: Record<DocumentStatus, number> = { queued: 0, extracting: 0, indexing: 0.7, ready: 1, failed: 0 };

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
