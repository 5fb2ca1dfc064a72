import { type Issue, RouseError, safeError } from "../../core/errors.ts";
import type { Ranked } from "../ranking.ts";
import type { CatalogPlace } from "../catalog/catalog.ts";
import type { Access } from "../access.ts";
import type {
  DocumentError,
  DocumentPage,
  DocumentQuery,
  DocumentRecord,
  NewDocument,
  Passage,
  PassagePage,
  PassageQuery,
} from "../types.ts";
import { STORE_UNAVAILABLE } from "../../store/types.ts";

/** Documents of a list, if the query sets no limit. */
export const DEFAULT_LIST = 50;
export const MAX_LIST = 500;
/** So many of each ranking are fused. */
export const MAX_FUSED = 100;

/** A document whose text is to be read now. */
export interface IndexJob {
  id: string;
  sha256: string;
  filename: string;
  title: string | null;
  /** Which index is built; a reindexing in the meantime makes it a stale one. */
  generation: number;
}

export interface IndexPart {
  id: string;
  generation: number;
  /** The chunks, a line each; read from `offset` (bytes) on. */
  file: string;
  offset: number;
  /** The number of the first chunk of this part. */
  first: number;
  done: {
    mimeType: string;
    title: string | null;
    pages: number | null;
    chunks: number;
    /** The codes of the languages of all chunks. */
    languages: string[];
  };
  now: number;
}

export type IndexedPart =
  | { state: "more"; offset: number; next: number }
  /** `removed`: the documents that it took the place of. */
  | { state: "ready"; removed: string[] }
  /** The document is gone, or is being indexed again. */
  | { state: "stale" };

export interface Pending {
  seq: number;
  text: string;
}

export interface NewVector {
  seq: number;
  /** Of length one; null if the embedder refused the text. */
  vector: Float32Array | null;
}

/** What writes. */
export interface WriterCalls {
  add(upload: NewDocument, now: number): Promise<{ document: DocumentRecord; duplicate: boolean }>;
  take(limit: number): Promise<IndexJob[]>;
  indexPart(part: IndexPart): Promise<IndexedPart>;
  fail(job: { id: string; generation: number }, error: DocumentError): Promise<void>;
  putBack(job: { id: string; generation: number }): Promise<void>;
  remove(tenant: string, id: string, access: Access | undefined): Promise<boolean>;
  reindex(
    tenant: string,
    id: string,
    access: Access | undefined,
  ): Promise<DocumentRecord | undefined>;
  /**
   * After a kill: queues what was under way, and what an older version indexed; deletes files that no document has. Says how
   * many documents it queued. The work of another gateway goes to the next one that takes work, after its lease has expired.
   */
  recover(): Promise<number>;
  /** Takes visible passages after `seq` that have no vector of the model, for some minutes. None is left if it returns none. */
  pending(model: string, after: number, limit: number): Promise<Pending[]>;
  putVectors(model: string, vectors: NewVector[]): Promise<void>;
  /** Writes the bytes of a document to `to`. */
  fetch(sha256: string, to: string): Promise<void>;
  /** Says that the work on these goes on. Returns those of them that are still one's own; others are to be left alone. */
  renewLeases(ids: string[]): Promise<string[]>;
  /** Lets others take up what this one was at. */
  release(): Promise<void>;
}

export interface SearchScope {
  tenant: string;
  agentIds?: readonly string[];
}

export interface WordsQuery extends SearchScope {
  text: string;
  limit: number;
  /** Leaves out passages that have too little of the question. */
  relevantOnly?: boolean;
}

/** What is read without the index. */
export interface CatalogCalls {
  get(id: string, model: string | undefined): Promise<DocumentRecord | undefined>;
  /** Those of the documents that are ready, failed or gone. */
  settledIds(ids: string[]): Promise<string[]>;
  list(tenant: string, query: DocumentQuery, model: string | undefined): Promise<DocumentPage>;
  /** The passages of the version that search finds. */
  passages(id: string, query: PassageQuery): Promise<PassagePage>;
  /** Whether the scope has a document that can be found. */
  has(scope: SearchScope): Promise<boolean>;
}

/** What reads and searches. */
export interface ReaderCalls extends CatalogCalls {
  /** By words, and by a vector if there is one. Finds all that was ready when it was asked. */
  search(
    query: WordsQuery,
    near: { model: string; vector: Float32Array } | undefined,
  ): Promise<Passage[]>;
  /** Ranks passages by words alone, without their texts. */
  rank(query: WordsQuery): Promise<Ranked[]>;
  /** Takes into the index what is new, before a search has to. */
  catchUp(): Promise<void>;
}

/** What the thread of the documents can be asked. */
export type Calls = WriterCalls & ReaderCalls;

export interface WorkerSettings extends CatalogPlace {
  /** The path of the gateway's own index. */
  index: string;
}

export interface CallMessage {
  id: number;
  name: string;
  args: unknown[];
}

export type ReplyMessage =
  | { id: number; ok: true; value: unknown }
  | {
      id: number;
      ok: false;
      error: {
        code: string;
        message: string;
        issues?: Issue[];
        extra?: Record<string, unknown>;
        reason?: string;
      };
    };

/** Ends the thread, once what was asked before is done. */
export const CLOSE = "close";

/** An error as it goes to the other thread. `reason` is what the database says of itself, which quotes nothing. */
export function errorReply(error: unknown): Extract<ReplyMessage, { ok: false }>["error"] {
  const { code, message, extra, issues } =
    error instanceof RouseError ? error : new RouseError(STORE_UNAVAILABLE);
  const cause = error instanceof RouseError && error.cause !== undefined ? error.cause : error;
  const { errstr } = cause as { errstr?: string };
  const reason = errstr ?? safeError(cause).code ?? safeError(cause).name;
  return {
    code,
    message,
    reason,
    ...(extra === undefined ? {} : { extra }),
    ...(issues ? { issues } : {}),
  };
}
