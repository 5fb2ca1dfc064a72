import { setTimeout as sleep } from "node:timers/promises";
import type { OutgoingMessage, SendResult } from "#plugin";
import { render } from "./format.ts";
import { chatOf } from "./recipient.ts";
import { call, complaint, NoAnswer, type Answer, type Server } from "./server.ts";

/** What sending needs besides the server. */
export interface Sender extends Server {
  /** Whether the server's Private API is on: only it can quote. */
  privateApi: boolean;
  /** The chats of people, as they were found. */
  chats: Map<string, string>;
  /** Guids of what was sent, so that an older message with the same text is not taken for a new one. */
  sent: Set<string>;
}

interface Sent {
  guid?: string;
  /** A code of Messages; 0 is well. */
  error?: number;
  messages?: Sent[];
}

/** Services under which the chat with one person may stand; newer systems write `any`. */
const SERVICES = ["iMessage", "any", "SMS"];
/** The server's own word for errors of Messages, after it was given the text. */
const MESSAGES_ERROR = "iMessage Error";
/** Looks for a message of which nobody knows whether it was sent, and the wait between them. */
const LOOKS = 3;
const LOOK_WAIT_MS = 700;
/** By how much the clocks of the server and of this machine may differ. */
const SKEW_MS = 60_000;

/** The guid of the chat with a person; undefined where none was begun. */
async function findChat(sender: Sender, to: string, signal: AbortSignal): Promise<string | Answer | undefined> {
  const known = chatOf(to) ?? sender.chats.get(to);
  if (known !== undefined) return known;
  for (const service of SERVICES) {
    const guid = `${service};-;${to}`;
    const answer = await call(sender, "chat/query", signal, { guid, limit: 1 });
    if (answer.status !== 200) return answer;
    const chats = (answer.body?.data ?? []) as { guid?: string }[];
    if (!chats.some((chat) => chat.guid === guid)) continue;
    sender.chats.set(to, guid);
    return guid;
  }
  return undefined;
}

/** Sends one message. */
export async function send(sender: Sender, message: OutgoingMessage, signal: AbortSignal): Promise<SendResult> {
  const text = render(message.text);
  const begun = sender.now();
  let chatGuid: string | undefined;
  try {
    const found = await findChat(sender, message.to, signal);
    if (typeof found === "object") return sortStatus(found);
    chatGuid = found;
  } catch (error) {
    // Nothing was sent yet.
    return { status: "retry", reason: `the server cannot be reached (${error instanceof NoAnswer ? error.code : "error"})` };
  }
  const method = sender.privateApi ? "private-api" : "apple-script";
  // The server refuses a `tempGuid` that it is still at.
  const base = { tempGuid: message.idempotencyKey, message: text, method };
  const quote = sender.privateApi && message.replyTo !== undefined ? { selectedMessageGuid: message.replyTo } : {};
  try {
    const answer = await (chatGuid === undefined
      ? call(sender, "chat/new", signal, { ...base, addresses: [message.to], service: "iMessage" })
      : call(sender, "message/text", signal, { ...base, chatGuid, ...quote }));
    if (answer.status !== 200) return sortStatus(answer);
    const sent = answer.body?.data as Sent | undefined;
    const guid = chatGuid === undefined ? sent?.messages?.[0]?.guid : sent?.guid;
    return taken(sender, guid);
  } catch (error) {
    const code = error instanceof NoAnswer ? error.code : "error";
    if (error instanceof NoAnswer && !error.written) return { status: "retry", reason: `the server cannot be reached (${code})` };
    const guid = await lookFor(sender, text, chatGuid, begun, signal);
    if (guid !== undefined) return taken(sender, guid);
    return { status: "unknown", reason: `the connection to the server ended before its answer (${code})` };
  }
}

function taken(sender: Sender, guid: string | undefined): SendResult {
  if (guid === undefined) return { status: "sent" };
  sender.sent.add(guid);
  if (sender.sent.size > 200) for (const first of sender.sent.values().take(100)) sender.sent.delete(first);
  return { status: "sent", messageIds: [guid] };
}

/** The guid of what was sent although no answer came: Messages itself has it. */
async function lookFor(
  sender: Sender,
  text: string,
  chatGuid: string | undefined,
  begun: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (let look = 0; look < LOOKS && chatGuid !== undefined && !signal.aborted; look++) {
    await sleep(LOOK_WAIT_MS, undefined, { signal }).catch(() => undefined);
    const question = { chatGuid, after: Math.max(begun - SKEW_MS, 1), sort: "DESC", limit: 20 };
    const answer = await call(sender, "message/query", signal, question).catch(() => undefined);
    const messages = (answer?.body?.data ?? []) as { guid?: string; text?: string | null; isFromMe?: boolean; error?: number }[];
    if (!Array.isArray(messages)) continue;
    const found = messages.find(
      ({ guid, isFromMe, error, ...other }) =>
        guid !== undefined && isFromMe && !error && !sender.sent.has(guid) && other.text?.trim() === text.trim(),
    );
    if (found) return found.guid;
  }
  return undefined;
}

function sortStatus({ status, retryAfterMs, body }: Answer): SendResult {
  const said = `${body?.error?.error ?? ""} ${body?.error?.message ?? ""}`;
  const code = (body?.data as Sent | undefined)?.error ?? 0;
  if (status === 429)
    return { status: "retry", reason: complaint(status), ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) };
  if (status === 400 && /already queued/i.test(said))
    return { status: "unknown", reason: "the server is still at an earlier try of this message" };
  if (status === 400) return { status: "failed", reason: "the server refused the message (400)" };
  if (status < 500) return { status: "failed", reason: status === 404 ? "the server knows no such chat" : complaint(status) };
  if (/private api/i.test(said))
    return { status: "failed", reason: "the server's Private API is off: set channels.imessage.privateApi to false" };
  if (/chat.{0,40}(?:does not|doesn.t) exist|can.t get chat/i.test(said))
    return { status: "failed", reason: "the server knows no such chat" };
  if (code !== 0)
    return {
      status: "failed",
      reason: `Messages could not send it (error ${code})${code === 22 ? ": the recipient has no iMessage" : ""}`,
    };
  if (body?.error?.type === MESSAGES_ERROR || status === 504)
    return { status: "unknown", reason: `the server does not know whether Messages sent it (${status})` };
  return { status: "retry", reason: complaint(status), ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) };
}
