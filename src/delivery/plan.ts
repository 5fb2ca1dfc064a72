import { newId } from "../core/ids.ts";
import { FORGOTTEN } from "../core/text.ts";
import {
  deliveryState,
  NO_ROUTE,
  type DeliveryError,
  type DeliveryFile,
  type DeliveryRecord,
  type LiveMessage,
  type NewDelivery,
  type NewJob,
  type Reads,
  type Route,
  type RouteDecision,
  type ReplyTarget,
  type RunRecord,
  type StepRecord,
  type Store,
  type ToolCallRecord,
  type Writes,
} from "../store/types.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";
import { SEND_FILE_TOOL_NAME } from "../vocabulary/tool-names.ts";
import { CALLBACK } from "./callback.ts";
import { cutMeasured } from "./split.ts";
import { type Channels, LAST_CHANNEL, resolveRoute } from "./channels.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";

/** The parts of a snapshot that deliveries need. */
export interface DeliverySnapshot {
  channels: Channels;
  /** The main session of the first agent has the last routes. */
  agents: { default: { id: string } };
  /** `maxAge`: after so long, counted from the end of the run or the operator's retry, a failed try is the last. */
  config: { delivery: { maxAge: number } };
}

interface DeliveryRetryOptions {
  store: Store;
  snapshot(): DeliverySnapshot;
  clock: Clock;
}

/** Leaves out the piece that has arrived, and keeps why. */
const skipPiece = ({
  nextChunk,
  warnings = [],
}: DeliveryRecord): Pick<DeliveryRecord, "nextChunk" | "warnings"> => ({
  nextChunk: nextChunk + 1,
  warnings: [
    ...warnings,
    `message ${nextChunk + 1} was not sent again: an operator said that it had arrived`,
  ],
});

/** Returns why a delivery cannot be sent again; undefined if it can. */
export function findResendProblem({ status }: DeliveryRecord): Failure | undefined {
  if (status === "failed" || status === "unknown") return undefined;
  const message = `only a delivery that failed can be sent again; this one is ${status}`;
  return { code: "not_retryable", message };
}

/**
 * Creates what sends a delivery again that failed or whose outcome is unknown, from the first piece that was not sent. For a
 * reply that had no route one is looked for: fails and changes nothing if there is still none. `arrived`: an operator has seen
 * the piece whose outcome is unknown in the chat, so the delivery goes on after it.
 */
export function createRetry(options: DeliveryRetryOptions) {
  const { store, clock } = options;

  /** Looks for a route for a reply that has none; the reply is split again for its channel. */
  const findRoute = async ({
    route: { channel, to },
    chunks,
  }: DeliveryRecord): Promise<{ route: Route; chunks: string[] } | string> => {
    const { channels, agents } = options.snapshot();
    const target = to === undefined ? { channel } : { channel, to };
    const found = await resolveRoute({
      store,
      channels,
      agentId: agents.default.id,
      ...target,
    });
    if (found.status !== "route") return found.reason;
    return { route: found.route, chunks: splitFor(found.route, chunks.join(""), channels) };
  };

  return async (
    id: string,
    { arrived = false }: { arrived?: boolean } = {},
  ): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }> => {
    const delivery = await store.deliveries.get(id);
    if (!delivery) return { ok: false, failure: unknownId("delivery", id) };
    const problem = findResendProblem(delivery);
    if (problem) return { ok: false, failure: problem };
    if (arrived && delivery.status !== "unknown") {
      const message =
        "nothing of this delivery is in doubt, so nothing can have arrived: retry it without `arrived`";
      return { ok: false, failure: { code: "not_retryable", message } };
    }
    const routed = deliveryState(delivery) === NO_ROUTE ? await findRoute(delivery) : undefined;
    if (typeof routed === "string")
      return {
        ok: false,
        failure: { code: "no_route", message: `there is still no route: ${routed}` },
      };
    await store.commit((tx) => {
      const reset = {
        status: "pending",
        attempts: 0,
        resent: false,
        nextAt: clock.now(),
        error: null,
        endedAt: null,
      } as const;
      tx.deliveries.update(id, { ...routed, ...reset, ...(arrived && skipPiece(delivery)) });
      if (routed)
        tx.runs.update(delivery.runId, { route: { status: "route", route: routed.route } });
      tx.jobs.add(deliveryJob(id, routed?.route ?? delivery.route, clock.now()));
    });
    return { ok: true, delivery: (await store.deliveries.get(id)) ?? delivery };
  };
}

