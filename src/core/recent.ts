/** What is kept of the newest times of one kind. */
const MAX_TIMES = 1000;

/** How long something took, in seconds; of the newest times since the start of the process. */
export interface Percentiles {
  /** How many times these are of. */
  count: number;
  p50: number;
  p95: number;
  p99: number;
}

/** The newest times of one kind: exact percentiles, where a histogram has the bounds of its buckets only. */
export interface RecentTimes {
  add(seconds: number): void;
  /** Null if nothing was added yet. */
  read(): Percentiles | null;
}

/** Creates a list of the newest times. */
export function createRecentTimes(): RecentTimes {
  const times: number[] = [];
  let next = 0;
  return {
    add(seconds) {
      times[next] = seconds;
      next = (next + 1) % MAX_TIMES;
    },
    read() {
      if (times.length === 0) return null;
      const sorted = times.toSorted((one, other) => one - other);
      const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
      return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
    },
  };
}
