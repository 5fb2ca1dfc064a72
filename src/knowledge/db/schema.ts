import type { DatabaseSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import { prepareDatabase } from "../../store/sqlite/schema.ts";

/**
 * Chunks are split in two: a search looks at one small row for each of many candidates, and reads the text of a few.
 * A chunk is visible where its generation is the document's: a half-built index has another one. `words` keeps no text
 * of its own, only the index; marks (`M*`) are letters to it, as vowels of Thai and Hindi are.
 */
export const KNOWLEDGE_MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE documents (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, tenant TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,
    filename TEXT NOT NULL, title TEXT, found_title TEXT, metadata TEXT NOT NULL, agents TEXT NOT NULL, mime_type TEXT,
    status TEXT NOT NULL, error TEXT, external_id TEXT, version INTEGER NOT NULL, replaces TEXT,
    generation INTEGER NOT NULL DEFAULT 0, building INTEGER NOT NULL DEFAULT 0,
    chunk_count INTEGER NOT NULL DEFAULT 0, page_count INTEGER, created INTEGER NOT NULL, indexed INTEGER,
    -- The INDEX_FORM of what can be found of it.
    form INTEGER NOT NULL DEFAULT 0);
  CREATE UNIQUE INDEX documents_id ON documents(id);
  CREATE INDEX documents_tenant ON documents(tenant);
  CREATE INDEX documents_sha256 ON documents(sha256);
  CREATE INDEX documents_external ON documents(tenant, external_id, version) WHERE external_id IS NOT NULL;
  CREATE INDEX documents_replaces ON documents(replaces) WHERE replaces IS NOT NULL;
  CREATE INDEX documents_work ON documents(status) WHERE status IN ('queued', 'extracting', 'indexing');

  -- \`gram_count\`: how many n-grams of it are in \`grams\` (see \`grams.ts\`), 0 if it is not there.
  CREATE TABLE chunks (
    seq INTEGER PRIMARY KEY, doc INTEGER NOT NULL, generation INTEGER NOT NULL, gram_count INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX chunks_doc ON chunks(doc, generation);
  CREATE TABLE passages (
    seq INTEGER PRIMARY KEY, n INTEGER NOT NULL, text TEXT NOT NULL, headings TEXT NOT NULL, page INTEGER,
    start_at INTEGER NOT NULL, end_at INTEGER NOT NULL);
  CREATE VIRTUAL TABLE words USING fts5(body, content='', contentless_delete=1, tokenize="porter unicode61 categories 'L* N* Co M*'");
  CREATE VIRTUAL TABLE word_places USING fts5vocab(words, instance);
  CREATE VIRTUAL TABLE grams USING fts5(body, content='', contentless_delete=1, detail=none, tokenize=ascii);
  -- A tenant's number is its mark in \`grams\`.
  CREATE TABLE gram_tenants (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE);
  -- Those of the documents of a tenant, also of deleted ones.
  CREATE TABLE languages (tenant TEXT NOT NULL, language TEXT NOT NULL, PRIMARY KEY (tenant, language)) WITHOUT ROWID;
  -- A vector of null: the endpoint refuses this very text.
  CREATE TABLE vectors (
    id INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL UNIQUE, model TEXT NOT NULL, dimension INTEGER NOT NULL, vector BLOB);
  `,
];

/**
 * Brings the database up to date.
 * @throws RouseError `config_invalid` where a newer version of the program wrote the file.
 */
export function prepareKnowledge(db: DatabaseSync, now: number): void {
  try {
    prepareDatabase(db, now, KNOWLEDGE_MIGRATIONS);
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    const { code, issues } = error;
    const message = error.message.replace("store.url", "knowledge.db");
    throw new RouseError({ code, message, ...(issues ? { issues } : {}) }, { cause: error });
  }
}