/** The content of a delivery's job. */
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

/** Returns the key of a piece for the channel: one that is sent once more has another key. */
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

/** Plans a delivery with its job. `id`: for one that must not be planned twice; else it gets a new one. */
export function planSend(
  delivery: Omit<NewDelivery, "id" | "route"> & { id?: string; route: Route },
): PlannedSend {
  const { id = newId("dlv", delivery.createdAt), route, createdAt } = delivery;
  return { delivery: { ...delivery, id }, job: deliveryJob(id, route, createdAt) };
}

/** Plans the delivery that deletes a message in which a turn's text was shown, and sends nothing. */
export function planRemoval(
  live: LiveMessage,
  { runId, route, now }: { runId: string; route: Route; now: number },
): PlannedSend {
  return planSend({ runId, route, chunks: [], live, createdAt: now });
}

/** Writes a planned delivery. */
export function writeDelivery(tx: Writes, { delivery, job, contents = [] }: Planned): void {
  tx.deliveries.add(delivery);
  for (const [index, { id }] of (delivery.files ?? []).entries())
    tx.toolResults.add({ id, runId: delivery.id, text: contents[index] ?? "" });
  if (job) tx.jobs.add(job);
}

/** A reply in pieces that fit the channel of its route. */
export const splitFor = (...reply: Parameters<typeof cutFor>): string[] => [...cutFor(...reply)];

/** The same pieces, each cut when it is asked for. Vendors reject a text with half of a surrogate pair. */
export function cutFor({ channel: id }: Route, text: string, channels: Channels): Iterable<string> {
  const channel = channels.get(id)?.channel;
  const whole = text.toWellFormed();
  if (channel?.limit === undefined) return whole.trim() === "" ? [] : [whole];
  return cutMeasured(whole, channel.limit, channel.lengthOf?.bind(channel));
}

/** A file that an agent has attached to its reply: `content` is base64. */
export interface AttachedFile extends Omit<DeliveryFile, "id"> {
  content: string;
}

/** The id under which a file waits for the end of its run. */
export const toStagedId = (callId: string): string => `${callId}.file`;

const isAttaching = ({ tool, state }: ToolCallRecord): boolean =>
  tool === SEND_FILE_TOOL_NAME && state === "done";

/** Returns the files that the agent has attached in a run's steps, in their order. */
export async function readAttached(
  run: RunRecord,
  steps: readonly StepRecord[],
  store: Reads,
): Promise<AttachedFile[]> {
  const files: AttachedFile[] = [];
  for (const { id } of steps.flatMap(({ calls }) => calls.filter(isAttaching))) {
    const staged = await store.toolResults.get(toStagedId(id));
    if (staged?.runId === run.id && staged.text !== FORGOTTEN)
      files.push(JSON.parse(staged.text) as AttachedFile);
  }
  return files;
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
  return planSend({ runId, route, chunks: splitFor(route, text, channels), createdAt: now });
}

/**
 * Plans what becomes of a run's reply: a delivery; without a route one that has failed, which `retry` sends once there is
 * a route; undefined if nothing is to be sent.
 */
export function planReply(
  runId: string,
  decision: RouteDecision,
  { target = { channel: LAST_CHANNEL }, ...reply }: Reply & { target?: ReplyTarget | undefined },
): Planned | undefined {
  if (decision.status === "skipped") return undefined;
  if (decision.status === "route") return planDelivery({ ...reply, runId, route: decision.route });
  const error: DeliveryError = { code: NO_ROUTE, message: decision.reason };
  return {
    delivery: {
      id: newId("dlv", reply.now),
      runId,
      route: target,
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
  return planSend({ runId, route, chunks: [JSON.stringify(receipt)], createdAt: now });
}
