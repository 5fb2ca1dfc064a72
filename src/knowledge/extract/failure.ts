import type { DocumentErrorCode } from "../types.ts";

/** Why a document cannot be read. The message is shown to its owner and never quotes the document. */
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
  new ExtractionError("encrypted_document", "the document is protected by a password; upload one without it");

export const broken = (what: string): ExtractionError => new ExtractionError("broken_document", what);

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
      throw new ExtractionError("missing_extractor", `install the package ${name} to read documents of this format`, name);
    throw error;
  }
}
