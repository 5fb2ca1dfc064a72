import type { z } from "zod";
import type { DocumentRecord, Format, Passage } from "../../knowledge/types.ts";
import type { ApiKeys } from "../../chat/api-keys.ts";
import type { DocumentView, formatsAnswer, passagesAnswer } from "./knowledge-schema.ts";
import { listShownAgents } from "../../chat/document-access.ts";

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** A document as the platform API shows it. */
export async function documentView(document: DocumentRecord, keys: Pick<ApiKeys, "list">): Promise<DocumentView> {
  return {
    id: document.id,
    object: "knowledge.document",
    filename: document.filename,
    title: document.title,
    bytes: document.bytes,
    sha256: document.sha256,
    mime_type: document.mimeType,
    status: document.status,
    progress: document.progress,
    error: document.error,
    agent_ids: await listShownAgents(document.agentIds, keys),
    metadata: document.metadata,
    external_id: document.externalId,
    chunk_count: document.chunkCount,
    page_count: document.pageCount,
    version: document.version,
    created_at: seconds(document.createdAt),
    indexed_at: document.indexedAt === null ? null : seconds(document.indexedAt),
  };
}

export function passageView(passage: Passage): z.input<typeof passagesAnswer>["data"][number] {
  const { chunkId, documentId, externalId, filename, title, text, headings, page, start, end, score, version, metadata } = passage;
  const names = { object: "knowledge.passage" as const, chunk_id: chunkId, document_id: documentId, filename, title };
  return { ...names, text, headings, page, start, end, score, version, external_id: externalId, metadata };
}

export function formatView({ id, mimeType, extensions, missing }: Format): z.input<typeof formatsAnswer>["data"][number] {
  const available = missing.length === 0;
  return { id, object: "knowledge.format", mime_type: mimeType, extensions: [...extensions], available, missing: [...missing] };
}
