/** The parts of a discrete-event simulation: a calendar, stations with queues, and what is measured. Times are seconds. */
import type { Random } from "./random.ts";

/** Future items in the order of their time. Items of the same time keep the order in which they were added. */
export interface Calendar<T> {
  now: number;
  at(time: number, item: T): void;
  /** The next item, whose time is now; undefined if there is none. */
  next(): T | undefined;
  items(): readonly T[];
}

/** A binary heap. */
export function createCalendar<T>(): Calendar<T> {
  const times: number[] = [];
  const orders: number[] = [];
  const items: T[] = [];
  let count = 0;
  const before = (a: number, b: number): boolean =>
    (times[a] as number) < (times[b] as number) ||
    (times[a] === times[b] && (orders[a] as number) < (orders[b] as number));
  const swap = (a: number, b: number): void => {
    const [time, order, item] = [times[a] as number, orders[a] as number, items[a] as T];
    times[a] = times[b] as number;
    orders[a] = orders[b] as number;
    items[a] = items[b] as T;
    times[b] = time;
    orders[b] = order;
    items[b] = item;
  };
  const calendar: Calendar<T> = {
    now: 0,
    items: () => items,
    at(time, item) {
      let at = items.length;
      times.push(time);
      orders.push(count++);
      items.push(item);
      for (let parent = (at - 1) >> 1; at > 0 && before(at, parent); parent = (at - 1) >> 1) {
        swap(at, parent);
        at = parent;
      }
    },
    next() {
      if (items.length === 0) return undefined;
      swap(0, items.length - 1);
      calendar.now = times.pop() as number;
      orders.pop();
      const item = items.pop() as T;
      for (let at = 0; ;) {
        let least = at;
        const child = 2 * at + 1;
        if (child < items.length && before(child, least)) least = child;
        if (child + 1 < items.length && before(child + 1, least)) least = child + 1;
        if (least === at) return item;
        swap(at, least);
        at = least;
      }
    },
  };
  return calendar;
}

/** First come, first served, by `servers` alike. */
export interface Station {
  /** Work of this many seconds arrives now: when it is done. Calls have to be in the order of time. */
  serve(now: number, seconds: number): number;
  /** Seconds of work taken on so far. */
  worked(): number;
}

export function createStation(servers: number): Station {
  const free = new Float64Array(servers);
  let worked = 0;
  return {
    serve(now, seconds) {
      let first = 0;
      for (let at = 1; at < servers; at++)
        if ((free[at] as number) < (free[first] as number)) first = at;
      worked += seconds;
      return (free[first] = Math.max(now, free[first] as number) + seconds);
    },
    worked: () => worked,
  };
}

/** A log that is flushed by one at a time: what comes while a flush is under way goes together into the next. */
export interface Flusher<T> {
  /** Returns when the flush that begins now ends, if one begins; else this waits for the next. */
  add(now: number, item: T, bytes: number): number | undefined;
  /** A flush has ended: what it wrote, and when the next one ends, if there is something for it. */
  ended(now: number): { items: T[]; next: number | undefined };
  /** Items that are not yet flushed. */
  items(): T[];
  busySeconds(): number;
  /** Seconds of those that bytes took, at the log's full speed. */
  writingSeconds(): number;
}

/** `seconds` for a flush of nothing; bytes add to it. */
export function createFlusher<T>(seconds: number, bytesPerSecond: number): Flusher<T> {
  let waiting: T[] = [];
  let waitingBytes = 0;
  let writing: T[] | undefined;
  let busy = 0;
  let written = 0;
  const begin = (now: number): number => {
    const takes = seconds + waitingBytes / bytesPerSecond;
    written += waitingBytes / bytesPerSecond;
    busy += takes;
    [writing, waiting, waitingBytes] = [waiting, [], 0];
    return now + takes;
  };
  return {
    add(now, item, bytes) {
      waiting.push(item);
      waitingBytes += bytes;
      return writing ? undefined : begin(now);
    },
    ended(now) {
      const items = writing ?? [];
      writing = undefined;
      return { items, next: waiting.length > 0 ? begin(now) : undefined };
    },
    items: () => [...(writing ?? []), ...waiting],
    busySeconds: () => busy,
    writingSeconds: () => written,
  };
}

/** Times in buckets of one per cent. */
export interface Times {
  add(seconds: number): void;
  count(): number;
  mean(): number;
  /** `share` of the times are at most so long; 0 where there is none. */
  quantile(share: number): number;
}

const LEAST = 1e-7;
const STEP = Math.log(1.01);

export function createTimes(): Times {
  const buckets = new Float64Array(3000);
  let count = 0;
  let sum = 0;
  return {
    add(seconds) {
      const bucket = Math.max(
        0,
        Math.min(buckets.length - 1, Math.ceil(Math.log(Math.max(seconds, LEAST) / LEAST) / STEP)),
      );
      buckets[bucket] = (buckets[bucket] as number) + 1;
      count++;
      sum += seconds;
    },
    count: () => count,
    mean: () => (count === 0 ? 0 : sum / count),
    quantile(share) {
      let left = share * count;
      for (let bucket = 0; bucket < buckets.length && count > 0; bucket++) {
        left -= buckets[bucket] as number;
        if (left <= 0) return LEAST * Math.exp(bucket * STEP);
      }
      return 0;
    },
  };
}

/** Arrivals at random (Poisson) with bursts: the mean rate stays what it is. */
export interface Arrivals {
  next(now: number): number;
}

export interface Bursts {
  /** The rate in a burst, as a multiple of the usual rate. */
  factor: number;
  /** Their mean length. */
  seconds: number;
  /** The share of time they take. */
  share: number;
}

export function createArrivals(rate: number, bursts: Bursts | undefined, random: Random): Arrivals {
  if (!bursts) return { next: (now) => now + random.exponential(1 / rate) };
  const usual = rate / (1 - bursts.share + bursts.share * bursts.factor);
  const quiet = (bursts.seconds * (1 - bursts.share)) / bursts.share;
  let bursting = false;
  let turns = random.exponential(quiet);
  return {
    next(now) {
      for (
        let from = now;
        ;
        from = turns,
          bursting = !bursting,
          turns += random.exponential(bursting ? bursts.seconds : quiet)
      ) {
        const time = from + random.exponential(1 / (bursting ? usual * bursts.factor : usual));
        if (time <= turns) return time;
      }
    },
  };
}
