import type { Clock } from "../core/clock.ts";
import type { Store } from "../store/types.ts";

/** Who waits for which run to end. */
export interface RunEnds {
  /** To be called when a run has ended. */
  ended(runId: string): void;
  /** Resolves when the run has ended, after `ms`, or when the gateway stops. */
  wait(runId: string, ms: number): Promise<void>;
}

export function createRunEnds({ store, clock, signal }: { store: Store; clock: Clock; signal: AbortSignal }): RunEnds {
  const waiting = new Map<string, Set<() => void>>();
  return {
    ended(runId) {
      for (const done of waiting.get(runId) ?? []) done();
    },
    async wait(runId, ms) {
      const over = new AbortController();
      const done = (): void => over.abort();
      const listeners = waiting.get(runId) ?? new Set();
      waiting.set(runId, listeners.add(done));
      signal.addEventListener("abort", done, { once: true });
      const run = await store.getRun(runId);
      if (run?.endedAt === undefined) await clock.sleep(ms, over.signal);
      signal.removeEventListener("abort", done);
      listeners.delete(done);
      if (listeners.size === 0) waiting.delete(runId);
    },
  };
}
