import type { WakeMode } from "../config/schema/common.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { JobKind } from "./types.ts";

/** A wait for a job's time is looked at again at least so often: the clock may be set. */
export const LONGEST_TIMER_MS = 60_000;

/** The listeners of this process, which are called if work may be ready. */
export interface Listeners {
  onReady(listener: (kind: JobKind) => void): () => void;
  onWake(listener: (agentId: string, mode: WakeMode) => void): () => void;
  /** Somebody waits for work. */
  any(): boolean;
  announce(kinds: Iterable<JobKind>): void;
  woke(wakes: Iterable<readonly [string, WakeMode]>): void;
  /** Calls no listener any more. */
  close(): void;
}

/** `listened` is called after each that begins to listen. */
export function createListeners(log: Logger, listened?: () => void): Listeners {
  const ready = new Set<(kind: JobKind) => void>();
  const wakes = new Set<(agentId: string, mode: WakeMode) => void>();
  let closed = false;

  // What a listener does wrong must not look like a commit that failed.
  const tell = <A extends unknown[]>(listeners: Iterable<(...values: A) => void>, ...values: A): void => {
    for (const listener of listeners) {
      try {
        listener(...values);
      } catch (error) {
        log.error({ err: safeError(error) }, "a listener of the store failed");
      }
    }
  };

  const subscribe = <T>(set: Set<T>, listener: T): (() => void) => {
    set.add(listener);
    listened?.();
    return () => void set.delete(listener);
  };

  return {
    onReady: (listener) => subscribe(ready, listener),
    onWake: (listener) => subscribe(wakes, listener),
    any: () => ready.size > 0 || wakes.size > 0,
    announce(kinds) {
      if (!closed) for (const kind of kinds) tell(ready, kind);
    },
    woke(agents) {
      if (!closed) for (const [agentId, mode] of agents) tell(wakes, agentId, mode);
    },
    close() {
      closed = true;
    },
  };
}
