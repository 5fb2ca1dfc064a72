import { appendFile, chmod, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import { Breaker } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { shareInTurn } from "../core/pause.ts";
import { isVisible } from "./access.ts";
import type { SqlSource } from "../store/sql/sql.ts";
import { openDatabase } from "./thread/client.ts";
import { createEmbeddingLoop } from "./models/embed.ts";
import { createExtractor, type ExtractorProcess } from "./extract/extractor.ts";
import { createGuardedCalls } from "./models/guarded-calls.ts";
import { createJobs } from "./jobs.ts";
import { createSearch } from "./search.ts";
import { stagingFolder } from "./upload-staging.ts";
import { isSettled, type DocumentRecord, type Knowledge, type SearchModels } from "./types.ts";

/** Between two looks at a document that somebody waits for: first, and at most. */
const FIRST_LOOK_MS = 5;
const MAX_LOOK_MS = 200;
/** The interval of checks whether other gateways have left passages without a vector. */
const VECTORS_MS = 60_000;

export interface KnowledgeOptions extends SearchModels {
  /** The state folder: `knowledge.db`, `knowledge-index.db` and `tmp/` are made in it. One process at a time. */
  dir: string;
  /** The store's database, if documents are there instead of `knowledge.db`, for any number of processes. */
  sql?: SqlSource | undefined;
  /** The variables of the environment for the thread that talks to that database. */
  env?: Record<string, string | undefined>;
  clock: Clock;
  log: Logger;
  config: KnowledgeConfig;
  /** Says whether the endpoints are asked. Default: one of its own. */
  breaker?: Breaker;
  /** Reads documents; who gives it closes it. Default: one of its own. */
  extractor?: ExtractorProcess;
}

/** Makes a file for its owner alone before it is opened: its companions take over its mode. */
async function makePrivate(file: string): Promise<string> {
  await appendFile(file, "", { mode: 0o600 });
  await chmod(file, 0o600);
  return file;
}

/**
 * Opens the documents of a state folder, or of the store's database. Work on them begins with `start`.
 * @throws RouseError `config_invalid` where the database was written by a newer version, `store_unavailable` where it
 * cannot be opened.
 */
export async function createKnowledge(options: KnowledgeOptions): Promise<Knowledge> {
  const { dir, sql, env = {}, clock, log, config, embed } = options;
  const { breaker = new Breaker({ clock }) } = options;
  const tmp = stagingFolder(dir);
  await mkdir(tmp, { recursive: true, mode: 0o700 });
  const settings = {
    database: sql ? "" : await makePrivate(join(dir, "knowledge.db")),
    index: join(dir, "knowledge-index.db"),
    sql,
    now: clock.now(),
  };
  const database = await openDatabase(settings, { log, env });
  const extractor = options.extractor ?? createExtractor({ ...config, env, plugins: () => [] });
  const embedding = embed && createEmbeddingLoop({ embedder: embed, database, clock, log });
  /** Makes of new passages what searches need. What goes wrong, a search says. */
  const goOn = (): void => {
    embedding?.wake();
    void database.call("catchUp").catch(() => undefined);
  };
  const jobs = createJobs({
    database,
    extractor,
    config,
    tmp,
    clock,
    log,
    isShared: sql !== undefined,
    onReady: goOn,
  });
  const calls = createGuardedCalls(breaker, clock, log);
  const search = createSearch({ database, models: options, makeCall: calls.make });
  let embeddingTimer: NodeJS.Timeout | undefined;
  let isClosed = false;

  const live = (document: DocumentRecord): DocumentRecord => {
    const progress = jobs.progress(document.id);
    return progress === undefined || isSettled(document) ? document : { ...document, progress };
  };
  const get = async (id: string): Promise<DocumentRecord | undefined> => {
    const document = await database.call("get", id, embed?.model);
    return document && live(document);
  };

  return {
    async add(upload) {
      const added = await database
        .call("add", upload, clock.now())
        .catch(async (error: unknown) => {
          await rm(upload.file, { force: true });
          throw error;
        });
      jobs.wake();
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
      return removed;
    },
    async reindex(tenant, id, access) {
      const document = await database.call("reindex", tenant, id, access);
      if (document) jobs.abort(id);
      jobs.wake();
      return document;
    },
    async wait(id, ms) {
      const end = performance.now() + ms;
      for (let pause = FIRST_LOOK_MS; ; pause = Math.min(pause * 2, MAX_LOOK_MS)) {
        const document = await get(id);
        const left = end - performance.now();
        if (!document || isSettled(document) || left <= 0 || isClosed) return document;
        await setTimeout(Math.min(pause, left));
      }
    },
    search,
    // Each turn asks, and turns that begin together mostly ask the same.
    has: shareInTurn((scope) => database.call("has", scope), JSON.stringify),
    async start() {
      const again = await database.call("recover");
      if (again > 0)
        log.info(
          { documents: again },
          "documents are read again: their indexing was interrupted, or an older version indexed them",
        );
      jobs.start();
      goOn();
      if (sql && embedding)
        embeddingTimer = setInterval(() => embedding.wake(), VECTORS_MS).unref();
    },
    async close() {
      isClosed = true;
      clearInterval(embeddingTimer);
      await Promise.all([jobs.close(), embedding?.close(), calls.close()]);
      if (!options.extractor) await extractor.close();
      await database.close();
    },
  };
}
