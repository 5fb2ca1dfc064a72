/**
 * A circuit breaker for each thing that is called (a model, a channel), with a limit on the calls at the same time. It stops
 * calls to what is away, tests it with one call at a time, and lets calls through again when a test succeeds. The limit falls
 * by half and grows by one (AIMD, as in TCP's congestion control, RFC 5681) when the other side says that it is asked too
 * often. State is in memory.
 */
import { backOff, WAITS, withJitter } from "./backoff.ts";
import { readMonotonic, toMonotonic, toWallTime, type Stopwatch } from "./clock.ts";

/**
 * The end of a call. `ok`: it succeeded. `answered`: with an error about this one request. `away`: the other side could
 * not be reached, or failed for reasons of its own. `busy`: it was asked too often. `none`: nothing is known of the other side.
 */
export type CallOutcome = "ok" | "answered" | "away" | "busy" | "none";

/** The permission for one call. */
export interface Pass {
  readonly of: string;
  /** True if the call tests a breaker that is open. */
  readonly isProbe: boolean;
  /** Must be called once the call is over; later calls of it do nothing. `retryAfterMs`: the wait that the other side asks for. */
  leave(outcome: CallOutcome, retryAfterMs?: number): void;
}

/** No call is made now. `until`: when the breaker is tested next, or when there may be room, in milliseconds since the epoch. */
export interface Refusal {
  readonly of: string;
  readonly until: number;
}

export interface BreakerState {
  of: string;
  /** `testing`: open, and a call is under way that tests it. */
  state: "closed" | "open" | "testing";
  /** Since when it is open, and when it is tested next; absent if it is closed. */
  since?: number;
  until?: number;
  /** Calls under way, and how many may be; absent if there is no limit. */
  running: number;
  limit?: number;
}

/** A breaker, and how many jobs wait for it at this gateway. */
export type WaitState = BreakerState & { waiting: number };

/** The longest wait that the other side may ask for: a longer one is cut to it. */
export const MAX_RETRY_AFTER_MS = 900_000;

export interface BreakerOptions {
  clock: Stopwatch;
  /** From 0 to 1, for the jitter. */
  random?(): number;
  /** Called when a breaker opens or closes, and when there may be room again. */
  onChange?(of: string, change: "opened" | "closed" | "room"): void;
}

/** Failures in a row after which a breaker opens. */
export const FAILURES_TO_OPEN = 5;
/** The same at most, if somebody waits for the call. */
const URGENT_MS = 5_000;
/** After a test that said nothing, and until there may be room below a limit. */
const SOON_MS = 1_000;
/** A breaker that no call has tested for so long after its time belongs to what is not called any more. */
const FORGET_MS = 3_600_000;
/** A limit that has grown to so much is none any more. */
const MAX_LIMIT = 64;

interface Entry {
  readonly of: string;
  failures: number;
  /** Since when it is open, by the system clock; absent while it is closed. */
  since?: number;
  /** When it is tested next, in monotonic time; and when a call that somebody waits for may test it. */
  until: number;
  urgentFrom: number;
  probe: Pass | undefined;
  /** Tests in a row that failed. */
  failedProbes: number;
  /** Calls under way, each with the time at which it began. */
  running: Map<Pass, number>;
  limit: number;
  /** Below it the limit grows with each answer by one, above it by one for each round of answers. */
  threshold: number;
  /** When the limit fell last, in monotonic time: calls that had begun before do not lower it again. */
  loweredAt: number;
}

export const isRefusal = (result: Pass | Refusal): result is Refusal => "until" in result;

