import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { lazy } from "../core/lazy.ts";
import { installedFormats } from "./formats.ts";
import type { Extractor } from "../contract/kinds.ts";
import {
  stageBytes,
  stageFile,
  stagingFolder,
  UPLOAD_PREFIX,
  type StagedFile,
} from "./upload-staging.ts";
import type { Presence } from "./presence.ts";
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

/** How often a gateway checks whether another gateway has added the first document, in milliseconds. */
const LOOK_MS = 2500;

/**
 * Documents that cost nothing until there are any: neither threads nor the code that reads them. `open` is
 * `createKnowledge` of the state folder `dir`; where it fails, the next call tries again. If `isShared`, other gateways add
 * documents, too: this one looks for the first of them.
 */
export function createLazyKnowledge(options: {
  dir: string;
  isShared: boolean;
  presence: Presence;
  open(): Promise<Knowledge>;
  /** What plugins read now. Default: nothing. */
  extractors?(): readonly Extractor[];
  /** Where programs that read documents are looked for. Default: nowhere. */
  env?: Record<string, string | undefined>;
}): LazyKnowledge {
  const { dir, isShared, presence, open, extractors = () => [], env = {} } = options;
  let working = false;
  let looking: NodeJS.Timeout | undefined;

  const openNow = async (): Promise<Knowledge> => {
    const knowledge = await open();
    if (working) await knowledge.start();
    return knowledge;
  };
  const opened = lazy(openNow);
  /** The documents where there can be any, else what no documents answer. */
  const ask = async <T>(
    work: (knowledge: Knowledge) => Promise<T>,
    none: T,
    tenant?: string,
  ): Promise<T> =>
    opened.current() === undefined && !(await presence.has(tenant)) ? none : work(await opened());

  /** Looks until another gateway has added a document. A store that is away is looked at again. */
  const look = async (): Promise<void> => {
    const isThere = opened.current() !== undefined || (await presence.hasWork().catch(() => false));
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
      const names = await readdir(tmp).catch(() => []);
      for (const name of names)
        if (name.startsWith(UPLOAD_PREFIX) || name.startsWith("chunks-"))
          await rm(join(tmp, name), { force: true });
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
    // Every turn asks this: an agent of a tenant without documents must not open those of others.
    has: (scope) => ask((knowledge) => knowledge.has(scope), false, scope.tenant),
    formats: () => installedFormats(extractors(), env["PATH"]),
    async start() {
      working = true;
      const opening = opened.current();
      if (opening) await (await opening).start();
      else if (await presence.hasWork()) await opened();
      else if (isShared) lookLater();
    },
    async close() {
      working = false;
      clearTimeout(looking);
      const knowledge = await opened.current()?.catch(() => undefined);
      await knowledge?.close();
      await presence.close();
    },
  };
}
