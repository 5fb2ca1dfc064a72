import type { Peers } from "../store/types.ts";

/** What was counted here of one caller since it was told last. */
export interface Count {
  caller: string;
  n: number;
  /** What the others need to count it as this gateway does. */
  limit?: { requests: number; per: number };
}

/** Counts of one limiter, over all gateways. */
export interface SharedCounts {
  /** Tells the others, within a second. */
  add(count: Count): void;
  /** Hears what the others have counted. */
  on(listener: (count: Count) => void): void;
}

/** Counts are told in batches: no hook waits for it, and no other gateway knows later than that. */
const BATCH_MS = 1000;
/** Callers of one batch; those of a flood from more addresses are told in the next ones. */
const MAX_CALLERS = 2000;

type Message = [limiter: string, caller: string, n: number, requests?: number, per?: number];

/** Makes the counts that limiters share; undefined where a gateway is alone. */
export function createSharedCounts(peers: Pick<Peers, "shared" | "tell" | "on">): ((limiter: string) => SharedCounts) | undefined {
  if (!peers.shared) return undefined;
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
    peers.tell("spent", values);
    if (waiting.size > 0) timer = setTimeout(flush, BATCH_MS).unref();
  };

  peers.on("spent", (values) => {
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
      // A count of 0 takes back what came before it.
      const sum = n === 0 ? 0 : (known?.count.n ?? 0) + n;
      waiting.set(key, { limiter, count: { caller, n: sum, ...(limit ? { limit } : {}) } });
      timer ??= setTimeout(flush, BATCH_MS).unref();
    },
    on: (listener) => void listeners.set(limiter, listener),
  });
}
