import type { TextBlock } from "../chunk.ts";
import { plural } from "../../core/text.ts";
import type { DocumentErrorCode } from "../types.ts";

/** The most that the reading of one document may take. */
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
  /** The folders of programs that may help, as in PATH. */
  programs: string;
  /** The number of documents that it is inside of. */
  depth: number;
  /** Reads a document inside this one, with the same limits. */
  readAttached(document: AttachedDocument): Promise<Extracted>;
}

/** A document inside another one, such as an attachment. */
export type AttachedDocument = Pick<ExtractSource, "bytes" | "filename">;

/** The text of a document: blocks in reading order. */
export interface Extracted {
  mimeType: string;
  title: string | null;
  /** Null if the format has no pages. */
  pages: number | null;
  blocks: Iterable<TextBlock>;
}

/** Reads one format. Throws `ExtractionError`; anything else it throws counts as `broken_document`. */
export type ExtractFormat = (
  source: ExtractSource,
) => Promise<Pick<Extracted, "blocks"> & Partial<Pick<Extracted, "title" | "pages">>>;

/** The reason that a document cannot be read. The message is shown to its owner and never quotes the document. */
export class ExtractionError extends Error {
  readonly code: DocumentErrorCode;
  readonly package?: string;

  constructor(code: DocumentErrorCode, message: string, missing?: string) {
    super(message);
    this.name = "ExtractionError";
    this.code = code;
    if (missing !== undefined) this.package = missing;
  }
}

export const encrypted = (): ExtractionError =>
  new ExtractionError(
    "encrypted_document",
    "the document is protected by a password; upload one without it",
  );

export const broken = (what: string): ExtractionError =>
  new ExtractionError("broken_document", what);

/** @throws ExtractionError `too_large` if a document has more pages, slides, sheets or chapters than it may have */
export function checkParts(whole: string, count: number, most: number, part: string): void {
  if (count > most)
    throw new ExtractionError("too_large", `${whole} has more than ${plural(most, part)}`);
}

/**
 * Loads an optional package when it is first needed.
 * @throws ExtractionError `missing_extractor` where it is not installed.
 */
export async function optional<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND")
      throw new ExtractionError(
        "missing_extractor",
        `install the package ${name} to read documents of this format`,
        name,
      );
    throw error;
  }
}
