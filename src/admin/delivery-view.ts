import { deliveryState, type DeliveryRecord } from "../store/types.ts";
import { iso, isoOrNull } from "./views.ts";

/** The operator's view of a delivery. Times are ISO 8601; what is not there is null. */
export type DeliveryView = ReturnType<typeof deliveryView>;
export type DeliveryDetail = ReturnType<typeof deliveryDetail>;

/** Renders a delivery. */
export function deliveryView(delivery: DeliveryRecord) {
  const { route } = delivery;
  return {
    id: delivery.id,
    runId: delivery.runId,
    /** `no_route`: it failed because no recipient was known. */
    status: deliveryState(delivery),
    /** Without a route: what the run asked for, a channel or `last`. */
    channel: route.channel,
    to: route.to ?? null,
    thread: route.thread ?? null,
    chunks: delivery.chunks.length,
    sentChunks: Math.min(delivery.nextChunk, delivery.chunks.length),
    files: delivery.files?.length ?? 0,
    sentFiles: Math.max(delivery.nextChunk - delivery.chunks.length, 0),
    attempts: delivery.attempts,
    messageIds: delivery.messageIds,
    error: delivery.error ?? null,
    createdAt: iso(delivery.createdAt),
    nextAt: delivery.status === "pending" ? iso(delivery.nextAt) : null,
    endedAt: isoOrNull(delivery.endedAt),
  };
}

/** Renders a delivery with its messages. */
export function deliveryDetail(delivery: DeliveryRecord) {
  const { ask } = delivery;
  return {
    ...deliveryView(delivery),
    /** Its messages in order; the first `sentChunks` of them are sent. */
    texts: delivery.chunks,
    /** What follows the messages, in order. */
    attached: (delivery.files ?? []).map(({ name, mediaType, bytes }) => ({
      name,
      mediaType,
      bytes,
    })),
    /** What was sent in another way than it was meant to be. */
    warnings: delivery.warnings ?? [],
    /** Of a question about a tool call: the approval. */
    approvalId: ask?.approvalId ?? null,
  };
}
