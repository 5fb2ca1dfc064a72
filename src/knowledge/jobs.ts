import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Database } from "./thread/client.ts";
import type { IndexJob } from "./catalog/writer.ts";
import type { ExtractDone, ExtractorProcess } from "./extract/extractor.ts";

/** The share of the reading in all of the work. */
const READING = 0.7;
/** Documents that are taken beyond those that are read: each taking is a write to disk, so several go together. */
const MAX_AHEAD = 16;
const MIN_AHEAD = 2;
/** Other gateways are left those that would only wait here, longer than for this time. */
const MAX_WAIT_MS = 500;
/** How much the last document counts in the mean. */
const NEWEST_WEIGHT = 0.2;
const AGAIN_MS = 5_000;

export interface IndexJobs {
  /** There is a document to read. */
  wake(): void;
  /** Stops the work on a document that is deleted or queued again. */
  abort(id: string): void;
  /** From 0 to 1, of a document that is worked on. */
  progress(id: string): number | undefined;
  /** The ids of what is worked on. */
  running(): string[];
  close(): Promise<void>;
}

/** Takes queued documents, has them read by a child and their chunks indexed by the thread that writes. */
export function createJobs(options: {
  database: Database;
  extractor: ExtractorProcess;
  config: KnowledgeConfig;
  tmp: string;
  clock: Clock;
  log: Logger;
  /** Passages of a document were taken in. */
  onPart(): void;
  onSettled(id: string, removed: readonly string[]): void;
}): IndexJobs {
  const { database, extractor, config, tmp, clock, log, onPart, onSettled } = options;
  const limits = {
    pages: config.pages,
    textChars: config.textMb * 1e6,
    unzipRatio: config.unzipRatio,
  };
  /** How long a document takes while others are indexed at the same time; the start value is a guess. */
  let meanMs = MAX_WAIT_MS;
  const ahead = (): number =>
    Math.max(MIN_AHEAD, Math.min(MAX_AHEAD, Math.floor(MAX_WAIT_MS / meanMs)));
  const running = new Map<
    string,
    { stop: AbortController; progress: number; ended: Promise<void> }
  >();
  const closed = new AbortController();
  let taking = false;
  let again = false;

  const index = async (job: IndexJob, file: string, done: ExtractDone): Promise<void> => {
    for (let offset = 0, first = 0; ;) {
      const { id, generation } = job;
      if (closed.signal.aborted) return;
      const part = await database.call("indexPart", {
        id,
        generation,
        file,
        offset,
        first,
        done,
        now: clock.now(),
      });
      onPart();
      if (part.state !== "more")
        return part.state === "ready" ? onSettled(id, part.removed) : undefined;
      ({ offset, next: first } = part);
      const entry = running.get(id);
      if (entry) entry.progress = READING + (1 - READING) * (first / done.chunks);
    }
  };

  const work = async (job: IndexJob, stop: AbortController): Promise<void> => {
    const out = join(tmp, `chunks-${job.id}-${job.generation}`);
    const fetched = `${out}-file`;
    const onProgress = (part: number): void => {
      const entry = running.get(job.id);
      if (entry) entry.progress = part * READING;
    };
    try {
      const { sha256, filename, title } = job;
      await database.call("fetch", sha256, fetched);
      const call = { file: fetched, sha256, filename, title, out, limits };
      const result = await extractor.run(call, { signal: stop.signal, onProgress });
      if (result.ok) return await index(job, out, result);
      if ("stopped" in result) return await database.call("putBack", job);
      await database.call("fail", job, result.error);
      log.info({ document: job.id, code: result.error.code }, "a document could not be indexed");
      onSettled(job.id, []);
    } catch (error) {
      log.error(
        { err: safeError(error), document: job.id },
        "the work on a document failed; it is tried again",
      );
      await clock.sleep(AGAIN_MS, closed.signal);
      await database.call("putBack", job).catch(() => undefined);
    } finally {
      await Promise.all([rm(out, { force: true }), rm(fetched, { force: true })]);
    }
  };

  const begin = (job: IndexJob): void => {
    const stop = new AbortController();
    const entry = { stop, progress: 0, ended: Promise.resolve() };
    running.set(job.id, entry);
    const began = performance.now();
    entry.ended = work(job, stop).finally(() => {
      meanMs += NEWEST_WEIGHT * ((performance.now() - began) / Math.max(1, running.size) - meanMs);
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
        const most = ahead();
        const room = config.workers + most - running.size;
        if (room < most / 2 || closed.signal.aborted) return;
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

  return {
    wake: () => void take(),
    abort: (id) => running.get(id)?.stop.abort(),
    progress: (id) => running.get(id)?.progress,
    running: () => [...running.keys()],
    async close() {
      closed.abort();
      for (const { stop } of running.values()) stop.abort();
      while (running.size > 0 || taking)
        await Promise.all([
          ...[...running.values()].map(({ ended }) => ended),
          new Promise((done) => setTimeout(done, 1)),
        ]);
    },
  };
}
