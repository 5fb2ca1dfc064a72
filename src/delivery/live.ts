import type { Channel, OutgoingMessage, SendResult, SentMessage } from "../contract/channel.ts";
import type { Clock } from "../core/clock.ts";
import { newId } from "../core/ids.ts";
import type { DeliveryRecord, LiveMessage, Route } from "../store/types.ts";
import { deliveryJob, type PlannedSend } from "./plan.ts";
import { sendPiece } from "./send.ts";
import { MAX_ASK_ATTEMPTS, type RetriedSend } from "./tries.ts";

const toSentMessage = (
  { to, thread }: Pick<OutgoingMessage, "to" | "thread">,
  messageId: string,
): SentMessage => ({
  to,
  ...(thread !== undefined && { thread }),
  messageId,
});

/**
 * Makes what replaces the message that showed a turn's text by the first chunk. Undefined if the chunk is a message of its
 * own. An edit that may have arrived is made again.
 */
export function createEdit(
  { live, nextChunk }: DeliveryRecord,
  { streaming }: Channel,
  message: OutgoingMessage,
): ((signal: AbortSignal) => Promise<SendResult>) | undefined {
  if (!live || live.isUncertain || !streaming || nextChunk > 0) return undefined;
  const { messageId } = live;
  return async (signal) => {
    const result = await streaming.edit(
      { ...toSentMessage(message, messageId), text: message.text },
      signal,
    );
    if (result.status === "unknown") return { status: "retry", reason: result.reason };
    return result.status === "sent" ? { status: "sent", messageIds: [messageId] } : result;
  };
}

/** Whether a delivery has a message to delete that showed its turn's text: one that no chunk has replaced. */
export const hasLiveLeft = ({ live, messageIds }: DeliveryRecord): boolean =>
  live !== undefined && !messageIds.includes(live.messageId);

/**
 * Deletes the message that showed a turn's text if no chunk has replaced it. Returns what to try again later; a vendor that
 * does not delete it leaves a warning at the delivery, whose text has arrived.
 */
export async function removeLive(
  delivery: DeliveryRecord,
  channel: Channel | undefined,
  { clock, signal, tries }: { clock: Clock; signal: AbortSignal; tries: number },
): Promise<RetriedSend | undefined> {
  const { live, route } = delivery;
  const { to, thread } = route;
  if (!live || to === undefined || !hasLiveLeft(delivery)) return undefined;
  const about = toSentMessage({ to, ...(thread !== undefined && { thread }) }, live.messageId);
  const removing = async (until: AbortSignal): Promise<SendResult> =>
    (await channel?.streaming?.remove(about, until)) ?? {
      status: "failed",
      reason: "the channel deletes no messages",
    };
  const result = await sendPiece(removing, clock, signal);
  if (result.status === "sent") return undefined;
  if (result.status !== "failed" && (tries < MAX_ASK_ATTEMPTS || signal.aborted))
    return { status: "retry", reason: result.reason };
  const warning = `the message that showed the text while it was written could not be deleted: ${result.reason}`;
  delivery.warnings = [...(delivery.warnings ?? []), warning];
  return undefined;
}

/** Plans the delivery that deletes a message in which a turn's text was shown, and sends nothing. */
export function planRemoval(
  live: LiveMessage,
  { runId, route, now }: { runId: string; route: Route; now: number },
): PlannedSend {
  const id = newId("dlv", now);
  return {
    delivery: { id, runId, route, chunks: [], live, createdAt: now },
    job: deliveryJob(id, route, now),
  };
}
