import type { Metadata, Passage } from "../types.ts";

export interface PassageRow {
  seq: number;
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

export function toPassage(row: PassageRow, score: number): Passage {
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
    score,
    version: row.version,
    externalId: row.external_id,
    metadata: JSON.parse(row.metadata) as Metadata,
  };
}
