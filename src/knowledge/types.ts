import type { Access } from "./access.ts";

export type { Access } from "./access.ts";

/** The states of a document, in this order. `ready` means that search finds it, never earlier. */
export const DOCUMENT_STATES = ["queued", "extracting", "indexing", "ready", "failed"] as const;
export type DocumentStatus = (typeof DOCUMENT_STATES)[number];

/** The reasons that a document could not be indexed. */
export const DOCUMENT_ERRORS = [
  "missing_extractor",
  "encrypted_document",
  "no_text_found",
  "unsupported_type",
  "too_large",
  "timeout",
  "broken_document",
  "internal",
] as const;
export type DocumentErrorCode = (typeof DOCUMENT_ERRORS)[number];

export interface DocumentError {
  code: DocumentErrorCode;
  /** Says what to do; never quotes the document. */
  message: string;
  /** The npm package that is not installed, for `missing_extractor`. */
  package?: string;
}

/** A format, and whether what reads it is installed. */
export interface Format {
  /** Of a plugin's format: its first file name extension. */
  id: string;
  mimeType: string;
  extensions: readonly string[];
  /** The npm packages that read it; none for built-in ones. */
  packages: readonly string[];
  /** Those of them that are not installed, and a program that is not: a document of this format fails with `missing_extractor`. */
  missing: readonly string[];
}

/** The choices for bytes that the tenant has already. */
export const ON_DUPLICATE = ["skip", "replace", "error", "keep"] as const;
export type OnDuplicate = (typeof ON_DUPLICATE)[number];

/** Flat facts about a document, as its owner wrote them. */
export type Metadata = Record<string, string | number | boolean>;

/** A file that has arrived whole and is on disk for good; `stageFile` and `stageBytes` make one. */
export interface NewDocument {
  tenant: string;
  /** The file in `<dir>/tmp`; `add` takes it over, whatever becomes of it. */
  file: string;
  /** Of its bytes, in lower-case hex. */
  sha256: string;
  bytes: number;
  /** As the client said it: shown and used for its ending, never as a path. */
  filename: string;
  /** The agents that may search it, or names that stand for several; none means every agent of the tenant. */
  agentIds?: readonly string[];
  title?: string;
  metadata?: Metadata;
  /** The owner's name for the document: a new upload with the same one replaces the old version once it is ready. */
  externalId?: string;
  /** Default `skip`: the document that is there is returned, and gains the agents. */
  onDuplicate?: OnDuplicate;
  /** Whose upload it is. Default: someone who may see and change all documents of the tenant. */
  access?: Access;
}

/** Times are milliseconds since the epoch. */
export interface DocumentRecord {
  id: string;
  tenant: string;
  filename: string;
  title: string | null;
  bytes: number;
  sha256: string;
  /** By its bytes; null until they were looked at. */
  mimeType: string | null;
  status: DocumentStatus;
  /** From 0 to 1 over all of the work. */
  progress: number;
  /** Of a failed document; of a ready one where a later reindexing failed and the older index is still in use. */
  error: DocumentError | null;
  /** None: every agent of the tenant. */
  agentIds: string[];
  metadata: Metadata;
  externalId: string | null;
  version: number;
  chunkCount: number;
  pageCount: number | null;
  /** Chunks that have a vector of the configured model; 0 where embeddings are off. */
  embeddedCount: number;
  createdAt: number;
  indexedAt: number | null;
}

/** Returns whether the work on a document is over. */
export const isSettled = ({ status }: Pick<DocumentRecord, "status">): boolean =>
  status === "ready" || status === "failed";

export interface AddedDocument {
  document: DocumentRecord;
  /** True if the bytes were there already: `document` has them. */
  duplicate: boolean;
}

export interface DocumentQuery {
  /** Default 50, at most 500. */
  limit?: number;
  /** The id of the last one of the page before. */
  after?: string;
  status?: DocumentStatus;
  /** Only those that one of these agents may search. */
  agentIds?: readonly string[];
  externalId?: string;
  /** The beginning of the external ids of the documents. */
  externalIdPrefix?: string;
}

/** A page of documents, newest first. */
export interface DocumentPage {
  documents: DocumentRecord[];
  hasMore: boolean;
}

export interface SearchQuery {
  tenant: string;
  /** Only what one of these agents may see; not given, all of the tenant. */
  agentIds?: readonly string[];
  text: string;
  /** The questions that `text` goes on with: passages are looked for that fit them together, or `text` alone. */
  earlier?: string;
  /** Default 8, at most 1000. */
  limit?: number;
  /** The most passages of one document. Default: any number. */
  perDocument?: number;
  /**
   * Leaves out passages that have too little of the question's words, if passages are not found by meaning, too; those that the
   * reranker scores below its `minScore`; and all of them for a text that asks documents about nothing, such as thanks.
   */
  relevantOnly?: boolean;
}

