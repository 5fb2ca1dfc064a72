import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { KnowledgeConfig } from "../config/schema/knowledge.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Database } from "./db/client.ts";
import type { IndexJob } from "./db/protocol.ts";
import type { ExtractDone, ExtractorProcess } from "./extract/extractor.ts";

/** The share of the reading in all of the work. */
const READING = 0.7;
/** Documents that are taken beyond those that are read: each taking is a write to disk, so several go together. */
const AHEAD = 16;
/** Where other gateways take documents as well, they are left those that would only wait here, longer than for this time. */
const SHARED_WAIT_MS = 500;
const SHARED_AHEAD = 2;
/** How much the last document counts in the mean. */
const NEWEST_WEIGHT = 0.2;
const AGAIN_MS = 5_000;

/** Documents that have been read are indexed so many at a time, if others are being read; the first of them waits no longer than this. */
const TOGETHER = 8;
const TOGETHER_MS = 50;

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
  writer: Database<"writer">;
  extractor: ExtractorProcess;
  config: KnowledgeConfig;
  /** The folder of the files; undefined if they are in the database. */
  files: string | undefined;
  tmp: string;
  clock: Clock;
  log: Logger;
  onSettled(id: string, removed: readonly string[]): void;
}): IndexJobs {
  const { writer, extractor, config, files, tmp, clock, log, onSettled } = options;
  const limits = {
    pages: config.pages,
    textChars: config.textMb * 1e6,
    unzipRatio: config.unzipRatio,
  };
  /** How long a document takes while others are indexed at the same time; the start value is a guess. */
  let meanMs = SHARED_WAIT_MS;
  const ahead = (): number =>
    files === undefined
      ? Math.max(SHARED_AHEAD, Math.min(AHEAD, Math.floor(SHARED_WAIT_MS / meanMs)))
      : AHEAD;
  const running = new Map<
    string,
    { stop: AbortController; progress: number; ended: Promise<void> }
  >();
  const closed = new AbortController();
  let taking = false;
  let again = false;

  let reading = 0;
  const waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;
  const indexWaiting = (): void => {
    clearTimeout(timer);
    timer = undefined;
    for (const begin of waiting.splice(0)) begin();
  };
  /** Waits for other documents: in a file, those that are indexed in one transaction take a fraction of the time. */
  const joinOthers = (): Promise<void> => {
    const joined = new Promise<void>((resolve) => waiting.push(resolve));
    if (waiting.length >= TOGETHER || reading === 0) indexWaiting();
    else timer ??= setTimeout(indexWaiting, TOGETHER_MS);
    return joined;
  };

  const index = async (job: IndexJob, file: string, done: ExtractDone): Promise<void> => {
    if (files !== undefined) await joinOthers();
    for (let offset = 0, first = 0; ;) {
      const { id, generation } = job;
      if (closed.signal.aborted) return;
      const part = await writer.call("indexPart", {
        id,
        generation,
        file,
        offset,
        first,
        done,
        now: clock.now(),
      });
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
      if (files === undefined) await writer.call("fetch", sha256, fetched);
      const call = {
        file: files === undefined ? fetched : join(files, sha256),
        sha256,
        filename,
        title,
        out,
        limits,
      };
      reading++;
      const result = await extractor
        .run(call, { signal: stop.signal, onProgress })
        .finally(() => reading--);
      if (result.ok) return await index(job, out, result);
      if ("stopped" in result) return await writer.call("putBack", job);
      await writer.call("fail", job, result.error);
      log.info({ document: job.id, code: result.error.code }, "a document could not be indexed");
      onSettled(job.id, []);
    } catch (error) {
      log.error(
        { err: safeError(error), document: job.id },
        "the work on a document failed; it is tried again",
      );
      await clock.sleep(AGAIN_MS, closed.signal);
      await writer.call("putBack", job).catch(() => undefined);
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
        const jobs = await writer.call("take", room);
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
