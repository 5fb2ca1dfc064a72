import type { Block } from "../chunk.ts";
import type { FormatId } from "../types.ts";

/** What the reading of one document may take. */
export interface Limits {
  pages: number;
  /** UTF-16 units of text. */
  textChars: number;
  unzipRatio: number;
}

export interface Source {
  bytes: Buffer;
  filename: string;
  limits: Limits;
  /** From 0 to 1. */
  progress(part: number): void;
}

/** What was read: blocks in reading order. */
export interface Extracted {
  format: FormatId;
  title: string | null;
  /** Null where the format has no pages. */
  pages: number | null;
  blocks: Iterable<Block>;
}

/** Reads one format. Throws `ExtractionError`; anything else it throws counts as `broken_document`. */
export type Extractor = (source: Source) => Promise<Omit<Extracted, "format">>;
