import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { RouseError, safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { EventOutcome, Reads } from "../../store/types.ts";
import { given } from "./operation.ts";
import { eventView, type EventView } from "./views.ts";

/** A line of the stream: an event, how many events were left out at this place, or a sign that the stream is alive. */
export type StreamLine =
  | { type: "event"; event: EventView }
  | { type: "skipped"; count: number }
  | { type: "alive" };

export interface StreamQuery {
  path?: string | undefined;
  mapping?: string | undefined;
  outcome?: EventOutcome | undefined;
  /** The stream begins behind this event; else with the newest events. */
  after?: string | undefined;
  /** How many of the newest events to begin with. */
  lines: number;
}

export interface EventFeed {
  /**
   * Follows events as they are written, at any gateway on the store. The stream ends when the gateway stops.
   * @throws RouseError `overloaded` if there are too many readers, `not_found` if the event of `after` is no longer kept.
   */
  follow(query: StreamQuery): Promise<AsyncIterableIterator<StreamLine>>;
}

interface FeedDeps {
  store: Reads;
  clock: Stopwatch;
  log: Logger;
  /** Whether other gateways write to the store. */
  isShared: boolean;
  isStopping(): boolean;
}

export const MAX_READERS = 20;
const POLL_MS = 80;
/** A reader hears at least this often that the stream is alive. */
const ALIVE_MS = 15_000;
/** Lines that wait for a slow reader. */
const MAX_WAITING = 500;
/** Events whose records are read between two polls; of more, the older ones are only counted. */
const MAX_READ = 300;
const MAX_NUMBERS = 20_000;
const CHUNK = 50;
/** With several gateways an event can be written later than one with a higher number, by the longest time of a commit. */
const LATE_MS = 6_000;
/** Numbers before the one of `after` that are read again for the same reason. */
const LATE_NUMBERS = 200;

/** Hands lines to one reader, and counts what the reader is too slow for. */
class Reader implements AsyncIterableIterator<StreamLine> {
  readonly #query: StreamQuery;
  readonly #leave: (reader: Reader) => void;
  readonly #lines: StreamLine[] = [];
  /** Events that the stream began with; the poll may bring them again. */
  readonly #first = new Set<string>();
  /** The number of the newest event when the reader joined. */
  #newest = Infinity;
  /** Numbers below it, not far away, of the events that were written by then. */
  #written: ReadonlySet<number> = new Set();
  #wake: () => void = () => undefined;
  #isEnded = false;

  constructor(query: StreamQuery, leave: (reader: Reader) => void) {
    this.#query = query;
    this.#leave = leave;
  }

  /** Begins to take what the poll brings. */
  join(newest: number, written: readonly number[]): void {
    this.#newest = newest;
    this.#written = new Set(written);
  }

  /** Whether the event with a number was written since the reader joined. */
  isNew(number: number): boolean {
    return (
      number > this.#newest || (number > this.#newest - LATE_NUMBERS && !this.#written.has(number))
    );
  }

  matches({ path, mapping, outcome }: Pick<EventView, "path" | "mapping" | "outcome">): boolean {
    const query = this.#query;
    return (
      (query.path === undefined || query.path === path) &&
      (query.mapping === undefined || query.mapping === mapping) &&
      (query.outcome === undefined || query.outcome === outcome)
    );
  }

  /** Puts the events that the stream begins with before those that the poll has brought since. */
  begin(skipped: number, events: readonly EventView[]): void {
    const later = this.#lines.splice(0);
    this.skip(skipped);
    for (const event of events) this.push(event);
    for (const { id } of events) this.#first.add(id);
    for (const line of later) {
      if (line.type === "event") this.push(line.event);
      else this.#lines.push(line);
    }
  }

  /** Says that the stream is alive if no line does: without one, a reader does not know that it is connected. */
  greet(): void {
    if (this.#lines.length === 0) this.#lines.push({ type: "alive" });
  }

  push(event: EventView): void {
    if (!this.matches(event) || this.#first.delete(event.id)) return;
    if (this.#lines.length >= MAX_WAITING) return this.skip(1);
    this.#lines.push({ type: "event", event });
    this.#wake();
  }

  skip(count: number): void {
    if (count === 0) return;
    const last = this.#lines.at(-1);
    if (last?.type === "skipped") last.count += count;
    else this.#lines.push({ type: "skipped", count });
    this.#wake();
  }

  async next(): Promise<IteratorResult<StreamLine>> {
    if (this.#lines.length === 0 && !this.#isEnded) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, ALIVE_MS);
      });
      clearTimeout(timer);
    }
    const value = this.#lines.shift();
    if (value) return { done: false, value };
    return this.#isEnded
      ? { done: true, value: undefined }
      : { done: false, value: { type: "alive" } };
  }

  async return(): Promise<IteratorResult<StreamLine>> {
    this.#isEnded = true;
    this.#lines.length = 0;
    this.#leave(this);
    this.#wake();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The newest so many as are read, and those before them. */
const split = (numbers: readonly number[]): [skipped: number[], shown: number[]] => {
  const count = Math.max(0, numbers.length - MAX_READ);
  return [numbers.slice(0, count), numbers.slice(count)];
};

/** One poll of the store for all readers, and none without readers. */
class Feed implements EventFeed {
  readonly #deps: FeedDeps;
  readonly #readers = new Set<Reader>();
  /** Events up to this number were read, or are not waited for any longer. */
  #horizon = 0;
  /** The numbers behind the horizon that were read, and when. */
  readonly #read = new Map<number, number>();
  #isWorking = false;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  async follow(query: StreamQuery): Promise<AsyncIterableIterator<StreamLine>> {
    const { store } = this.#deps;
    if (this.#readers.size >= MAX_READERS)
      throw new RouseError({
        code: "overloaded",
        message: `${MAX_READERS} readers follow the events already; end one of them`,
      });
    const leave = (): void => void this.#readers.delete(reader);
    const reader: Reader = new Reader(query, leave);
    this.#readers.add(reader);
    try {
      // The poll begins before the first events are read: what is written in between comes by the poll.
      await this.#join(reader);
      const { path, mapping, outcome, after, lines: limit } = query;
      if (after !== undefined) await this.#resume(reader, after);
      else if (limit > 0) {
        const newest = (
          await store.events.list({ ...given({ path, mapping, outcome }), limit })
        ).map((event) => eventView(event));
        reader.begin(0, newest.toReversed());
      }
      reader.greet();
      return reader;
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #readEvents(
    numbers: readonly number[],
    each: (event: EventView, number: number) => void,
  ): Promise<void> {
    for (let at = 0; at < numbers.length; at += CHUNK) {
      const rows = await this.#deps.store.events.listNumbered(numbers.slice(at, at + CHUNK));
      for (const { number, event } of rows) each(eventView(event), number);
    }
  }

  #moveHorizon(): void {
    const late = readMonotonic(this.#deps.clock) - (this.#deps.isShared ? LATE_MS : 0);
    for (const [number, at] of this.#read)
      if (at <= late) this.#horizon = Math.max(this.#horizon, number);
    for (const number of this.#read.keys()) if (number <= this.#horizon) this.#read.delete(number);
  }

  async #poll(): Promise<void> {
    const numbers = await this.#deps.store.events.listNumbers({
      after: this.#horizon,
      limit: MAX_NUMBERS,
    });
    const fresh = numbers.filter((number) => !this.#read.has(number));
    const [skipped, shown] = split(fresh);
    for (const reader of this.#readers)
      reader.skip(skipped.filter((number) => reader.isNew(number)).length);
    await this.#readEvents(shown, (event, number) => {
      for (const reader of this.#readers) if (reader.isNew(number)) reader.push(event);
    });
    const now = readMonotonic(this.#deps.clock);
    for (const number of fresh) this.#read.set(number, now);
    if (numbers.length === MAX_NUMBERS) this.#horizon = numbers.at(-1) ?? this.#horizon;
    this.#moveHorizon();
  }

  async #work(): Promise<void> {
    const { log, isStopping } = this.#deps;
    while (this.#readers.size > 0) {
      await new Promise<void>((resolve) => void setTimeout(resolve, POLL_MS).unref());
      // What cannot be read now is read by a later poll: the horizon stays.
      await this.#poll().catch((error: unknown) =>
        log.debug({ err: safeError(error) }, "the stream of events could not read the store"),
      );
      if (isStopping()) for (const reader of this.#readers) void reader.return();
    }
    this.#isWorking = false;
  }

  async #join(reader: Reader): Promise<void> {
    const { store } = this.#deps;
    const newest = (await store.events.getNumber()) ?? 0;
    reader.join(
      newest,
      await store.events.listNumbers({ after: newest - LATE_NUMBERS, limit: LATE_NUMBERS }),
    );
    // The loop may still wait for its next poll since the last reader left: it goes on from where it is.
    if (this.#isWorking) return;
    this.#isWorking = true;
    this.#read.clear();
    this.#horizon = newest - LATE_NUMBERS;
    void this.#work();
  }

  async #resume(reader: Reader, id: string): Promise<void> {
    const { store, isShared } = this.#deps;
    const number = await store.events.getNumber(id);
    if (number === undefined)
      throw new RouseError({
        code: "not_found",
        message: "the event to continue from is no longer kept; follow without `after`",
      });
    let count = 0;
    let shown: readonly number[] = [];
    for (let after = number - (isShared ? LATE_NUMBERS : 0); ;) {
      const numbers = await store.events.listNumbers({ after, limit: MAX_NUMBERS });
      const [skipped, rest] = split([
        ...shown,
        ...numbers.filter((one) => one !== number && !reader.isNew(one)),
      ]);
      count += skipped.length;
      shown = rest;
      const last = numbers.at(-1);
      if (last === undefined || numbers.length < MAX_NUMBERS || reader.isNew(last)) break;
      after = last;
    }
    const events: EventView[] = [];
    await this.#readEvents(shown, (event) => {
      if (reader.matches(event)) events.push(event);
    });
    reader.begin(count, events);
  }
}

/** Creates the feed of a gateway, from which its readers follow events. */
export const createEventFeed = (deps: FeedDeps): EventFeed => new Feed(deps);
