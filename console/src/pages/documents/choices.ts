import type { DocumentStatus } from "../../../../src/knowledge/types.ts";

/** The tenant of the operator's own documents, which the command line uses too. */
export const DOCUMENT_TENANT = "default";

export const STATES: readonly DocumentStatus[] = [
  "queued",
  "extracting",
  "indexing",
  "ready",
  "failed",
];
