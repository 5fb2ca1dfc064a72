import type { TextBlock } from "../chunk.ts";

/** What the reading of one document may take. */
export interface ExtractLimits {
  pages: number;
  /** UTF-16 units of text. */
  textChars: number;
  unzipRatio: number;
}

export interface ExtractSource {
  bytes: Buffer;
  filename: string;
  limits: ExtractLimits;
  /** From 0 to 1. */
  progress(part: number): void;
}

/** What was read: blocks in reading order. */
export interface Extracted {
  mimeType: string;
  title: string | null;
  /** Null where the format has no pages. */
  pages: number | null;
  blocks: Iterable<TextBlock>;
}

/** Reads one format. Throws `ExtractionError`; anything else it throws counts as `broken_document`. */
export type ExtractFormat = (source: ExtractSource) => Promise<Omit<Extracted, "mimeType">>;
