import { safeError } from "../core/errors.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Job, JobKind, Queue } from "../store/types.ts";

/** A job under way. */
interface ActiveJob {
  done: Promise<void>;
  abort: AbortController;
}

export interface JobPool {
  start(): void;
  /** Takes no more jobs. */
  halt(): void;
  /** By id. */
  readonly active: ReadonlyMap<string, ActiveJob>;
}

export interface JobPoolOptions {
  queue: Pick<Queue, "fetch" | "onReady">;
  clock: Clock;
  log: Logger;
  kind: JobKind;
  /** The most jobs at the same time. */
  limit(): number;
  /** Never throws. */
  execute(job: Job, abort: AbortController): Promise<void>;
}

const RETRY_MS = 1000;

/** Takes the jobs of one kind from the queue, at most `limit()` at a time. */
export function createJobPool({ queue, clock, log, kind, limit, execute }: JobPoolOptions): JobPool {
  const active = new Map<string, ActiveJob>();
  let running = false;
  let fetching = false;
  let wanted = false;
  let unsubscribe: (() => void) | undefined;

  const begin = (job: Job): void => {
    const abort = new AbortController();
    const done = execute(job, abort).finally(() => {
      active.delete(job.id);
      if (running) void fill();
    });
    active.set(job.id, { done, abort });
  };

  const fill = async (): Promise<void> => {
    if (fetching) {
      wanted = true;
      return;
    }
    fetching = true;
    try {
      do {
        wanted = false;
        const free = limit() - active.size;
        if (!running || free <= 0) break;
        const jobs = await queue.fetch(kind, free);
        for (const job of jobs) begin(job);
        if (jobs.length > 0) wanted = true;
      } while (wanted);
    } catch (error) {
      log.error({ err: safeError(error) }, "the queue could not be read; it is tried again");
      void clock.sleep(RETRY_MS).then(() => (running ? fill() : undefined));
    } finally {
      fetching = false;
    }
  };

  return {
    active,
    start() {
      running = true;
      unsubscribe = queue.onReady((ready) => {
        if (ready === kind) void fill();
      });
      void fill();
    },
    halt() {
      running = false;
      unsubscribe?.();
    },
  };
}