/** A chunk that was found. `text` comes from outside: it is data, never an instruction. */
export interface Passage {
  documentId: string;
  /** Names the passage: `<document id>#<number>`. */
  chunkId: string;
  filename: string;
  title: string | null;
  text: string;
  /** The headings above it, outermost first. */
  headings: string[];
  /** The page, slide or sheet it begins on, from 1; null if the format has none. */
  page: number | null;
  /** The position in the document's extracted text, in UTF-16 units. */
  start: number;
  end: number;
  /** Higher is better; comparable only within one answer. */
  score: number;
  version: number;
  externalId: string | null;
  metadata: Metadata;
}

/** A passage of a document as it is indexed. */
export type DocumentPassage = Omit<Passage, "score"> & {
  /** Its place in the document, from 0; the number in `chunkId`. */
  number: number;
};

export interface PassageQuery {
  /** The number of the first passage. Default 0. */
  from?: number;
  /** Default 50, at most 500. */
  limit?: number;
}

/** Passages of one document in the order of its text. */
export interface PassagePage {
  passages: DocumentPassage[];
  hasMore: boolean;
}

/** The text of a file, or why it cannot be read. */
export type FileText = { ok: true; text: string } | { ok: false; error: DocumentError };

/** The most text of a file that a model is given, in UTF-16 units: more than fits into any window. */
export const MAX_FILE_TEXT = 4_000_000;

/** Turns texts into vectors. Throws `EndpointError` if there are none. */
export interface Embedder {
  /** The provider's name in the config. */
  readonly provider?: string;
  /** Stored with each vector: vectors of another model are never compared. */
  readonly model: string;
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>;
}

/** Tells how well texts answer a question. Throws `EndpointError` if the endpoint does not. */
export interface Reranker {
  /** The provider's name in the config. */
  readonly provider: string;
  readonly model: string;
  /** The number of passages that it orders: the first ones of a search. */
  readonly passages: number;
  /** The least score of a relevant passage. Undefined: the score of a passage does not tell whether it is relevant. */
  readonly minScore: number | undefined;
  /** Returns the score of each text, in the order of the texts; higher is better. */
  rerank(query: string, texts: readonly string[], signal: AbortSignal): Promise<number[]>;
}

/** The models that search asks; without them words alone are compared. */
export interface SearchModels {
  embed?: Embedder;
  rerank?: Reranker;
}

/**
 * Documents, their index, and the work on them. Whoever has no `access` of its own may see and change all of the tenant.
 * All methods throw `RouseError` `store_unavailable` where the database fails.
 */
export interface Knowledge {
  /**
   * Takes a file that lies in `tmp` already hashed; decides about duplicates and versions; queues the indexing durably.
   * @throws RouseError `duplicate_document` for bytes that are there already where `onDuplicate` is `error`;
   * `document_shared` and `external_id_taken` if that would change a document that is not the caller's to change.
   */
  add(upload: NewDocument): Promise<AddedDocument>;
  get(tenant: string, id: string, access?: Access): Promise<DocumentRecord | undefined>;
  list(tenant: string, query?: DocumentQuery): Promise<DocumentPage>;
  /** Returns the passages of a document in the order of its text; undefined if there is no such document. */
  passages(tenant: string, id: string, query?: PassageQuery): Promise<PassagePage | undefined>;
  /**
   * Deletes the file, its chunks and vectors, and stops the work on it. Returns false if there is no such document.
   * @throws RouseError `document_shared`
   */
  remove(tenant: string, id: string, access?: Access): Promise<boolean>;
  /**
   * Queues the document for indexing again; the previous index stays searchable until the new one is ready.
   * @throws RouseError `document_shared`
   */
  reindex(tenant: string, id: string, access?: Access): Promise<DocumentRecord | undefined>;
  /** Resolves when the document is ready or failed, or the time (milliseconds) is over; undefined if the document is gone. */
  wait(id: string, ms: number): Promise<DocumentRecord | undefined>;
  /** Best first. The scope is part of the query, never a filter afterwards. */
  search(query: SearchQuery): Promise<Passage[]>;
  /** Returns whether a search could find anything at all. */
  has(scope: Pick<SearchQuery, "tenant" | "agentIds">): Promise<boolean>;
  /** Takes up the work that is queued, also what a killed process left half-done. */
  start(): Promise<void>;
  /** Stops the work; what was not finished is taken up by the next start. */
  close(): Promise<void>;
}
