import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Database } from "./thread/client.ts";
import type { EmbeddingLoop } from "./embed.ts";
import type { IndexJobs } from "./jobs.ts";

/** How often a gateway says that it still works on what it took, and looks for what others left: several times within a lease. */
const BEAT_MS = 2500;
/** How often the worker looks for passages without a vector, in case the notification was lost. */
const VECTORS_MS = 60_000;
/** How soon somebody who waits hears of what another gateway did. */
const LOOK_MS = 250;
const TELL_EVERY_MS = 30_000;

export interface ClusterWorker {
  start(): void;
  /** Looks, for as long as somebody waits for a document, whether another gateway came to its end. */
  refresh(): void;
  close(): Promise<void>;
}

/** One gateway's part in work that several do. */
export function createClusterWorker(parts: {
  database: Database;
  jobs: IndexJobs;
  embedding: EmbeddingLoop | undefined;
  log: Logger;
  /** The ids of documents that somebody waits for. */
  awaited(): string[];
  onSettled(id: string): void;
}): ClusterWorker {
  const { database, jobs, embedding, log, awaited, onSettled } = parts;
  let closed = false;
  let lookTimer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> | undefined;
  let vectorsAt = performance.now();
  let notifiedAt = -Infinity;

  const beat = async (): Promise<void> => {
    try {
      const running = jobs.running();
      const own = new Set(running.length === 0 ? [] : await database.call("renewLeases", running));
      // Deleted, queued again, or taken over because the lease of this gateway expired.
      for (const id of running) if (!own.has(id)) jobs.abort(id);
      jobs.wake();
      // What others have indexed: a search does not wait for it then.
      await database.call("catchUp");
    } catch (error) {
      if (performance.now() - notifiedAt < TELL_EVERY_MS) return;
      notifiedAt = performance.now();
      log.warn(
        { err: safeError(error) },
        "PostgreSQL does not answer: documents that are read here may be read elsewhere too",
      );
    }
    if (performance.now() - vectorsAt < VECTORS_MS) return;
    vectorsAt = performance.now();
    embedding?.wake();
  };

  const lookAt = async (ids: string[]): Promise<void> => {
    // What is wrong with the database, it says to those who wait.
    const settled = await database.call("settledIds", ids).catch(() => ids);
    for (const id of settled) onSettled(id);
  };
  const refresh = (): void => {
    const ids = awaited();
    if (ids.length > 0) return void (looking ??= lookAt(ids).finally(() => (looking = undefined)));
    clearInterval(lookTimer);
    lookTimer = undefined;
  };

  return {
    refresh() {
      if (!closed) lookTimer ??= setInterval(refresh, LOOK_MS);
    },
    start() {
      timer ??= setInterval(() => {
        beating ??= beat().finally(() => (beating = undefined));
      }, BEAT_MS).unref();
    },
    async close() {
      closed = true;
      clearInterval(timer);
      clearInterval(lookTimer);
      await Promise.all([beating, looking]);
    },
  };
}
