import { chmod, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import { createBreaker, type Breaker } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { shareInTurn } from "../core/turn.ts";
import { isVisible } from "./access.ts";
import type { SqlSource } from "../store/sql.ts";
import { openDatabase } from "./thread/client.ts";
import { createEmbeddingLoop } from "./embed.ts";
import { createExtractor } from "./extract/extractor.ts";
import { createGuardedCalls } from "./guarded-calls.ts";
import { installedFormats } from "./formats.ts";
import type { Extractor } from "../contract/kinds.ts";
import { createJobs } from "./jobs.ts";
import { readDocumentText } from "./extract/document-text.ts";
import { createClusterWorker } from "./cluster-worker.ts";
import { createSearch } from "./search.ts";
import { stagingFolder, UPLOAD_PREFIX } from "./upload-staging.ts";
import { MAX_FILE_TEXT, type DocumentRecord, type Knowledge, type SearchModels } from "./types.ts";

const CATCH_UP_MS = 100;
const OLD_UPLOAD_MS = 24 * 60 * 60 * 1000;

export interface KnowledgeOptions extends SearchModels {
  /** The state folder: `knowledge.db`, `knowledge-index.db` and `tmp/` are made in it. One process at a time. */
  dir: string;
  /** The store's database, if documents are there instead of `knowledge.db`, for any number of processes. */
  sql?: SqlSource | undefined;
  /** What the thread that talks to that database and the processes that read documents take from the environment. */
  env?: Record<string, string | undefined>;
  clock: Clock;
  log: Logger;
  config: KnowledgeConfig;
  /** Says whether the endpoints are asked. Default: one of its own. */
  breaker?: Breaker;
  /** What plugins read now. Default: nothing. */
  extractors?(): readonly Extractor[];
  /** The file that an extraction process runs, for a test. */
  extractionChild?: string;
}

/** Makes a file for its owner alone before it is opened: its companions take over its mode. */
async function makePrivate(file: string): Promise<string> {
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await chmod(file, 0o600);
  return file;
}

/** Deletes chunks that a killed process was about to index, and uploads that are too old to be in progress. */
async function sweepTmp(tmp: string, now: number): Promise<void> {
  for (const name of await readdir(tmp)) {
    const file = join(tmp, name);
    const isOld = async (): Promise<boolean> => now - (await stat(file)).mtimeMs > OLD_UPLOAD_MS;
    if (name.startsWith("chunks-") || (name.startsWith(UPLOAD_PREFIX) && (await isOld())))
      await rm(file, { force: true });
  }
}

/**
 * Opens the documents of a state folder, or of the store's database. Work on them begins with `start`.
 * @throws RouseError `config_invalid` where the database was written by a newer version, `store_unavailable` where it
 * cannot be opened.
 */
export async function createKnowledge(options: KnowledgeOptions): Promise<Knowledge> {
  const {
    dir,
    sql,
    env = {},
    clock,
    log,
    config,
    embed,
    extractionChild,
    extractors = () => [],
  } = options;
  const { breaker = createBreaker({ clock }) } = options;
  const tmp = stagingFolder(dir);
  await mkdir(tmp, { recursive: true, mode: 0o700 });
  const settings = {
    database: sql ? "" : await makePrivate(join(dir, "knowledge.db")),
    index: join(dir, "knowledge-index.db"),
    sql,
    now: clock.now(),
  };
  const database = await openDatabase(settings, { log, env });
  const extractor = createExtractor({
    workers: config.workers,
    memoryMb: config.memoryMb,
    timeoutMs: config.timeout,
    env,
    plugins: extractors,
    ...(extractionChild === undefined ? {} : { child: extractionChild }),
  });
  const embedding = embed && createEmbeddingLoop({ embedder: embed, database, clock, log });
  const waiters = new Map<string, Set<() => void>>();
  const settle = (id: string): void => waiters.get(id)?.forEach((wake) => wake());
  let catchingUp: NodeJS.Timeout | undefined;
  /** Before a search has to: what comes in a short time goes into the index together. What is wrong, a search says. */
  const catchUp = (): void =>
    void (catchingUp ??= setTimeout(() => {
      catchingUp = undefined;
      database.call("catchUp").catch(() => undefined);
    }, CATCH_UP_MS));
  const jobs = createJobs({
    database,
    extractor,
    config,
    tmp,
    clock,
    log,
    onPart: catchUp,
    onSettled(id, removed) {
      for (const one of removed) jobs.abort(one);
      for (const one of [id, ...removed]) settle(one);
      embedding?.wake();
    },
  });
  const calls = createGuardedCalls({ breaker, clock, log });
  const search = createSearch({ database, models: options, makeCall: calls.make });
  const others =
    sql &&
    createClusterWorker({
      database,
      jobs,
      embedding,
      log,
      awaited: () => [...waiters.keys()],
      onSettled: settle,
    });
  let started = false;
  const work = (): void => void (started && jobs.wake());

  const live = (document: DocumentRecord): DocumentRecord => {
    const progress = jobs.progress(document.id);
    return progress === undefined || document.status === "ready" || document.status === "failed"
      ? document
      : { ...document, progress };
  };
  const get = async (id: string): Promise<DocumentRecord | undefined> => {
    const document = await database.call("get", id, embed?.model);
    return document && live(document);
  };
  const isOver = ({ status }: DocumentRecord): boolean => status === "ready" || status === "failed";

  return {
    async add(upload) {
      const added = await database
        .call("add", upload, clock.now())
        .catch(async (error: unknown) => {
          await rm(upload.file, { force: true });
          throw error;
        });
      work();
      return added;
    },
    async get(tenant, id, access) {
      const document = await get(id);
      return document?.tenant === tenant && isVisible(document.agentIds, access)
        ? document
        : undefined;
    },
    async list(tenant, query = {}) {
      const page = await database.call("list", tenant, query, embed?.model);
      return { ...page, documents: page.documents.map(live) };
    },
    async passages(tenant, id, query = {}) {
      return (await get(id))?.tenant === tenant ? database.call("passages", id, query) : undefined;
    },
    async remove(tenant, id, access) {
      const removed = await database.call("remove", tenant, id, access);
      if (removed) jobs.abort(id);
      settle(id);
      return removed;
    },
    async reindex(tenant, id, access) {
      const document = await database.call("reindex", tenant, id, access);
      if (document) jobs.abort(id);
      work();
      return document;
    },
    async wait(id, ms) {
      const over = AbortSignal.timeout(Math.min(ms, 2 ** 31 - 1));
      for (;;) {
        const changed = Promise.withResolvers<void>();
        const set = waiters.get(id) ?? new Set();
        waiters.set(id, set.add(changed.resolve));
        over.addEventListener("abort", () => changed.resolve(), { once: true });
        try {
          const document = await get(id);
          if (!document || isOver(document) || over.aborted) return document;
          // This gateway gets no event about what another gateway did.
          others?.refresh();
          await changed.promise;
        } finally {
          set.delete(changed.resolve);
          if (set.size === 0 && waiters.get(id) === set) waiters.delete(id);
        }
      }
    },
    search,
    async readFile(file, signal) {
      const { pages, unzipRatio, textMb } = config;
      const limits = { pages, unzipRatio, textChars: Math.min(textMb * 1e6, MAX_FILE_TEXT) };
      try {
        return await readDocumentText(extractor, dir, { ...file, limits, text: "whole" }, signal);
      } finally {
        await rm(file.file, { force: true });
      }
    },
    // Each turn asks, and turns that begin together mostly ask the same.
    has: shareInTurn((scope) => database.call("has", scope), JSON.stringify),
    formats: () => installedFormats(extractors(), env["PATH"]),
    async start() {
      await sweepTmp(tmp, clock.now());
      const again = await database.call("recover");
      if (again > 0)
        log.info(
          { documents: again },
          "documents are read again: their indexing was interrupted, or an older version indexed them",
        );
      started = true;
      jobs.wake();
      catchUp();
      embedding?.wake();
      others?.start();
    },
    async close() {
      started = false;
      await others?.close();
      await Promise.all([jobs.close(), embedding?.close(), calls.close()]);
      await extractor.close();
      clearTimeout(catchingUp);
      await database.close();
      waiters.forEach((set) => set.forEach((wake) => wake()));
    },
  };
}
