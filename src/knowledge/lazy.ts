import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { DatabaseSync } from "node:sqlite";
import { lazy } from "../core/lazy.ts";
import { installedFormats } from "./formats.ts";
import type { Extractor } from "../contract/kinds.ts";
import { stageBytes, stageFile, stagingFolder, UPLOAD_PREFIX, type StagedFile } from "./upload-staging.ts";
import type { DocumentPage, Knowledge } from "./types.ts";

/** The documents of a gateway, opened when something first needs them. */
export interface LazyKnowledge extends Knowledge {
  /** Writes a stream into a file for `add`; see `stageFile`. */
  stageUpload(source: Readable, mostBytes: number): Promise<StagedFile>;
  /** The same for bytes that are in memory already. */
  stageBytes(bytes: Uint8Array, mostBytes: number): Promise<StagedFile>;
  /** Before anything is uploaded: deletes what a killed process left of uploads. */
  sweep(): Promise<void>;
}

const NONE: DocumentPage = { documents: [], hasMore: false };

/** Whether a query finds anything in the file; without opening threads for the answer. */
function findsAny(file: string, sql: string, ...parameters: string[]): boolean {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    return db.prepare(`${sql} LIMIT 1`).get(...parameters) !== undefined;
  } catch {
    // Whatever is wrong with it, opening it says.
    return true;
  } finally {
    db?.close();
  }
}

/** Whether a killed or stopped process left work behind. */
function isUnfinished(file: string, embeds: boolean): boolean {
  const unfinished = embeds ? "" : "WHERE status IN ('queued', 'extracting', 'indexing')";
  return findsAny(file, `SELECT 1 FROM documents ${unfinished}`);
}

/**
 * Documents that cost nothing until there are any: neither threads nor the code that reads them. `open` is
 * `createKnowledge` of the state folder `dir`; where it fails, the next call tries again. With `embeds`, vectors are made
 * up for at the start as well. Those that are `shared` with other gateways are opened at the start: only the database
 * knows whether there is work.
 */
export function createLazyKnowledge(options: {
  dir: string;
  shared: boolean;
  open(): Promise<Knowledge>;
  embeds(): boolean;
  /** What plugins read now. Default: nothing. */
  extractors?(): readonly Extractor[];
}): LazyKnowledge {
  const { dir, shared, open, embeds, extractors = () => [] } = options;
  const file = join(dir, "knowledge.db");
  /** Tenants that had no documents in the file: whatever adds one opens it. */
  const without = new Set<string>();
  let working = false;

  const openNow = async (): Promise<Knowledge> => {
    const knowledge = await open();
    if (working) await knowledge.start();
    return knowledge;
  };
  const opened = lazy(openNow);
  /** The documents where there can be any, else what no documents answer. */
  const ask = async <T>(work: (knowledge: Knowledge) => Promise<T>, none: T): Promise<T> =>
    opened.current() === undefined && !shared && !existsSync(file) ? none : work(await opened());

  /** Every turn asks this: an agent of a tenant without documents must not open those of others. */
  const hasNone = (tenant: string): boolean => {
    if (opened.current() !== undefined || shared || !existsSync(file)) return false;
    if (!without.has(tenant) && !findsAny(file, "SELECT 1 FROM documents WHERE tenant = ?", tenant)) without.add(tenant);
    return without.has(tenant);
  };

  return {
    stageUpload: (source, mostBytes) => stageFile(dir, source, mostBytes),
    stageBytes: (bytes, mostBytes) => stageBytes(dir, bytes, mostBytes),
    async sweep() {
      const tmp = stagingFolder(dir);
      const names = await readdir(tmp).catch(() => []);
      for (const name of names)
        if (name.startsWith(UPLOAD_PREFIX) || name.startsWith("chunks-")) await rm(join(tmp, name), { force: true });
    },
    add: async (upload) => {
      const knowledge = await opened().catch(async (error: unknown) => {
        await rm(upload.file, { force: true });
        throw error;
      });
      return knowledge.add(upload);
    },
    get: (...args) => ask((knowledge) => knowledge.get(...args), undefined),
    list: (tenant, query) => ask((knowledge) => knowledge.list(tenant, query), NONE),
    passages: (...args) => ask((knowledge) => knowledge.passages(...args), undefined),
    remove: (...args) => ask((knowledge) => knowledge.remove(...args), false),
    reindex: (...args) => ask((knowledge) => knowledge.reindex(...args), undefined),
    wait: (id, ms) => ask((knowledge) => knowledge.wait(id, ms), undefined),
    readFile: async (file, signal) => (await opened()).readFile(file, signal),
    search: (query) => ask((knowledge) => knowledge.search(query), []),
    has: async (scope) => !hasNone(scope.tenant) && ask((knowledge) => knowledge.has(scope), false),
    formats: () => installedFormats(extractors()),
    async start() {
      working = true;
      const opening = opened.current();
      if (opening) await (await opening).start();
      else if (shared || (existsSync(file) && isUnfinished(file, embeds()))) await opened();
    },
    async close() {
      working = false;
      const knowledge = await opened.current()?.catch(() => undefined);
      await knowledge?.close();
    },
  };
}
