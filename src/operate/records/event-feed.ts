import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { RouseError, safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { EventOutcome, Ms, Reads } from "../../store/types.ts";
import { found, given, matches } from "./operation.ts";
import { eventView, type EventView } from "./views.ts";

/** A line of the stream: an event, how many events were left out at this place, or a sign that the stream is alive. */
export type StreamLine =
  | { type: "event"; event: EventView }
  | { type: "skipped"; count: number }
  | { type: "alive" };

interface StreamQuery {
  path?: string | undefined;
  mapping?: string | undefined;
  outcome?: EventOutcome | undefined;
  /** The stream begins behind this event; else with the newest events. */
  after?: string | undefined;
  /** The number of the newest events to begin with. */
  lines: number;
}

interface FeedDeps {
  store: Reads;
  clock: Stopwatch;
  log: Logger;
  /** True if other gateways write to the store. */
  isShared: boolean;
  isStopping(): boolean;
}

export const MAX_READERS = 20;
const POLL_MS = 80;
/** A reader hears at least this often that the stream is alive. */
const ALIVE_MS = 15_000;
/** Events whose records are read in one poll; of more, which a slow reader leaves, the older ones are only counted. */
const MAX_READ = 300;
const MAX_NUMBERS = 20_000;
const CHUNK = 50;
/** With several gateways an event can be written later than one with a higher number, by the longest time of a commit. */
const LATE_MS = 6_000;
/** Numbers before the first one that are read again for the same reason. */
const LATE_NUMBERS = 200;

/** Reads the events that one reader does not have yet. */
class Cursor {
  readonly #deps: FeedDeps;
  readonly #query: StreamQuery;
  /** Events up to this number were read, or are not waited for any longer. */
  #horizon = 0;
  /** The numbers behind the horizon that were read, and when. */
  readonly #read = new Map<number, Ms>();
  /** Events that the stream began with: one that was written meanwhile comes by a poll, too. */
  readonly #first = new Set<string>();

  constructor(query: StreamQuery, deps: FeedDeps) {
    this.#query = query;
    this.#deps = deps;
  }

  /** Finds the place at which the stream begins, and returns its first lines. */
  async begin(): Promise<StreamLine[]> {
    const { store, isShared } = this.#deps;
    const { path, mapping, outcome, after, lines: limit } = this.#query;
    if (after !== undefined) {
      const message = "the event to continue from is no longer kept; follow without `after`";
      const number = found(await store.events.getNumber(after), { code: "not_found", message });
      this.#horizon = number - (isShared ? LATE_NUMBERS : 1);
      this.#mark([number]);
      return [];
    }
    const newest = (await store.events.getNumber()) ?? 0;
    this.#horizon = newest - LATE_NUMBERS;
    const written = { after: this.#horizon, limit: LATE_NUMBERS };
    this.#mark((await store.events.listNumbers(written)).filter((number) => number <= newest));
    if (limit === 0) return [];
    const events = await store.events.list({ ...given({ path, mapping, outcome }), limit });
    for (const { id } of events) this.#first.add(id);
    return events.toReversed().map((event) => ({ type: "event", event: eventView(event) }));
  }

  #mark(numbers: readonly number[]): void {
    const now = readMonotonic(this.#deps.clock);
    for (const number of numbers) this.#read.set(number, now);
  }

  #moveHorizon(): void {
    const late = readMonotonic(this.#deps.clock) - (this.#deps.isShared ? LATE_MS : 0);
    for (const [number, at] of this.#read)
      if (at <= late) this.#horizon = Math.max(this.#horizon, number);
    for (const number of this.#read.keys()) if (number <= this.#horizon) this.#read.delete(number);
  }

  /** Reads what was written since. */
  async poll(): Promise<StreamLine[]> {
    const { store } = this.#deps;
    const { path, mapping, outcome } = this.#query;
    const written = { after: this.#horizon, limit: MAX_NUMBERS };
    const numbers = await store.events.listNumbers(written);
    const fresh = numbers.filter((number) => !this.#read.has(number));
    const shown = fresh.slice(-MAX_READ);
    const count = fresh.length - shown.length;
    const lines: StreamLine[] = count === 0 ? [] : [{ type: "skipped", count }];
    for (let at = 0; at < shown.length; at += CHUNK)
      for (const { event } of await store.events.listNumbered(shown.slice(at, at + CHUNK))) {
        const view = eventView(event);
        if (matches(view, { path, mapping, outcome }) && !this.#first.delete(event.id))
          lines.push({ type: "event", event: view });
      }
    this.#mark(fresh);
    if (numbers.length === MAX_NUMBERS) this.#horizon = numbers.at(-1) ?? this.#horizon;
    this.#moveHorizon();
    return lines;
  }
}

/** Yields the lines of a stream as its reader takes them. */
async function* follow(
  first: readonly StreamLine[],
  cursor: Cursor,
  { clock, log, isStopping }: FeedDeps,
  isOpen: () => boolean,
): AsyncGenerator<StreamLine, undefined> {
  // Without a line, a reader does not know that it is connected.
  yield { type: "alive" };
  yield* first;
  let last = readMonotonic(clock);
  while (isOpen() && !isStopping()) {
    // A later poll reads it: the horizon stays.
    const lines = await cursor.poll().catch((error: unknown): StreamLine[] => {
      log.debug({ err: safeError(error) }, "the stream of events could not read the store");
      return [];
    });
    const isQuiet = lines.length === 0 && readMonotonic(clock) - last >= ALIVE_MS;
    if (isQuiet) yield { type: "alive" };
    yield* lines;
    if (isQuiet || lines.length > 0) last = readMonotonic(clock);
    await new Promise<void>((resolve) => void setTimeout(resolve, POLL_MS).unref());
  }
  return undefined;
}

/** Creates the feed of a gateway, from which its readers follow events. */
export function createEventFeed(deps: FeedDeps) {
  const readers = new Set<Cursor>();
  return {
    /**
     * Follows events as they are written, at any gateway on the store. The stream ends when the gateway stops.
     * @throws RouseError `overloaded` if there are too many readers, `not_found` if the event of `after` is no longer kept.
     */
    async follow(query: StreamQuery): Promise<AsyncIterableIterator<StreamLine>> {
      if (readers.size >= MAX_READERS)
        throw new RouseError({
          code: "overloaded",
          message: `${MAX_READERS} readers follow the events already; end one of them`,
        });
      const cursor = new Cursor(query, deps);
      readers.add(cursor);
      const isOpen = (): boolean => readers.has(cursor);
      try {
        const lines = follow(await cursor.begin(), cursor, deps, isOpen);
        const reader: AsyncIterableIterator<StreamLine> = {
          next: () => lines.next(),
          return() {
            // A poll that is under way ends by itself.
            readers.delete(cursor);
            return Promise.resolve({ done: true, value: undefined });
          },
          [Symbol.asyncIterator]: () => reader,
        };
        return reader;
      } catch (error) {
        readers.delete(cursor);
        throw error;
      }
    },
  };
}
