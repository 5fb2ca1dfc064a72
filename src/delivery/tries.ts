import { backOff, WAITS, withJitter } from "../core/backoff.ts";
import type { SendResult } from "../contract/channel.ts";
import type { DeliveryChange, DeliveryRecord, Job } from "../store/types.ts";
import { CALLBACK } from "./callback.ts";
import { isRefusal, type CallOutcome, type Pass, type Refusal } from "../core/breaker.ts";
import type { ParkingLot } from "../queue/parking-lot.ts";

/**
 * Asks whether a channel takes a delivery. A breaker that is open because of one delivery alone says nothing about the vendor:
 * the vendor may fail at this one message, and all other deliveries are sent.
 */
export class ChannelGate {
  readonly #parking: ParkingLot;
  /** Jobs that failed since the last success of the channel; two are as good as more. */
  readonly #failed = new Map<string, Set<string>>();
  /** The job of each channel that failed while the vendor took other messages. */
  readonly #refused = new Map<string, string>();

  constructor(parking: ParkingLot) {
    this.#parking = parking;
    parking.excuse((channel) => this.#isOneMessage(channel));
  }

  /** `wasRefused`: the delivery was put back before, here or at another gateway. */
  enter(job: Job, channel: string, wasRefused: boolean): Pass | Refusal {
    const entered = this.#parking.enter(job, [channel], { wasParked: wasRefused });
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
    const leave = (outcome: CallOutcome): void => {
      // A success here does not forget the one that failed: it still keeps the breaker open.
      if (outcome === "ok" || outcome === "answered") this.#noteTaken(channel, job.id);
      if (outcome === "away") this.#note(channel, job.id, outcome);
    };
    return { of: channel, isProbe: false, leave };
  }

  /**
   * Returns whether all that is known against the vendor is one message that it does not take, while it takes others.
   */
  #isOneMessage(channel: string): boolean {
    const failed = this.#failed.get(channel);
    return failed?.size === 1 && failed.has(this.#refused.get(channel) ?? "");
  }

  /** The vendor has taken a message, or said what is wrong with it: so it is there. */
  #noteTaken(channel: string, jobId: string): void {
    const failed = this.#failed.get(channel) ?? [];
    const [only, ...others] = failed;
    if (only !== undefined && only !== jobId && others.length === 0)
      this.#refused.set(channel, only);
    if (this.#refused.get(channel) === jobId) this.#refused.delete(channel);
  }

  #isHeldByAnother(channel: string, jobId: string): boolean {
    const failed = this.#failed.get(channel);
    return this.#parking.breaker.isOpen(channel) && failed?.size === 1 && !failed.has(jobId);
  }

  #note(channel: string, jobId: string, outcome: CallOutcome): void {
    if (outcome === "ok" || outcome === "answered") {
      this.#noteTaken(channel, jobId);
      this.#failed.delete(channel);
    }
    if (outcome !== "away") return;
    const failed = this.#failed.get(channel) ?? new Set();
    if (failed.size < 2) this.#failed.set(channel, failed.add(jobId));
  }
}

/**
 * Returns whether a delivery records that a piece is being sent. Receipts carry an id by which receivers know repeats,
 * and a question that is asked twice is decided once: both are sent again after a crash.
 */
export function isMarked({ route, ask }: Pick<DeliveryRecord, "route" | "ask">): boolean {
  return route.channel !== CALLBACK && ask === undefined;
}

/** The change that writes since when the next piece is being sent, or that it is not. */
export function buildMark({
  sendingSince,
}: Pick<DeliveryRecord, "sendingSince">): Pick<DeliveryChange, "sendingSince"> {
  return { sendingSince: sendingSince ?? null };
}

/** Returns whether a try is to be made again that may have arrived. */
export function isUncertain(result: SendResult | undefined): boolean {
  return result?.status === "retry" && result.uncertain === true;
}

/** Returns the result of a piece of which no channel can say whether it arrived. */
export function cannotTell(channel: string, since: number): SendResult {
  const reason = `the gateway ended while it sent this chunk (${new Date(since).toISOString()}), and ${channel} cannot tell whether it arrived: look there, then retry the delivery if it is missing`;
  return { status: "unknown", reason };
}

/** Tries of one piece; a piece that got through starts the count again. */
export const MAX_ATTEMPTS = 12;
/** Tries of a question if there is another person to ask: about half a minute. */
export const MAX_ASK_ATTEMPTS = 5;

/** A send that is tried again. */
export type RetriedSend = Extract<SendResult, { status: "retry" }>;

/** The channel's own wish, else doubling from one second to fifteen minutes, with jitter. */
export const getWaitMs = (attempts: number, { afterMs }: RetriedSend): number =>
  afterMs ?? Math.min(withJitter(backOff(attempts, WAITS.delivery)), WAITS.delivery.longestMs);
