import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { Config } from "../config/schema/index.ts";
import type { Extractor, ProviderDescription, SourceDocuments } from "../contract/kinds.ts";
import type { Breaker } from "../core/breaker.ts";
import { lazy } from "../core/lazy.ts";
import type { PartContext } from "../store/context.ts";
import { createDocumentSync } from "./document-sync.ts";
import type { ExtractCall, ExtractorProcess } from "./extract/extractor.ts";
import { installedFormats } from "./formats.ts";
import { configuredSearchModels } from "./models/configured.ts";
import type { FileText, Format, Knowledge } from "./types.ts";
import { stageBytes, stageFile, stagingFolder, type StagedFile } from "./upload-staging.ts";

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
  /** False if there are no documents at all. */
  hasAny(): Promise<boolean>;
  /** Returns the formats, and which extractors are installed. */
  formats(): Format[];
  /** Before anything is uploaded: deletes what a killed process left of uploads. */
  sweep(): Promise<void>;
}

/** The documents, and what uses their search. */
export interface KnowledgeParts {
  knowledge: LazyKnowledge;
  /** Creates the synchronization of the documents of a plugin's source. */
  createDocuments(plugin: string): SourceDocuments;
  /** Finds texts by a question. Returns their places in the list, best first. */
  searchTexts(texts: readonly string[], query: string): Promise<number[]>;
}

interface KnowledgeContext extends PartContext {
  /** Its breaker is that of the models of search, too. */
  parking: { breaker: Breaker };
  snapshot(): {
    config: Config;
    models: { kinds: readonly ProviderDescription[] };
    offers: { extractors: readonly { value: Extractor }[] };
  };
}

/**
 * Creates the documents. They cost nothing until there are any, or until other gateways may add some: neither threads nor the
 * code that reads them. If they cannot be opened, the next call tries again.
 */
function createLazyKnowledge(context: KnowledgeContext): LazyKnowledge {
  const { clock, log, parking, snapshot, stateDir: dir, sql } = context;
  const { env, fetch } = context.options;
  let working = false;

  const listExtractors = (): Extractor[] => snapshot().offers.extractors.map(({ value }) => value);
  const extractor = lazy(async (): Promise<ExtractorProcess> => {
    const { createExtractor } = await import("./extract/extractor.ts");
    return createExtractor({
      ...snapshot().config.platform.knowledge,
      env,
      plugins: listExtractors,
    });
  });
  const opened = lazy(async (): Promise<Knowledge> => {
    const { createKnowledge } = await import("./knowledge.ts");
    const { config, models } = snapshot();
    const knowledge = await createKnowledge({
      dir,
      sql,
      env,
      clock,
      log,
      config: config.platform.knowledge,
      breaker: parking.breaker,
      extractor: await extractor(),
      ...configuredSearchModels({ config, env, fetch, kinds: models.kinds }),
    });
    if (working) await knowledge.start();
    return knowledge;
  });
  const hasAny = async (): Promise<boolean> =>
    sql !== undefined || existsSync(join(dir, "knowledge.db"));
  /** The documents if there can be any, else what no documents answer. */
  const ask = async <T>(work: (knowledge: Knowledge) => Promise<T>, none: T): Promise<T> =>
    (await hasAny()) ? work(await opened()) : none;

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
    list: (...args) =>
      ask((knowledge) => knowledge.list(...args), { documents: [], hasMore: false }),
    passages: (...args) => ask((knowledge) => knowledge.passages(...args), undefined),
    remove: (...args) => ask((knowledge) => knowledge.remove(...args), false),
    reindex: (...args) => ask((knowledge) => knowledge.reindex(...args), undefined),
    wait: (...args) => ask((knowledge) => knowledge.wait(...args), undefined),
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
    formats: () => installedFormats(listExtractors(), env["PATH"]),
    async start() {
      working = true;
      const opening = opened.current();
      if (opening) await (await opening).start();
      else if (await hasAny()) await opened();
    },
    async close() {
      working = false;
      const knowledge = await opened.current()?.catch(() => undefined);
      await knowledge?.close();
      await (await extractor.current())?.close();
    },
  };
}

/** Opens the documents of a gateway. */
export function openKnowledge(context: KnowledgeContext): KnowledgeParts {
  const { snapshot, opened } = context;
  const knowledge = createLazyKnowledge(context);
  opened.defer(() => knowledge.close());
  const stage = (bytes: Uint8Array): Promise<StagedFile> =>
    knowledge.stageBytes(bytes, snapshot().config.platform.knowledge.fileMb * 1e6);
  return {
    knowledge,
    createDocuments: (plugin) => createDocumentSync(plugin, knowledge, stage),
    // The words of all languages are loaded when texts are first searched.
    searchTexts: async (texts, query) =>
      (await import("./short-texts.ts")).searchTexts(texts, query),
  };
}
