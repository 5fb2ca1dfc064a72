import type { Cluster } from "../store/types.ts";

/** The requests of one caller that this gateway has counted since it last published the count. */
export interface Count {
  caller: string;
  n: number;
  /** What other gateways need to apply the count as this gateway does. */
  limit?: { requests: number; per: number };
}

/** Counts of one limiter, over all gateways. */
export interface SharedCounts {
  /** Publishes a count to the other gateways within a second. */
  add(count: Count): void;
  /** Calls back with the counts of other gateways. */
  on(listener: (count: Count) => void): void;
}

/** The interval between publications, in milliseconds. Hooks do not wait for a publication. */
const BATCH_MS = 1000;
/** The maximum of callers in one publication. Further callers follow in the next ones. */
const MAX_CALLERS = 2000;

type Message = [limiter: string, caller: string, n: number, requests?: number, per?: number];

/** Creates the counts that limiters share. Undefined if there is only one gateway. */
export function createSharedCounts(cluster: Pick<Cluster, "shared" | "tell" | "on">): ((limiter: string) => SharedCounts) | undefined {
  if (!cluster.shared) return undefined;
  const listeners = new Map<string, (count: Count) => void>();
  const waiting = new Map<string, { limiter: string; count: Count }>();
  let timer: NodeJS.Timeout | undefined;

  const flush = (): void => {
    timer = undefined;
    const values: string[] = [];
    for (const [key, { limiter, count }] of waiting) {
      if (values.length === MAX_CALLERS) break;
      waiting.delete(key);
      const { caller, n, limit } = count;
      const message: Message = limit ? [limiter, caller, n, limit.requests, limit.per] : [limiter, caller, n];
      values.push(JSON.stringify(message));
    }
    cluster.tell("spent", values);
    if (waiting.size > 0) timer = setTimeout(flush, BATCH_MS).unref();
  };

  cluster.on("spent", (values) => {
    for (const value of values) {
      const [limiter, caller, n, requests, per] = JSON.parse(value) as Message;
      listeners.get(limiter)?.({ caller, n, ...(requests === undefined || per === undefined ? {} : { limit: { requests, per } }) });
    }
  });

  return (limiter) => ({
    add({ caller, n, limit }) {
      const key = `${limiter} ${caller}`;
      const known = waiting.get(key);
      if (!known && waiting.size >= MAX_CALLERS * 10) return;
      // A count of 0 cancels the earlier counts.
      const sum = n === 0 ? 0 : (known?.count.n ?? 0) + n;
      waiting.set(key, { limiter, count: { caller, n: sum, ...(limit ? { limit } : {}) } });
      timer ??= setTimeout(flush, BATCH_MS).unref();
    },
    on: (listener) => void listeners.set(limiter, listener),
  });
}
