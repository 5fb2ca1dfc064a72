/** The tries of a delivery: whether its channel takes one, the call for each piece, and the wait for the next try. */
import { backOff, WAITS, withJitter } from "../core/backoff.ts";
import { isRefusal, type CallOutcome, type Pass, type Refusal } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { Channel, OutgoingMessage, SendResult, SentMessage } from "../contract/channel.ts";
import type { ParkingLot } from "../queue/parking-lot.ts";
import type { DeliveryChange, DeliveryRecord, Job, Reads } from "../store/types.ts";
import { CALLBACK } from "./callback.ts";

/** Tries of one piece; a piece that got through starts the count again. */
export const MAX_ATTEMPTS = 12;
/** Tries of a question if there is another person to ask: about half a minute. */
export const MAX_ASK_ATTEMPTS = 5;

/** A send that is tried again. */
export type RetriedSend = Extract<SendResult, { status: "retry" }>;

/** Tries whose wait is the one that was named: some name a second whatever has happened, and twelve tries would be over soon. */
const MAX_NAMED_WAITS = 3;

/** The channel's own wish, else doubling from one second to fifteen minutes, with jitter; the longer of both after three tries. */
export function getWaitMs(attempts: number, { afterMs }: RetriedSend): number {
  if (afterMs !== undefined && attempts <= MAX_NAMED_WAITS) return afterMs;
  const doubled = Math.min(withJitter(backOff(attempts, WAITS.delivery)), WAITS.delivery.longestMs);
  return Math.max(doubled, afterMs ?? 0);
}

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

/** The number of messages that a delivery consists of: its chunks, then its files. */
export const countPieces = ({ chunks, files = [] }: DeliveryRecord): number =>
  chunks.length + files.length;

const MAX_REASON = 300;

/** The sender of a file: `warning` is set if a sentence was sent in the place of the file. */
interface FileSend {
  warning?: string;
  send(signal: AbortSignal): Promise<SendResult>;
}

/** Makes what sends the file whose turn it is; undefined if it is a chunk's turn. `message` is what a text would be sent with. */
export function createFileSend(
  { chunks, files = [], nextChunk }: DeliveryRecord,
  message: OutgoingMessage,
  { channel, store }: { channel: Channel; store: Reads },
): FileSend | undefined {
  const file = files[nextChunk - chunks.length];
  if (!file) return undefined;
  const { id, name, mediaType } = file;
  const sending: FileSend = {
    async send(signal) {
      const content = channel.sendFile && (await store.toolResults.get(id))?.text;
      const { text: _text, ...place } = message;
      const data =
        content === undefined ? undefined : new Uint8Array(Buffer.from(content, "base64"));
      const missing = channel.sendFile
        ? "its content is no longer kept"
        : "this channel sends no files";
      const result =
        data && channel.sendFile
          ? await channel.sendFile({ ...place, name, mediaType, data }, signal)
          : undefined;
      if (result && result.status !== "unsupported") return result;
      const reason = cutText(oneLine(result?.reason ?? missing), MAX_REASON).text;
      sending.warning = `the file "${name}" could not be sent, and a sentence was sent in its place: ${reason}`;
      return channel.send(
        { ...message, text: `(The file "${name}" could not be sent: ${reason}.)` },
        signal,
      );
    },
  };
  return sending;
}

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

/** Returns whether a delivery has a message to delete that showed its turn's text: one that no chunk has replaced. */
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

/** Time for one piece; then the plugin's signal aborts. */
const SEND_TIMEOUT_MS = 30_000;
/** The time that a plugin has to report the end of a send that was aborted. */
const GRACE_MS = 1_000;
const MAX_ID = 500;

/** Checks a plugin's answer against the contract. A message whose answer says nothing may have been sent. */
function checkResult(result: unknown): SendResult {
  const given = (typeof result === "object" && result !== null ? result : {}) as Record<
    string,
    unknown
  >;
  const { status, reason, afterMs, messageIds, uncertain } = given;
  if (status === "sent") {
    const ids = Array.isArray(messageIds)
      ? messageIds.filter((id): id is string => typeof id === "string" && id.length <= MAX_ID)
      : [];
    return { status, messageIds: ids };
  }
  const text = typeof reason === "string" ? cutText(oneLine(reason), MAX_REASON).text : "";
  if (status === "retry") {
    const wait =
      typeof afterMs === "number" && Number.isFinite(afterMs) && afterMs >= 0 ? { afterMs } : {};
    return {
      status,
      reason: text || "the channel gave no reason",
      ...wait,
      ...(uncertain === true && { uncertain }),
    };
  }
  if (status === "failed" || status === "unknown")
    return { status, reason: text || "the channel gave no reason" };
  return { status: "unknown", reason: "the plugin did not say how sending ended" };
}

/**
 * Sends one piece by a plugin's `call`: never throws and never takes longer than the timeout, whatever the plugin does. A
 * thrown error counts as `retry`, with the error's code alone as the reason.
 */
export async function sendPiece(
  call: (signal: AbortSignal) => Promise<SendResult>,
  clock: Clock,
  stop: AbortSignal,
  timeoutMs = SEND_TIMEOUT_MS,
): Promise<SendResult> {
  const abort = new AbortController();
  const settled = new AbortController();
  const renderTimeout = (): string =>
    stop.aborted ? "the gateway stopped" : `no answer within ${timeoutMs / 1000} seconds`;
  const send = async (): Promise<SendResult> => {
    try {
      return checkResult(await call(abort.signal));
    } catch (error) {
      const { code, name, status } = safeError(error);
      const reason = abort.signal.aborted
        ? renderTimeout()
        : `sending failed (${[code ?? name, status].filter((part) => part !== undefined).join(", ")})`;
      return { status: "retry", reason };
    } finally {
      settled.abort();
    }
  };
  const giveUp = async (): Promise<SendResult> => {
    await clock.sleep(timeoutMs, AbortSignal.any([stop, settled.signal]));
    if (!settled.signal.aborted) abort.abort();
    await clock.sleep(GRACE_MS, settled.signal);
    return { status: "retry", reason: renderTimeout() };
  };
  const sending = send();
  // A send that has ended just as the wait did is what counts.
  return Promise.race([
    sending,
    giveUp().then((result) => (settled.signal.aborted ? sending : result)),
  ]);
}

/** Returns what a result says about the vendor. A vendor that names a wait limits its callers, and is not away. */
export function toOutcome(result: SendResult, signal: AbortSignal): CallOutcome {
  if (signal.aborted || result.status === "unknown") return "none";
  if (result.status === "sent") return "ok";
  if (result.status === "failed") return "answered";
  return result.afterMs === undefined ? "away" : "busy";
}
