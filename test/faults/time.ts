/**
 * Time, chance and death for gateways under simulation. What a gateway does runs inside `AsyncLocalStorage`, so that
 * its timers, its clock and its random numbers are those of its simulation, and end with it; code outside of any simulation has
 * the real ones.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { createRandom, type Random } from "./random.ts";

/** One gateway: what its process would be. It is dead once `alive` is false: nothing that it still does reaches anything. */
export interface Incarnation {
  readonly name: string;
  readonly time: Time;
  alive: boolean;
  /** Until this moment of `Time.now` it does nothing, as a process that was suspended. */
  frozenUntil: number;
  /** Those whose connections to it are cut when it dies. */
  readonly onDeath: Set<(how: "cut") => void>;
}

interface Entry {
  at: number;
  order: number;
  of: Incarnation | undefined;
  run: () => void;
  gone: boolean;
}

const running = new AsyncLocalStorage<Incarnation>();
export const current = (): Incarnation | undefined => running.getStore();
export const runAs = <T>(incarnation: Incarnation, work: () => T): T =>
  running.run(incarnation, work);

const realImmediate = setImmediate;

/** Work that a thread of Node does for the event loop, which a virtual clock must wait for. */
const isBusy = (): boolean => process.getActiveResourcesInfo().some((name) => name.includes("Req"));

const DAY_MS = 86_400_000;
/** When the next simulation begins: ids carry times, and those of one process only grow. */
let nextStart = Date.UTC(2026, 0, 5);

/** The time of one simulation, in milliseconds from its start. Virtual: it passes only in `runUntil`, from event to event. */
export class Time {
  readonly random: Random;
  /** Of ids and secrets, which modules draw in advance and for all gateways of the process. */
  readonly bytes: Random;
  readonly #start = nextStart;
  /** The milliseconds by which the wall clocks of gateways are ahead. The monotonic clock is not changed. */
  wallAhead = 0;
  readonly #entries: Entry[] = [];
  #immediates: Entry[] = [];
  #now = 0;
  #order = 0;

  constructor(seed: number) {
    this.random = createRandom(seed);
    this.bytes = createRandom(seed);
  }

  get now(): number {
    return this.#now;
  }

  /** The milliseconds that a read of the clock takes: on a slow machine, time passes between any two reads. */
  perReadMs = 0;

  #pass(): this {
    this.#now += this.perReadMs;
    return this;
  }

  get wall(): number {
    const wall = this.#start + Math.floor(this.now) + this.wallAhead;
    nextStart = Math.max(nextStart, Math.ceil(wall / DAY_MS + 1) * DAY_MS);
    return wall;
  }

  /** The clock of gateways, which does not stand still while they work. */
  readonly clock = {
    now: () => this.#pass().wall,
    monotonic: () => this.#pass().now,
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve) => {
        if (signal?.aborted) return resolve();
        const entry = this.schedule(ms, end, current());
        function end(): void {
          entry.gone = true;
          signal?.removeEventListener("abort", end);
          resolve();
        }
        signal?.addEventListener("abort", end, { once: true });
      }),
  };

  /** Runs `run` so much later, unless the incarnation is dead by then; later still if it is suspended. */
  schedule(ms: number, run: () => void, of?: Incarnation): Entry {
    const entry = {
      at: this.now + (ms > 0 ? Math.min(ms, 2 ** 31 - 1) : 1),
      order: this.#order++,
      of,
      run,
      gone: false,
    };
    this.#insert(entry);
    return entry;
  }

  immediately(run: () => void, of?: Incarnation): Entry {
    const entry = { at: this.now, order: this.#order++, of, run, gone: false };
    this.#immediates.push(entry);
    return entry;
  }

  #insert(entry: Entry): void {
    let low = 0;
    let high = this.#entries.length;
    // The next one is the last of the list.
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#entries[middle] as Entry;
      if (other.at > entry.at || (other.at === entry.at && other.order > entry.order))
        low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, entry);
  }

  #begin(entry: Entry): void {
    const { of } = entry;
    if (entry.gone || (of && !of.alive)) return;
    if (of && of.frozenUntil > this.now) {
      entry.at = of.frozenUntil;
      return this.#insert(entry);
    }
    entry.gone = true;
    entry.run();
  }

  /** Lets everything happen that needs no time to pass. */
  async settle(): Promise<void> {
    for (;;) {
      await new Promise<void>((resolve) => realImmediate(resolve));
      const batch = this.#immediates;
      if (batch.length > 0) {
        this.#immediates = [];
        for (const entry of batch) this.#begin(entry);
      } else if (!isBusy()) return;
    }
  }

  /** Lets time pass until then, or until `done` says so. */
  async runUntil(until: number, done: () => boolean = () => false): Promise<void> {
    await this.settle();
    while (!done()) {
      const next = this.#entries.at(-1);
      if (!next || next.at > until) break;
      this.#entries.pop();
      if (next.gone || (next.of && !next.of.alive)) continue;
      this.#now = Math.max(this.#now, next.at);
      this.#begin(next);
      await this.settle();
    }
    if (!done()) this.#now = Math.max(this.#now, until);
  }

  /** Lets time pass until the promise settles, and returns its value; undefined if it takes longer than `ms`. */
  async drive<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
    let result: { value: T } | { error: unknown } | undefined;
    promise.then(
      (value) => (result = { value }),
      (error: unknown) => (result = { error }),
    );
    const until = this.now + ms;
    // Loading a module takes no virtual time, and no request shows it.
    for (let turns = 0; result === undefined && turns < 3; turns++) await this.settle();
    await this.runUntil(until, () => result !== undefined);
    if (result && "error" in result) throw result.error;
    return result?.value;
  }

  close(): void {
    this.#entries.length = 0;
  }
}

