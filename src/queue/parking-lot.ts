import { Breaker, isRefusal, type WaitState, type Pass, type Refusal } from "../core/breaker.ts";
import { readMonotonic, toMonotonic, type Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Job, JobKind, Ms, Store, Writes } from "../store/types.ts";
import { commitUntilStored } from "./worker.ts";

/** A job that waits for a breaker, with the key that it had. */
export type WaitingJob = Pick<Job, "id" | "kind" | "key">;

interface Entry {
  job: WaitingJob;
  candidates: readonly string[];
  /** Set once it was put back into the queue, in monotonic time. */
  wokenAt?: Ms;
}

/** A job that waits looks again after that, should the gateway that knows of it be gone. */
export const LOOK_MS = 900_000;
/** A job that was woken has room kept for so long; it may stand behind another job of its key. */
const WOKEN_MS = 30_000;
/** A timer may end a moment before its time. */
const TIMER_MS = 10;
/** After that the job is another gateway's, or gone, or behind a long turn of its key. */
const FORGET_MS = 300_000;
/** Jobs of one key that are woken together. */
const MAX_WOKEN = 100;
const RETRY_MS = 1_000;
const PREFIX = "parked";

/** The key of a job that waits for `of`: the key that it had is free meanwhile. */
export const toParkedKey = (of: string, key: string): string => [PREFIX, of, key].join("\n");

/** Reads from the key of a waiting job what it waits for, and the key that it had; undefined if the job does not wait. */
export function fromParkedKey(parked: string): { of: string; key: string } | undefined {
  const [prefix, of, ...key] = parked.split("\n");
  return prefix === PREFIX && of !== undefined && key.length > 0
    ? { of, key: key.join("\n") }
    : undefined;
}

export interface ParkingLotOptions {
  store: Pick<Store, "commit">;
  clock: Clock;
  log: Logger;
  signal: AbortSignal;
  random?(): number;
  /** Called when a job that waited at another gateway has had an answer here: that gateway waits for it. */
  onAnswered?(jobId: string, of: string): void;
}

export class ParkingLot {
  readonly breaker: Breaker;
  readonly #options: ParkingLotOptions;
  #isExcused: (of: string) => boolean = () => false;
  /** By id, those that wait longest first. */
  readonly #entries = new Map<string, Entry>();
  /** Ids by candidate, and by kind and key. */
  readonly #byCandidate = new Map<string, Map<string, Entry>>();
  readonly #byKey = new Map<string, Map<string, Entry>>();
  /** When each breaker is looked at next, in monotonic time. */
  readonly #timers = new Map<string, Ms>();

  constructor(options: ParkingLotOptions) {
    const { clock, log, random } = options;
    this.#options = options;
    this.breaker = new Breaker({
      clock,
      ...(random && { random }),
      onChange: (of, change) => {
        if (change === "opened")
          log.warn(
            { of },
            "calls fail again and again: work for it waits, and one call at a time tests it",
          );
        if (change === "closed")
          log.info(
            { of, waiting: this.#countWaiting(of) },
            "calls succeed again: what waited is started",
          );
        if (change !== "opened") this.#wakeNext(of);
      },
    });
  }

  /**
   * Asks for permission for a job to call one of `candidates`, in their order. Refused as well while jobs that waited longer take
   * the room there is, unless the job `hasWaited` elsewhere: sent to the end of this line, it would lose its turn there, while those
   * in this line wait for theirs there. `wasParked`: the job has waited for a breaker, here or at another gateway.
   */
  enter(
    job: Pick<Job, "id">,
    candidates: readonly string[],
    { hasWaited = false, wasParked = false }: { hasWaited?: boolean; wasParked?: boolean } = {},
  ): Pass | Refusal {
    const { clock } = this.#options;
    const isElsewhere = wasParked && !this.#entries.has(job.id);
    const isFirst = hasWaited || this.#entries.get(job.id)?.wokenAt !== undefined;
    let refusal: Refusal | undefined;
    for (const of of candidates) {
      const isCrowded =
        !isFirst && !this.breaker.isOpen(of) && this.breaker.room(of) <= this.#countWaiting(of);
      const result = isCrowded
        ? { of, until: clock.now() + RETRY_MS }
        : this.breaker.enter(of, true);
      if (!isRefusal(result)) {
        this.arrived(job.id);
        return isElsewhere ? this.#reporting(job.id, result) : result;
      }
      if (!refusal || result.until < refusal.until) refusal = result;
    }
    return refusal as Refusal;
  }

  /** The gateway that has woken a job starts no other until it knows what became of the first. */
  #reporting(jobId: string, pass: Pass): Pass {
    return {
      ...pass,
      leave: (outcome, retryAfterMs) => {
        pass.leave(outcome, retryAfterMs);
        if (outcome === "ok" || outcome === "answered") this.#options.onAnswered?.(jobId, pass.of);
      },
    };
  }

