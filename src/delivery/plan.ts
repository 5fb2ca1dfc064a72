import { newId } from "../core/ids.ts";
import { NO_ROUTE } from "../store/types.ts";
import type {
  DeliveryError,
  DeliveryFile,
  DeliveryRecord,
  NewDelivery,
  NewJob,
  Route,
  RouteDecision,
  RunRecord,
  Writes,
} from "../store/types.ts";
import { CALLBACK } from "./callback.ts";
import { cutMeasured } from "./split.ts";
import type { Channels } from "./types.ts";

/** What a delivery's job carries. */
export interface DeliveryJob {
  deliveryId: string;
}

/** The job that sends a delivery. */
export function deliveryJob(
  id: string,
  route: DeliveryRecord["route"],
  enqueuedAt: number,
): NewJob {
  // Receipts need no order: one that is not taken holds back no other.
  const recipient = route.channel === CALLBACK ? id : route.to;
  return {
    id,
    kind: "delivery",
    key: `${route.channel}/${recipient}`,
    data: { deliveryId: id } satisfies DeliveryJob,
    enqueuedAt,
  };
}

const RESENT = "again";

/** How a piece is known to the channel: one that is sent once more has another key. */
export const toSendKey = (
  { id, resent }: Pick<DeliveryRecord, "id" | "resent">,
  chunk: number,
): { idempotencyKey: string; refused?: true } =>
  resent
    ? { idempotencyKey: `${id}.${chunk}.${RESENT}`, refused: true }
    : { idempotencyKey: `${id}.${chunk}` };

/** Reads the key that `toSendKey` made. */
export function parseSendKey(key: string): { id: string; chunk: number; isResent: boolean } {
  const [id = "", chunk, again] = key.split(".");
  return { id, chunk: Number(chunk) || 0, isResent: again === RESENT };
}

/** A delivery and its job, for the commit that ends the run. One that has failed already has no job. */
export interface Planned {
  delivery: NewDelivery;
  job?: NewJob;
  /** The files of the delivery, in base64, in order. */
  contents?: readonly string[];
}

/** A delivery that is sent. */
export type PlannedSend = Planned & { job: NewJob };

/** Writes a planned delivery. */
export function writeDelivery(tx: Writes, { delivery, job, contents = [] }: Planned): void {
  tx.add("delivery", delivery);
  for (const [index, { id }] of (delivery.files ?? []).entries())
    tx.add("toolResult", { id, runId: delivery.id, text: contents[index] ?? "" });
  if (job) tx.add("job", job);
}

/** A reply in pieces that fit the channel of its route. */
export const splitFor = (...reply: Parameters<typeof cutFor>): string[] => [...cutFor(...reply)];

/** The same pieces, each cut when it is asked for. */
export function cutFor({ channel: id }: Route, text: string, channels: Channels): Iterable<string> {
  const channel = channels.get(id)?.channel;
  return cutMeasured(text, channel?.limit ?? Infinity, channel?.lengthOf?.bind(channel));
}

/** A file that an agent has attached to its reply: `content` is base64. */
export interface AttachedFile extends Omit<DeliveryFile, "id"> {
  content: string;
}

/** Adds files to a planned delivery, whose id their ids begin with: they are kept for as long as it is. */
export function attachFiles<P extends Planned>(planned: P, files: readonly AttachedFile[] = []): P {
  if (files.length === 0) return planned;
  const { delivery } = planned;
  const named = files.map(({ content: _content, ...file }, index) => ({
    id: `${delivery.id}.file.${index}`,
    ...file,
  }));
  const chunks = delivery.chunks.filter((text) => text.trim() !== "");
  return {
    ...planned,
    delivery: { ...delivery, chunks, files: named },
    contents: files.map(({ content }) => content),
  };
}

interface Reply {
  text: string;
  channels: Channels;
  now: number;
}

/** Plans a reply as a delivery. Deliveries to one recipient keep their order. */
export function planDelivery({
  runId,
  route,
  text,
  channels,
  now,
}: Reply & { runId: string; route: Route }): PlannedSend {
  const id = newId("dlv", now);
  return {
    delivery: { id, runId, route, chunks: splitFor(route, text, channels), createdAt: now },
    job: deliveryJob(id, route, now),
  };
}

/**
 * Plans what becomes of a run's reply: a delivery; without a route one that has failed, which `retry` sends once there is
 * a route; undefined if nothing is to be sent.
 */
export function planReply(
  run: Pick<RunRecord, "id" | "spec">,
  decision: RouteDecision,
  reply: Reply,
): Planned | undefined {
  if (decision.status === "skipped") return undefined;
  if (decision.status === "route")
    return planDelivery({ ...reply, runId: run.id, route: decision.route });
  const { channel, to } = run.spec;
  const route = to === undefined ? { channel } : { channel, to };
  const error: DeliveryError = { code: NO_ROUTE, message: decision.reason };
  return {
    delivery: {
      id: newId("dlv", reply.now),
      runId: run.id,
      route,
      chunks: [reply.text],
      createdAt: reply.now,
      error,
    },
  };
}

/** A receipt as a delivery to the address that the mapping names. */
export function planCallback(options: {
  runId: string;
  mapping: string;
  url: string;
  receipt: object;
  now: number;
}): PlannedSend {
  const { runId, mapping, url, receipt, now } = options;
  const route: Route = { channel: CALLBACK, to: url, thread: mapping };
  const id = newId("dlv", now);
  return {
    delivery: { id, runId, route, chunks: [JSON.stringify(receipt)], createdAt: now },
    job: deliveryJob(id, route, now),
  };
}
