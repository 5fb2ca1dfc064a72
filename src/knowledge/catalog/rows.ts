import type {
  DocumentPassage,
  DocumentRecord,
  DocumentStatus,
  NewDocument,
  Passage,
} from "../types.ts";

/** A document as its table has it: the fields of a record, of which some are in JSON, and those of the work on it. */
export interface DocumentRow extends Omit<
  DocumentRecord,
  "error" | "agentIds" | "metadata" | "progress" | "embeddedCount"
> {
  seq: number;
  foundTitle: string | null;
  error: string | null;
  agents: string;
  metadata: string;
  replaces: string | null;
  generation: number;
  building: number;
}

export const DOCUMENT_COLUMNS = `seq, id, tenant, sha256, bytes, filename, title, found_title AS "foundTitle", metadata, agents,
  mime_type AS "mimeType", status, error, external_id AS "externalId", version, replaces, generation, building,
  chunk_count AS "chunkCount", page_count AS "pageCount", created AS "createdAt", indexed AS "indexedAt"`;

/** Agents as one text with a line break around each, so that one of them is found in it; empty for all agents. */
export const agentsText = (ids: readonly string[]): string =>
  ids.length === 0 ? "" : `\n${[...new Set(ids)].join("\n")}\n`;
export const agentIds = (text: string): string[] => text.split("\n").filter((id) => id !== "");
/** Returns the text that is looked for in the column. */
export const agentMark = (id: string): string => `\n${id}\n`;

/** The agents of a document that gains those of an upload; empty for all agents. */
export const joinAgents = (agents: string, { agentIds: asked = [] }: NewDocument): string =>
  asked.length === 0 || agents === "" ? "" : agentsText([...agentIds(agents), ...asked]);

const PROGRESS: Record<DocumentStatus, number> = {
  queued: 0,
  extracting: 0,
  indexing: 0.7,
  ready: 1,
  failed: 0,
};

export function toDocumentRecord(row: DocumentRow, embeddedCount = 0): DocumentRecord {
  // Columns about the work on the document stay here.
  const { seq: _, replaces: _r, generation: _g, building: _b, foundTitle, agents, ...fields } = row;
  return {
    ...fields,
    title: row.title ?? foundTitle,
    progress: PROGRESS[row.status],
    error: row.error === null ? null : (JSON.parse(row.error) as DocumentRecord["error"]),
    agentIds: agentIds(agents),
    metadata: JSON.parse(row.metadata) as DocumentRecord["metadata"],
    embeddedCount,
  };
}

/** A passage with what it says of its document. */
export interface PassageRow extends Omit<Passage, "chunkId" | "headings" | "metadata" | "score"> {
  number: number;
  headings: string;
  metadata: string;
}

export const PASSAGE_COLUMNS = `p.n AS number, p.text, p.headings, p.page, p.start_at AS start, p.end_at AS "end",
  d.id AS "documentId", d.filename, coalesce(d.title, d.found_title) AS title, d.version, d.external_id AS "externalId", d.metadata`;

export const toPassage = ({ headings, metadata, ...row }: PassageRow): DocumentPassage => ({
  ...row,
  chunkId: `${row.documentId}#${row.number}`,
  headings: JSON.parse(headings) as string[],
  metadata: JSON.parse(metadata) as Passage["metadata"],
});
