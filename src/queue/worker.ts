import { backOff, WAITS } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import {
  STORE_UNAVAILABLE,
  type Job,
  type JobKind,
  type Queue,
  type Store,
  type Writes,
} from "../store/types.ts";

/** A job under way. */
interface ActiveJob {
  lease: number | undefined;
  done: Promise<void>;
  abort: AbortController;
}

export interface PullWorkerOptions {
  store: Pick<Store, "commit">;
  queue: Pick<Queue, "fetch" | "onReady" | "onLost" | "confirm">;
  clock: Clock;
  log: Logger;
  kind: JobKind;
  /** The most jobs at the same time. */
  limit(): number;
  /** Executes a job. A job that throws is put back in the queue. `signal` aborts with the reason "drain" or `LOST`. */
  execute(job: Job, signal: AbortSignal): Promise<void>;
}

/** The reason with which a job is aborted that another gateway has by now. */
export const LOST = "lost";

/** The wait until the queue is read again that could not be read, and until a job is tried again that has thrown. */
const RETRY_MS = 1000;

/** Commits again and again until the store takes it: nothing else knows what has become of the work. False if its job is another gateway's. */
export async function commitUntilStored(
  write: (tx: Writes) => void,
  { store, clock, log }: Pick<PullWorkerOptions, "store" | "clock" | "log">,
  { job, stopping, message }: { job?: Job; stopping: AbortSignal; message: string },
): Promise<boolean> {
  for (let failures = 1; ; failures++) {
    try {
      return await store.commit(write, job);
    } catch (error) {
      log.error({ err: safeError(error), kind: job?.kind, jobId: job?.id }, message);
      if (stopping.aborted) return false;
      await clock.sleep(backOff(failures, WAITS.commit), stopping);
    }
  }
}

export class PullWorker {
  /** The jobs under way, by id. */
  readonly active = new Map<string, ActiveJob>();
  /** False from the moment `stop` is called. */
  isRunning = false;
  readonly #options: PullWorkerOptions;
  readonly #stopping = new AbortController();
  #isFetching = false;
  /** There may be more to fetch than the fetch under way has seen. */
  #isWanted = false;
  /** Jobs have ended during this turn of the event loop. */
  #haveEnded = false;
  #undo: (() => void)[] = [];

  constructor(options: PullWorkerOptions) {
    this.#options = options;
  }