/** The breakers of all that is called. One is made by the first call of what it is for, and is closed. */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /**
   * Asks for permission for a call. `limited`: also refused while as many calls are under way as the limit says. `urgent`:
   * somebody waits for it, so that it may test an open breaker before the time, but not before the one that the other side asked for.
   */
  enter(of: string, limited = false, urgent = false): Pass | Refusal {
    const now = this.#now();
    const entry = this.#entry(of);
    const isOpen = entry.since !== undefined;
    const refuse = (until: number): Refusal => ({
      of,
      until: toWallTime(until, this.#options.clock),
    });
    const from = urgent ? Math.min(entry.until, entry.urgentFrom) : entry.until;
    if (isOpen && (entry.probe || now < from)) return refuse(Math.max(from, now + SOON_MS));
    if (!isOpen && limited && entry.running.size >= Math.floor(entry.limit))
      return refuse(now + SOON_MS);
    const pass: Pass = {
      of,
      isProbe: isOpen,
      leave: (outcome, retryAfterMs) => this.#leave(pass, outcome, retryAfterMs),
    };
    entry.running.set(pass, now);
    if (isOpen) entry.probe = pass;
    return pass;
  }

  isOpen(of: string): boolean {
    return this.#entries.get(of)?.since !== undefined;
  }

  /** The number of calls that could enter now: `Infinity` if there is no limit. */
  room(of: string): number {
    const entry = this.#entries.get(of);
    if (!entry) return Infinity;
    if (entry.since !== undefined) return !entry.probe && this.#now() >= entry.until ? 1 : 0;
    return Math.max(0, Math.floor(entry.limit) - entry.running.size);
  }

  /** Opens a breaker before any call: at start, for what was away when the process ended. */
  open(of: string, until: number): void {
    this.#open(this.#entry(of), toMonotonic(until, this.#options.clock));
  }

  /** Lets the next call test a breaker that is open: another gateway had an answer. */
  testNow(of: string): void {
    const entry = this.#entries.get(of);
    if (entry?.since === undefined || entry.probe) return;
    entry.until = Math.min(entry.until, this.#now());
    this.#options.onChange?.(of, "room");
  }

  #now(): number {
    return readMonotonic(this.#options.clock);
  }

  #open(entry: Entry, until: number): void {
    if (entry.since !== undefined) return;
    entry.since = this.#options.clock.now();
    entry.until = until;
    entry.failedProbes = 0;
    this.#options.onChange?.(entry.of, "opened");
  }

  /** Returns the breakers that are open or limited, or have calls under way. */
  states(): BreakerState[] {
    const { clock } = this.#options;
    const now = this.#now();
    for (const [of, { since, until, running }] of this.#entries)
      if (since !== undefined && running.size === 0 && now - until > FORGET_MS)
        this.#entries.delete(of);
    return [...this.#entries].map(([of, { since, until, probe, running, limit }]) => ({
      of,
      state: since === undefined ? "closed" : probe ? "testing" : "open",
      ...(since === undefined ? {} : { since, until: toWallTime(until, clock) }),
      running: running.size,
      ...(limit === Infinity ? {} : { limit: Math.floor(limit) }),
    }));
  }

  #entry(of: string): Entry {
    const known = this.#entries.get(of);
    if (known) return known;
    const made: Entry = {
      of,
      failures: 0,
      until: 0,
      urgentFrom: 0,
      probe: undefined,
      failedProbes: 0,
      running: new Map(),
      limit: Infinity,
      threshold: Infinity,
      loweredAt: -Infinity,
    };
    this.#entries.set(of, made);
    return made;
  }

  #leave(pass: Pass, outcome: CallOutcome, retryAfterMs = 0): void {
    const { of } = pass;
    const entry = this.#entries.get(of);
    const beganAt = entry?.running.get(pass);
    if (!entry || beganAt === undefined) return;
    entry.running.delete(pass);
    if (entry.probe === pass) {
      entry.probe = undefined;
      this.#tested(entry, outcome, retryAfterMs);
    } else if (entry.since === undefined) this.#count(entry, beganAt, outcome, retryAfterMs);
    const isPlain =
      entry.since === undefined &&
      entry.running.size + entry.failures === 0 &&
      entry.limit === Infinity;
    if (isPlain) this.#entries.delete(of);
    this.#options.onChange?.(of, "room");
  }

  /** A call that tested an open breaker is over. */
  #tested(entry: Entry, outcome: CallOutcome, retryAfterMs: number): void {
    if (outcome === "none") {
      entry.until = this.#now() + SOON_MS;
      return;
    }
    if (outcome === "away" || outcome === "busy") {
      entry.failedProbes++;
      entry.until = this.#nextProbe(entry, retryAfterMs);
      return;
    }
    delete entry.since;
    entry.failures = 0;
    entry.threshold = entry.limit;
    // Those that waited come back a few at a time.
    entry.limit = 2;
    this.#options.onChange?.(entry.of, "closed");
  }

  #count(entry: Entry, beganAt: number, outcome: CallOutcome, retryAfterMs: number): void {
    if (outcome === "none") return;
    if (outcome === "ok" || outcome === "answered") {
      entry.failures = 0;
      if (outcome === "ok") grow(entry);
      return;
    }
    // A provider that limits its callers is not away: fewer calls come first.
    if (outcome === "away" || entry.limit === 1) entry.failures++;
    if (outcome === "busy" && beganAt >= entry.loweredAt) {
      entry.limit = Math.max(1, Math.floor(Math.min(entry.limit, entry.running.size + 1) / 2));
      entry.threshold = entry.limit;
      entry.loweredAt = this.#now();
    }
    if (entry.failures >= FAILURES_TO_OPEN) this.#open(entry, this.#nextProbe(entry, retryAfterMs));
  }

  #nextProbe(entry: Entry, retryAfterMs: number): number {
    const { random = Math.random } = this.#options;
    const wanted = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS) * (1 + random() / 10);
    const wait = withJitter(backOff(entry.failedProbes + 1, WAITS.breakerTest), random);
    const now = this.#now();
    entry.urgentFrom = now + Math.round(Math.max(Math.min(wait, URGENT_MS), wanted));
    return now + Math.round(Math.max(wait, wanted));
  }
}

function grow(entry: Entry): void {
  if (entry.limit === Infinity) return;
  entry.limit += entry.limit < entry.threshold ? 1 : 1 / entry.limit;
  if (entry.limit >= MAX_LIMIT) entry.limit = entry.threshold = Infinity;
}