type Callback = (...of: unknown[]) => void;

/** A timer as Node's: its callback runs where it was set, with what was current there. */
class Timer {
  entry: Entry;
  readonly #again: () => Entry;

  constructor(schedule: () => Entry) {
    this.#again = schedule;
    this.entry = schedule();
  }
  ref = (): this => this;
  unref = (): this => this;
  hasRef = (): boolean => true;
  close = (): this => {
    this.entry.gone = true;
    return this;
  };
  refresh = (): this => {
    this.entry.gone = true;
    this.entry = this.#again();
    return this;
  };
  [Symbol.dispose] = (): void => void this.close();
}

function setLater(
  of: Incarnation,
  callback: Callback,
  ms: number,
  given: unknown[],
  repeats: boolean,
): Timer {
  const inside = AsyncLocalStorage.snapshot() as (work: () => void) => void;
  const timer: Timer = new Timer(() =>
    of.time.schedule(
      ms,
      () => {
        if (repeats) timer.refresh();
        inside(() => callback(...given));
      },
      of,
    ),
  );
  return timer;
}

function setSoon(of: Incarnation, callback: Callback, given: unknown[]): Timer {
  const inside = AsyncLocalStorage.snapshot() as (work: () => void) => void;
  return new Timer(() => of.time.immediately(() => inside(() => callback(...given)), of));
}

/** Puts `inside` in the place of a function wherever a gateway under simulation calls it. */
function replace(
  object: object,
  name: string,
  inside: (of: Incarnation, ...given: never[]) => unknown,
): void {
  const holder = object as Record<string, (...given: unknown[]) => unknown>;
  const original = holder[name] as (...given: unknown[]) => unknown;
  const replaced = function (this: unknown, ...given: unknown[]): unknown {
    const of = current();
    return of
      ? (inside as (of: Incarnation, ...given: unknown[]) => unknown)(of, ...given)
      : original.apply(this, given);
  };
  // Properties of the original, such as `setTimeout[util.promisify.custom]`, are copied.
  Object.defineProperties(replaced, Object.getOwnPropertyDescriptors(original));
  holder[name] = replaced;
}

function fill(of: Incarnation, bytes: Uint8Array): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = of.time.bytes.below(256);
}

function replaceClears(): void {
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"] as const) {
    const original = globalThis[name] as (timer: unknown) => void;
    globalThis[name] = (timer: unknown) =>
      timer instanceof Timer ? void timer.close() : original(timer);
  }
}

let isInstalled = false;

/** Replaces timers, clocks and randomness of this process, for gateways under simulation alone. */
export function installTime(): void {
  if (isInstalled) return;
  isInstalled = true;
  const require = createRequire(import.meta.url);
  const crypto = require("node:crypto") as object;
  const waits = require("node:timers/promises") as object;
  replaceClears();
  replace(globalThis, "setTimeout", (of, callback: Callback, ms: number, ...given: never[]) =>
    setLater(of, callback, ms, given, false),
  );
  replace(globalThis, "setInterval", (of, callback: Callback, ms: number, ...given: never[]) =>
    setLater(of, callback, ms, given, true),
  );
  replace(globalThis, "setImmediate", (of, callback: Callback, ...given: never[]) =>
    setSoon(of, callback, given),
  );
  replace(Date, "now", (of) => of.time.clock.now());
  replace(performance, "now", (of) => of.time.clock.monotonic());
  replace(Math, "random", (of) => of.time.random.next());
  replace(AbortSignal, "timeout", (of, ms: number) => {
    const abort = new AbortController();
    of.time.schedule(
      ms,
      () =>
        abort.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")),
      of,
    );
    return abort.signal;
  });
  replace(
    waits,
    "setTimeout",
    async (of, ms: number, value: unknown, options?: { signal?: AbortSignal }) => {
      await of.time.clock.sleep(ms, options?.signal);
      options?.signal?.throwIfAborted();
      return value;
    },
  );
  replace(crypto, "randomFillSync", (of, bytes: Uint8Array) => {
    fill(of, bytes);
    return bytes;
  });
  replace(crypto, "randomBytes", (of, length: number) => {
    const bytes = Buffer.alloc(length);
    fill(of, bytes);
    return bytes;
  });
  replace(crypto, "randomInt", (of, low: number, high?: number) =>
    high === undefined ? of.time.bytes.below(low) : low + of.time.bytes.below(high - low),
  );
  replace(crypto, "randomUUID", (of) => {
    const hex = Array.from({ length: 32 }, () => of.time.bytes.below(16).toString(16)).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  });
  syncBuiltinESMExports();
}
