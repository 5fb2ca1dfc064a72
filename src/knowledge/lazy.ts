import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { lazy } from "../core/lazy.ts";
import type { Logger } from "../core/log.ts";
import { openSql, type SqlSource } from "../store/sql/sql.ts";
import { installedFormats } from "./formats.ts";
import type { Extractor } from "../contract/kinds.ts";
import { stageBytes, stageFile, stagingFolder, type StagedFile } from "./upload-staging.ts";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import type { ExtractCall, ExtractorProcess } from "./extract/extractor.ts";
import type { DocumentPage, FileText, Format, Knowledge } from "./types.ts";

/** A file to read, and how much of its text is wanted. */
type TextRequest = Pick<ExtractCall, "file" | "sha256" | "filename" | "limits" | "text">;

/** The documents of a gateway, opened when something first needs them. */
export interface LazyKnowledge extends Knowledge {
  /** Writes a stream into a file for `add`; see `stageFile`. */
  stageUpload(source: Readable, mostBytes: number): Promise<StagedFile>;
  /** The same for bytes that are in memory already. */
  stageBytes(bytes: Uint8Array, mostBytes: number): Promise<StagedFile>;
  /** Reads the text of a staged file that is no document, in a process of its own. The file is deleted, whatever becomes of it. */
  readText(request: TextRequest, signal: AbortSignal): Promise<FileText>;
  /** False if there are no documents at all. @throws RouseError `store_unavailable` */
  hasAny(): Promise<boolean>;
  /** Returns the formats, and which extractors are installed. */
  formats(): Format[];
  /** Before anything is uploaded: deletes what a killed process left of uploads. */
  sweep(): Promise<void>;
}

/** Says whether there are documents, without the thread that has them open. */
interface Presence {
  /** @throws RouseError `store_unavailable` */
  hasDocuments(): Promise<boolean>;
  close(): Promise<void>;
}

interface PresenceOptions {
  /** The state folder. */
  dir: string;
  /** The store's database, if documents are there, and other gateways add some, too. */
  sql?: SqlSource | undefined;
  env: Record<string, string | undefined>;
  log: Logger;
}

/** One connection, which is closed while it is not used, and the longest that a look at the documents takes. */
const LIMITS = { connections: 1, statementMs: 10_000 };
/** The first gateway that opens the documents makes their tables. */
const IS_MADE = "SELECT to_regclass('knowledge_documents') IS NOT NULL AS made";

function createPresence({ dir, sql, env, log }: PresenceOptions): Presence {
  const database = sql && lazy(() => openSql(sql, { env, log, ...LIMITS }));
  return {
    async hasDocuments() {
      if (!database) return existsSync(join(dir, "knowledge.db"));
      const db = await database();
      const [tables] = await db.query<{ made: boolean }>(IS_MADE);
      if (!tables?.made) return false;
      return (await db.query("SELECT 1 FROM knowledge_documents LIMIT 1")).length > 0;
    },
    async close() {
      const opening = database?.current();
      database?.reset();
      await (await opening?.catch(() => undefined))?.close();
    },
  };
}

const NONE: DocumentPage = { documents: [], hasMore: false };

/** The interval at which a gateway checks whether another gateway has added the first document, in milliseconds. */
const LOOK_MS = 2500;

/**
 * Documents that cost nothing until there are any: neither threads nor the code that reads them. `open` is
 * `createKnowledge` of the state folder `dir`; if it fails, the next call tries again.
 */
export function createLazyKnowledge(
  options: PresenceOptions & {
    open(extractor: ExtractorProcess): Promise<Knowledge>;
    config(): KnowledgeConfig;
    /** Returns the current extractors of plugins. */
    extractors(): readonly Extractor[];
  },
): LazyKnowledge {
  const { dir, sql, env, open, config, extractors } = options;
  const presence = createPresence(options);
  let working = false;
  let isOpen = false;
  let looking: NodeJS.Timeout | undefined;

  const extractor = lazy(async (): Promise<ExtractorProcess> => {
    const { createExtractor } = await import("./extract/extractor.ts");
    return createExtractor({ ...config(), env, plugins: extractors });
  });
  const opened = lazy(async (): Promise<Knowledge> => {
    const knowledge = await open(await extractor());
    if (working) await knowledge.start();
    isOpen = true;
    return knowledge;
  });
  const hasAny = async (): Promise<boolean> => isOpen || presence.hasDocuments();
  /** The documents if there can be any, else what no documents answer. */
  const ask = async <T>(work: (knowledge: Knowledge) => Promise<T>, none: T): Promise<T> =>
    (await hasAny()) ? work(await opened()) : none;

  /** Looks until another gateway has added a document. A store that is away is looked at again. */
  const look = async (): Promise<void> => {
    const isThere = await hasAny().catch(() => false);
    if (!working) return;
    if (isThere) await opened().catch(lookLater);
    else lookLater();
  };
  const lookLater = (): void => void (looking = setTimeout(() => void look(), LOOK_MS).unref());

  return {
    stageUpload: (source, mostBytes) => stageFile(dir, source, mostBytes),
    stageBytes: (bytes, mostBytes) => stageBytes(dir, bytes, mostBytes),
    async sweep() {
      const tmp = stagingFolder(dir);
      for (const name of await readdir(tmp).catch(() => []))
        if (/^(?:upload|chunks)-/.test(name))
          await rm(join(tmp, name), { force: true, recursive: true });
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
    async readText(request, signal) {
      const out = join(stagingFolder(dir), `chunks-${randomUUID()}`);
      try {
        const { run } = await extractor();
        const call = { ...request, title: null, out };
        const result = await run(call, { signal, onProgress: () => undefined });
        if (result.ok) return { ok: true, text: await readFile(out, "utf8") };
        if ("error" in result) return result;
        return { ok: false, error: { code: "timeout", message: "the reading was stopped" } };
      } finally {
        await Promise.all([out, request.file].map((path) => rm(path, { force: true })));
      }
    },
    search: (query) => ask((knowledge) => knowledge.search(query), []),
    hasAny,
    has: (scope) => ask((knowledge) => knowledge.has(scope), false),
    formats: () => installedFormats(extractors(), env["PATH"]),
    async start() {
      working = true;
      const opening = opened.current();
      if (opening) await (await opening).start();
      else if (await presence.hasDocuments()) await opened();
      else if (sql) lookLater();
    },
    async close() {
      working = false;
      clearTimeout(looking);
      const knowledge = await opened.current()?.catch(() => undefined);
      await knowledge?.close();
      await (await extractor.current())?.close();
      await presence.close();
    },
  };
}
