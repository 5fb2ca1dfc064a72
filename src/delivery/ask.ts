/** Deliveries that ask people about a call, and those that end a question. */
import type { Channel, SendResult } from "../contract/channel.ts";
import type { DeliveryAsk, DeliveryRecord, Reads, Route } from "../store/types.ts";
import { renderPhrase } from "../vocabulary/phrases.ts";
import type { Channels } from "./channels.ts";
import { planSend, splitFor, toSendKey, type PlannedSend } from "./plan.ts";

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
  const planned = planAsk(
    { ...ask, next, position: ask.position + 1 },
    { runId, route, channels, now },
  );
  return (await store.deliveries.get(planned.delivery.id)) ? undefined : planned;
}

/** Sends a question or its end by what the channel has for it. Undefined if the channel has nothing: then the text is sent. */
export function sendAsk(
  ask: DeliveryAsk,
  { id, route: { to, thread, replyTo }, chunks, nextChunk, resent = false }: DeliveryRecord,
  channel: Channel,
  asked: DeliveryRecord | undefined,
): ((signal: AbortSignal) => Promise<SendResult>) | undefined {
  if (to === undefined || nextChunk > 0) return undefined;
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
