import type { CallOutcome } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { SendResult, Channel, OutgoingMessage, SentMessage } from "../contract/channel.ts";
import type { DeliveryRecord, LiveMessage, Route, DeliveryAsk, Reads } from "../store/types.ts";
import { planSend, type PlannedSend, splitFor, toSendKey } from "./plan.ts";
import { MAX_ASK_ATTEMPTS, type RetriedSend } from "./tries.ts";
import { renderPhrase } from "../vocabulary/phrases.ts";
import type { Channels } from "./channels.ts";

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

/** The id of the question that asks the approver at `position`. It follows from the approval, so that no commit can plan it twice. */
export function questionId(approvalId: string, position: number): string {
  return `dlv_${approvalId.replace(/^[a-z]+_/, "")}q${position}`;
}

/** Plans a question as a delivery to `route`. */
export function planAsk(
  ask: DeliveryAsk,
  { runId, route, channels, now }: { runId: string; route: Route; channels: Channels; now: number },
): PlannedSend {
  const id = questionId(ask.approvalId, ask.position);
  const chunks = splitFor(route, `${ask.text}\n\n${ask.instruction}`, channels);
  return planSend({ id, runId, route, chunks, ask, createdAt: now });
}

/**
 * Plans what takes the buttons of a question away. It goes to the same recipient, so it is sent after the question.
 * Undefined if the channel cannot change a message.
 */
export function planAskEnd(
  question: DeliveryRecord,
  text: string,
  channels: Channels,
  now: number,
): PlannedSend | undefined {
  const { id: asked, ask, runId, route } = question;
  if (!ask || route.to === undefined || !channels.get(route.channel)?.channel.endQuestion)
    return undefined;
  return planSend({
    id: `${asked}e`,
    runId,
    route: { ...route, to: route.to },
    chunks: [text],
    ask: { ...ask, next: [], ends: asked },
    createdAt: now,
  });
}

/** Plans the question to the next approver, of a question that could not be delivered. Undefined if there is none, or the approver is asked already. */
export async function planNextAsk(
  { ask, runId }: DeliveryRecord,
  { store, channels, now }: { store: Reads; channels: Channels; now: number },
): Promise<PlannedSend | undefined> {
  const [route, ...next] = ask?.ends === undefined ? (ask?.next ?? []) : [];
  if (!ask || !route) return undefined;
  const {
    text,
    instruction,
    language,
    forNext = { text, instruction, ...(language !== undefined && { language }) },
    ...rest
  } = ask;
  const planned = planAsk(
    { ...rest, ...forNext, next, position: ask.position + 1 },
    { runId, route, channels, now },
  );
  return (await store.deliveries.get(planned.delivery.id)) ? undefined : planned;
}

/** Sends a question or its end by what the channel has for it. Undefined if the channel has nothing: then the text is sent. */
export function sendAsk(
  { id, ask, route: { to, thread, replyTo }, chunks, nextChunk, resent = false }: DeliveryRecord,
  channel: Channel,
  asked: DeliveryRecord | undefined,
): ((signal: AbortSignal) => Promise<SendResult>) | undefined {
  if (!ask || to === undefined || nextChunk > 0) return undefined;
  const place = { to, ...(thread !== undefined && { thread }) };
  if (ask.ends !== undefined) {
    const ended = { ...place, messageIds: asked?.messageIds ?? [], text: chunks.join("\n") };
    return async (signal) =>
      (await channel.endQuestion?.(ended, signal)) ?? {
        status: "failed",
        reason: "the channel cannot change a message",
      };
  }
  if (!channel.ask) return undefined;
  const { code, text, instruction, language, verdicts, expiresAt } = ask;
  const question = {
    ...place,
    ...(replyTo !== undefined && { replyTo }),
    code,
    text,
    instruction,
    verdicts: verdicts.map((verdict) => ({
      verdict,
      label: renderPhrase(language, `questions.labels.${verdict}`),
    })),
    expiresAt,
    ...toSendKey({ id, resent }, 0),
  };
  return (signal) =>
    channel.ask?.(question, signal) ?? Promise.reject(new Error("the channel does not ask"));
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

/** Plans the delivery that deletes a message in which a turn's text was shown, and sends nothing. */
export function planRemoval(
  live: LiveMessage,
  { runId, route, now }: { runId: string; route: Route; now: number },
): PlannedSend {
  return planSend({ runId, route, chunks: [], live, createdAt: now });
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