  /**
   * Commits what has become of a job, and again until the store takes it: no other worker knows it. False if the job is
   * another gateway's by now, or the worker stops.
   */
  commit(job: Job, write: (tx: Writes) => void): Promise<boolean> {
    return commitUntilStored(write, this.#options, {
      job,
      stopping: this.#stopping.signal,
      message: "what has become of a job could not be written; it is tried again",
    });
  }

  /** Waits until a job surely is this gateway's (see `Queue.confirm`). False if another gateway has it, or if the signal aborts first. */
  confirm(job: Job, signal: AbortSignal): boolean | Promise<boolean> {
    return this.#options.queue.confirm?.(job, signal) ?? true;
  }

  start(): void {
    const { queue, kind, log } = this.#options;
    this.isRunning = true;
    const ready = queue.onReady((of) => {
      if (of === kind) void this.#fill();
    });
    const lost = queue.onLost?.((job) => {
      const active = job.kind === kind ? this.active.get(job.id) : undefined;
      if (!active || active.lease !== job.lease) return;
      log.warn(
        { kind, jobId: job.id },
        "another gateway has a job of this one by now: it is aborted here",
      );
      active.abort.abort(LOST);
    });
    this.#undo = [ready, ...(lost ? [lost] : [])];
    void this.#fill();
  }

  /** Takes no more jobs, waits `drainMs` for those under way, then aborts the rest with the reason "drain" and waits for them. */
  async stop(drainMs: number): Promise<void> {
    this.isRunning = false;
    for (const undo of this.#undo) undo();
    const ended = (): Promise<unknown> =>
      Promise.all([...this.active.values()].map(({ done }) => done));
    await Promise.race([ended(), this.#options.clock.sleep(drainMs)]);
    this.#stopping.abort();
    for (const { abort } of this.active.values()) abort.abort("drain");
    await ended();
  }

  async #run(job: Job, signal: AbortSignal): Promise<void> {
    const { clock, log, kind, execute } = this.#options;
    try {
      await execute(job, signal);
    } catch (error) {
      log.error(
        { err: safeError(error), kind, jobId: job.id },
        "a job could not be executed; it is put back",
      );
      // A store that was away is no fault of the job.
      const resetAttempts = safeError(error).code === STORE_UNAVAILABLE.code;
      const waitMs = resetAttempts ? RETRY_MS : backOff(job.attempts);
      await this.commit(job, (tx) => tx.jobs.settle(job, clock.now() + waitMs, { resetAttempts }));
    }
  }

  #begin(job: Job): void {
    const abort = new AbortController();
    const done = this.#run(job, abort.signal).finally(() => {
      // A job that was put back may be under way again by now: the commit that puts it back may be the one that takes it.
      if (this.active.get(job.id) === entry) this.active.delete(job.id);
      this.#fillAfterTurn();
    });
    const entry: ActiveJob = { lease: job.lease, done, abort };
    this.active.set(job.id, entry);
  }

  /** Jobs whose ends share a commit end in one turn of the event loop: what follows them is fetched together. */
  #fillAfterTurn(): void {
    if (this.#haveEnded) return;
    this.#haveEnded = true;
    setImmediate(() => {
      this.#haveEnded = false;
      if (this.isRunning) void this.#fill();
    });
  }

  async #fill(): Promise<void> {
    const { queue, clock, log, kind, limit } = this.#options;
    this.#isWanted = true;
    if (this.#isFetching) return;
    this.#isFetching = true;
    try {
      while (this.#isWanted && this.isRunning && this.active.size < limit()) {
        this.#isWanted = false;
        const jobs = await queue.fetch(kind, limit() - this.active.size);
        for (const job of jobs) this.#begin(job);
        if (jobs.length > 0) this.#isWanted = true;
      }
    } catch (error) {
      log.error({ err: safeError(error), kind }, "the queue could not be read; it is tried again");
      void clock
        .sleep(RETRY_MS, this.#stopping.signal)
        .then(() => (this.isRunning ? this.#fill() : undefined));
    } finally {
      this.#isFetching = false;
    }
  }
}

/** The longest wait of a suspect for other runs: longer turns than this are slow. Others wait twice as long for a suspect. */
const HOLD_MS = 30_000;

interface Entered {
  alone: boolean;
  ended: Promise<void>;
  /** Over when the runs behind a suspect need not wait for it any more: a slow turn holds up no other session. */
  hold?: Promise<void>;
}

/** Decides which runs may be under way at the same time in this process. */
export class Quarantine {
  readonly #clock: Clock;
  /** Runs that wait or are under way, in the order in which they came. */
  readonly #entered = new Set<Entered>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Waits until the run may start, and keeps the order in which runs asked. A run that may have ended a process (`alone`) starts
   * when no other run is under way, and others start when it has ended. After a while neither waits for the other, but two runs
   * of this kind are never under way together. Resolves early when `signal` aborts. Returns what must be called when the run is
   * over.
   */
  async enter(alone: boolean, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return () => undefined;
    const { promise: ended, resolve: leave } = Promise.withResolvers<void>();
    const within = (ms: number): Promise<void> => Promise.race([ended, this.#clock.sleep(ms)]);
    const earlier = [...this.#entered];
    const one: Entered = { alone, ended, ...(alone && { hold: within(2 * HOLD_MS) }) };
    this.#entered.add(one);
    void ended.then(() => this.#entered.delete(one));
    const giveUp = (): void => leave();
    signal.addEventListener("abort", giveUp, { once: true });
    const patience = alone ? within(HOLD_MS) : undefined;
    const mayStart = Promise.all(
      earlier.map((other) => {
        if (!alone) return other.hold;
        return other.alone ? other.ended : Promise.race([other.ended, patience]);
      }),
    );
    await Promise.race([ended, mayStart]);
    signal.removeEventListener("abort", giveUp);
    return leave;
  }
}
