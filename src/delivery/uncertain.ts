import type { SendResult } from "../contract/channel.ts";
import type { DeliveryChange, DeliveryRecord } from "../store/types.ts";
import { CALLBACK } from "./callback.ts";

/**
 * Whether a delivery records that a piece is being sent. Receipts carry an id by which receivers know repeats, and a
 * question that is asked twice is decided once: both are sent again after a crash.
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

/** Whether a try is to be made again that may have arrived. */
export function isUncertain(result: SendResult | undefined): boolean {
  return result?.status === "retry" && result.uncertain === true;
}

/** How a piece ends of which no channel can say whether it arrived. */
export function cannotTell(channel: string, since: number): SendResult {
  const reason = `the gateway ended while it sent this chunk (${new Date(since).toISOString()}), and ${channel} cannot tell whether it arrived: look there, then retry the delivery if it is missing`;
  return { status: "unknown", reason };
}
