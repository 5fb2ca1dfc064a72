import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Database } from "./thread/client.ts";
import type { IndexJob } from "./catalog/writer.ts";
import type { ExtractorProcess } from "./extract/extractor.ts";

/** The share of the reading in all of the work. */
const READING = 0.7;
/**
 * Documents that are taken beyond those that are read: each taking is a write to disk, so several go together. Other gateways
 * are left the rest.
 */
const AHEAD = 4;
const AGAIN_MS = 5_000;
/**
 * The interval at which a gateway reports that it still works on what it took, and looks for abandoned work: several
 * times within a lease.
 */
const BEAT_MS = 2_500;

/** Takes queued documents, has them read by a child and their passages indexed by the thread that writes. */
export function createJobs(options: {
  database: Database;
  extractor: ExtractorProcess;
  config: KnowledgeConfig;
  tmp: string;
  clock: Clock;
  log: Logger;
  /** True if other gateways take documents of the same database. */
  isShared: boolean;
  /** The passages of a document can be found. */
  onReady(): void;
}) {
  const { database, extractor, config, tmp, clock, log, isShared, onReady } = options;
  const limits = {
    pages: config.pages,
    textChars: config.textMb * 1e6,
    unzipRatio: config.unzipRatio,
  };
  const running = new Map<
    string,
    { stop: AbortController; progress: number; ended: Promise<void> }
  >();
  const closed = new AbortController();
  const abort = (id: string): void => running.get(id)?.stop.abort();
  let started = false;
  let taking = false;
  let again = false;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> | undefined;
  let isAway = false;

  const work = async (job: IndexJob, stop: AbortController): Promise<void> => {
    const out = join(tmp, `chunks-${job.id}-${job.generation}`);
    const fetched = `${out}-file`;
    const onProgress = (part: number): void => {
      const entry = running.get(job.id);
      if (entry) entry.progress = part * READING;
    };
    try {
      const { id, generation, sha256, filename, title } = job;
      await database.call("fetch", sha256, fetched);
      const call = { file: fetched, sha256, filename, title, out, limits };
      const result = await extractor.run(call, { signal: stop.signal, onProgress });
      if (result.ok) {
        const read = { id, generation, folder: out, done: result, now: clock.now() };
        const replaced = await database.call("index", read);
        replaced?.forEach(abort);
        return replaced && onReady();
      }
      if ("stopped" in result) return await database.call("putBack", job);
      await database.call("fail", job, result.error);
      log.info({ document: id, code: result.error.code }, "a document could not be indexed");
    } catch (error) {
      log.error(
        { err: safeError(error), document: job.id },
        "the work on a document failed; it is tried again",
      );
      await clock.sleep(AGAIN_MS, closed.signal);
      await database.call("putBack", job).catch(() => undefined);
    } finally {
      // The next start deletes files that stay.
      const left = [out, fetched].map((path) => rm(path, { force: true, recursive: true }));
      await Promise.allSettled(left);
    }
  };

  const begin = (job: IndexJob): void => {
    const stop = new AbortController();
    const entry = { stop, progress: 0, ended: Promise.resolve() };
    running.set(job.id, entry);
    entry.ended = work(job, stop).finally(() => {
      if (running.get(job.id) === entry) running.delete(job.id);
      void take();
    });
  };

  const take = async (): Promise<void> => {
    if (taking) return void (again = true);
    taking = true;
    try {
      do {
        again = false;
        const room = config.workers + AHEAD - running.size;
        if (room < AHEAD / 2 || closed.signal.aborted) return;
        const jobs = await database.call("take", room);
        for (const job of jobs) begin(job);
      } while (again);
    } catch (error) {
      if (closed.signal.aborted) return;
      log.error(
        { err: safeError(error) },
        "no document can be taken from the queue; it is tried again",
      );
      void clock.sleep(AGAIN_MS, closed.signal).then(() => take());
    } finally {
      taking = false;
    }
  };

  /** This gateway's part in work that several do. */
  const beat = async (): Promise<void> => {
    try {
      const ids = [...running.keys()];
      const own = new Set(ids.length === 0 ? [] : await database.call("renewLeases", ids));
      // Deleted, queued again, or taken over because the lease of this gateway expired.
      for (const id of ids) if (!own.has(id)) abort(id);
      void take();
      // Takes in what other gateways have indexed, so that a search does not wait for it.
      await database.call("catchUp");
      isAway = false;
    } catch (error) {
      const message =
        "PostgreSQL does not answer: documents that are read here may be read elsewhere too";
      if (!isAway) log.warn({ err: safeError(error) }, message);
      isAway = true;
    }
  };

  return {
    /** Begins to take documents. */
    start(): void {
      started = true;
      void take();
      if (isShared)
        timer ??= setInterval(() => {
          beating ??= beat().finally(() => (beating = undefined));
        }, BEAT_MS).unref();
    },
    /** There is a document to read. */
    wake: (): void => void (started && take()),
    /** Stops the work on a document that is deleted or queued again. */
    abort,
    /** From 0 to 1, of a document that is worked on. */
    progress: (id: string): number | undefined => running.get(id)?.progress,
    async close(): Promise<void> {
      started = false;
      closed.abort();
      clearInterval(timer);
      for (const { stop } of running.values()) stop.abort();
      await beating;
      while (running.size > 0 || taking)
        await Promise.all([
          ...[...running.values()].map(({ ended }) => ended),
          new Promise((done) => setTimeout(done, 1)),
        ]);
    },
  };
}
