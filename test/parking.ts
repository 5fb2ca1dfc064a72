import type { Clock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { ParkingLot } from "../src/queue/parking-lot.ts";
import type { Store } from "../src/store/types.ts";

/** Breakers of their own for a part of the gateway that is tested alone; `random` is the middle of all jitter. */
export function newParking(
  store: Pick<Store, "commit">,
  clock: Clock,
  onAnswered?: (jobId: string, of: string) => void,
): ParkingLot {
  const log = createLogger("silent");
  const { signal } = new AbortController();
  const parts = { store, clock, log, signal, random: () => 0.5 };
  return new ParkingLot(onAnswered ? { ...parts, onAnswered } : parts);
}