  /** Another gateway took a job that may wait here, and had an answer for it: the next one is tested. */
  answered(jobId: string, of: string): void {
    this.arrived(jobId);
    this.breaker.testNow(of);
    this.#wakeNext(of);
  }

  /** Keeps a job until one of `candidates` takes calls again. Call after the wait is committed. */
  park(job: WaitingJob, candidates: readonly string[]): void {
    const { id, kind, key } = job;
    const entry: Entry = { job: { id, kind, key }, candidates };
    this.arrived(id);
    this.#entries.set(id, entry);
    for (const of of candidates) addTo(this.#byCandidate, of, entry);
    addTo(this.#byKey, toGroup(job), entry);
    for (const of of candidates) this.#wakeNext(of);
  }

  /** Returns true if a job waits here. */
  has(jobId: string): boolean {
    return this.#entries.has(jobId);
  }

  /** The job does not wait any more. */
  arrived(jobId: string): void {
    const entry = this.#entries.get(jobId);
    if (!entry) return;
    this.#entries.delete(jobId);
    for (const of of entry.candidates) removeFrom(this.#byCandidate, of, jobId);
    removeFrom(this.#byKey, toGroup(entry.job), jobId);
  }

  /** Bound, since it is handed on. */
  readonly states = (): WaitState[] =>
    this.breaker.states().map(({ since, until, ...state }) => {
      const waiting = this.#countWaiting(state.of);
      if (this.#isExcused(state.of)) return { ...state, state: "closed", waiting };
      return {
        ...state,
        ...(since !== undefined && { since }),
        ...(until !== undefined && { until }),
        waiting,
      };
    });

  /** Breakers for which `isExcused` is true are shown as closed: one job alone keeps them open. */
  excuse(isExcused: (of: string) => boolean): void {
    this.#isExcused = isExcused;
  }

  #countWaiting(of: string): number {
    return this.#byCandidate.get(of)?.size ?? 0;
  }

  /** Puts as many jobs back into the queue as there is room for: those that wait longest, with all of their keys, in any order. */
  #wakeNext(of: string): void {
    const { clock, signal } = this.#options;
    const waiting = this.#byCandidate.get(of);
    if (!waiting || signal.aborted) return;
    const now = readMonotonic(clock);
    let room = this.breaker.room(of) - this.#countWoken(waiting, now);
    for (const entry of room > 0 ? [...waiting.values()] : []) {
      if (room <= 0) break;
      const group = [...(this.#byKey.get(toGroup(entry.job))?.values() ?? [])];
      // One that was woken long ago may wait at another gateway by now, for those that wait behind it here.
      if (
        entry.wokenAt !== undefined ||
        group.some(({ wokenAt = -Infinity }) => now - wokenAt < WOKEN_MS)
      )
        continue;
      const jobs = group.slice(0, MAX_WOKEN);
      for (const one of jobs) one.wokenAt = now;
      this.#wake(jobs.map(({ job }) => job));
      room--;
    }
    if (waiting.size > 0) this.#lookLater(of, now);
  }

  /** Counts the keys that were woken and not taken yet. Forgets jobs that another worker must have. */
  #countWoken(waiting: ReadonlyMap<string, Entry>, now: Ms): number {
    const keys = new Set<string>();
    for (const [id, { job, wokenAt }] of waiting) {
      if (wokenAt === undefined) continue;
      if (now - wokenAt > FORGET_MS) this.arrived(id);
      else if (now - wokenAt < WOKEN_MS) keys.add(toGroup(job));
    }
    return keys.size;
  }

  #lookLater(of: string, now: Ms): void {
    const { clock, signal } = this.#options;
    const { until: tested = 0 } = this.breaker.states().find((state) => state.of === of) ?? {};
    const until = toMonotonic(tested, clock);
    const at = until > now ? until : now + WOKEN_MS + TIMER_MS;
    const known = this.#timers.get(of);
    if (known !== undefined && known > now && known <= at) return;
    this.#timers.set(of, at);
    void clock.sleep(at - now, signal).then(() => {
      if (this.#timers.get(of) === at) this.#timers.delete(of);
      this.#wakeNext(of);
    });
  }

  #wake(jobs: readonly WaitingJob[]): void {
    const { clock, signal: stopping } = this.#options;
    const write = (tx: Writes): void => {
      for (const { kind, id } of jobs) tx.jobs.reschedule(kind, id, clock.now());
    };
    const message = "parked work could not be put back into the queue; it is tried again";
    void commitUntilStored(write, this.#options, { stopping, message });
  }
}

const toGroup = ({ kind, key }: { kind: JobKind; key: string }): string => `${kind}\n${key}`;

function addTo(index: Map<string, Map<string, Entry>>, name: string, entry: Entry): void {
  const entries = index.get(name) ?? new Map<string, Entry>();
  index.set(name, entries.set(entry.job.id, entry));
}

function removeFrom(index: Map<string, Map<string, Entry>>, name: string, jobId: string): void {
  const entries = index.get(name);
  entries?.delete(jobId);
  if (entries?.size === 0) index.delete(name);
}
