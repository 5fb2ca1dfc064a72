import { isRefusal, type CallOutcome, type Pass, type Refusal } from "../core/breaker.ts";
import type { ParkingLot } from "../queue/parking-lot.ts";
import type { Job } from "../store/types.ts";

/**
 * Asks whether a channel takes a delivery. A breaker that is open because of one delivery alone says nothing about the vendor:
 * the vendor may fail at this one message, and all other deliveries are sent.
 */
export class ChannelGate {
  readonly #parking: ParkingLot;
  /** Jobs that failed since the last success of the channel; two are as good as more. */
  readonly #failed = new Map<string, Set<string>>();

  constructor(parking: ParkingLot) {
    this.#parking = parking;
  }

  enter(job: Job, channel: string): Pass | Refusal {
    const entered = this.#parking.enter(job, [channel]);
    if (!isRefusal(entered))
      return {
        ...entered,
        leave: (outcome, retryAfterMs) => {
          this.#note(channel, job.id, outcome);
          entered.leave(outcome, retryAfterMs);
        },
      };
    if (!this.#isHeldByAnother(channel, job.id)) return entered;
    this.#parking.arrived(job.id);
    // A success here does not forget the one that failed: it still keeps the breaker open.
    return { of: channel, isProbe: false, leave: (outcome) => outcome === "away" && this.#note(channel, job.id, outcome) };
  }

  #isHeldByAnother(channel: string, jobId: string): boolean {
    const failed = this.#failed.get(channel);
    return this.#parking.breaker.isOpen(channel) && failed?.size === 1 && !failed.has(jobId);
  }

  #note(channel: string, jobId: string, outcome: CallOutcome): void {
    if (outcome === "ok" || outcome === "answered") this.#failed.delete(channel);
    if (outcome !== "away") return;
    const failed = this.#failed.get(channel) ?? new Set();
    if (failed.size < 2) this.#failed.set(channel, failed.add(jobId));
  }
}
