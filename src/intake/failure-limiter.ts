import type { Clock } from "../core/clock.ts";
import type { SharedCounts } from "./shared-counts.ts";

const MAX_FAILURES = 20;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

/** Counts failures by address: 20 in a minute are answered 429. A success clears the count. */
export interface FailureLimiter {
  /** Seconds to wait when this address has failed too often, else 0. */
  failed(address: string): number;
  succeeded(address: string): void;
}

/** Creates a limiter. It includes the counts of other gateways. */
export function createFailureLimiter(clock: Pick<Clock, "now">, shared?: SharedCounts): FailureLimiter {
  const failures = new Map<string, { count: number; since: number }>();
  const add = (address: string, n: number): { count: number; since: number } => {
    const now = clock.now();
    const known = failures.get(address);
    const entry = known && now - known.since < WINDOW_MS ? known : { count: 0, since: now };
    entry.count += n;
    failures.delete(address);
    failures.set(address, entry);
    // The oldest go first, so that a flood from many addresses cannot fill the memory.
    if (failures.size > MAX_ADDRESSES) failures.delete(failures.keys().next().value as string);
    return entry;
  };
  // A count of 0: the caller has succeeded at another gateway.
  shared?.on(({ caller, n }) => (n === 0 ? failures.delete(caller) : add(caller, n)));
  return {
    failed(address) {
      const { count, since } = add(address, 1);
      if (count <= MAX_FAILURES) {
        shared?.add({ caller: address, n: 1 });
        return 0;
      }
      return Math.ceil((since + WINDOW_MS - clock.now()) / 1000);
    },
    succeeded(address) {
      if (failures.size > 0 && failures.delete(address)) shared?.add({ caller: address, n: 0 });
    },
  };
}
