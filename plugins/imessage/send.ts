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
/** The server waits up to two minutes for Messages to show what it took, and on some systems in vain: then it is looked for. */
const ANSWER_MS = 20_000;
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
    if (typeof found === "object") {
      const result = sortStatus(found);
      // Whatever went wrong, nothing was sent yet.
      return result.status === "unknown" ? { ...result, status: "retry" } : result;
    }
    chatGuid = found;
  } catch (error) {
    return { status: "retry", reason: `the server cannot be reached (${error instanceof NoAnswer ? error.code : "error"})` };
  }
  const method = sender.privateApi ? "private-api" : "apple-script";
  // The server refuses a `tempGuid` that it is still at.
  const base = { tempGuid: message.idempotencyKey, message: text, method };
  const quote = sender.privateApi && message.replyTo !== undefined ? { selectedMessageGuid: message.replyTo } : {};
  const patience = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
  let result: SendResult;
  try {
    const answer = await (chatGuid === undefined
      ? call(sender, "chat/new", patience, { ...base, addresses: [message.to], service: "iMessage" })
      : call(sender, "message/text", patience, { ...base, chatGuid, ...quote }));
    if (answer.status === 200) return accepted(sender, message.to, answer);
    result = sortStatus(answer);
  } catch (error) {
    const { code, written } = error instanceof NoAnswer ? error : { code: "error", written: true };
    result = written
      ? { status: "unknown", reason: `the connection to the server ended before its answer (${code})` }
      : { status: "retry", reason: `the server cannot be reached (${code})` };
  }
  if (result.status !== "unknown") return result;
  const guid = await lookFor(sender, text, chatGuid ?? message.to, begun, signal);
  return guid === undefined ? result : taken(sender, guid);
}

/** A message, or a new chat with its first. */
function accepted(sender: Sender, to: string, { body }: Answer): SendResult {
  const data = (body?.data ?? {}) as Sent;
  if (!data.messages) return data.guid === undefined ? { status: "sent" } : taken(sender, data.guid);
  if (data.guid !== undefined) sender.chats.set(to, data.guid);
  const guid = data.messages[0]?.guid;
  return guid === undefined ? { status: "sent" } : taken(sender, guid);
}

function taken(sender: Sender, guid: string): SendResult {
  sender.sent.add(guid);
  if (sender.sent.size > 200) for (const first of sender.sent.values().take(100)) sender.sent.delete(first);
  return { status: "sent", messageIds: [guid] };
}

/** The guid of what was sent although the server did not say so: Messages itself has it. `chat` is a guid or a person. */
async function lookFor(sender: Sender, text: string, chat: string, begun: number, signal: AbortSignal): Promise<string | undefined> {
  for (let look = 0; look < LOOKS && !signal.aborted; look++) {
    await sleep(LOOK_WAIT_MS, undefined, { signal }).catch(() => undefined);
    const question = { after: Math.max(begun - SKEW_MS, 1), sort: "DESC", limit: 100, with: ["chat"] };
    const answer = await call(sender, "message/query", signal, question).catch(() => undefined);
    const messages = (answer?.body?.data ?? []) as {
      guid?: string;
      text?: string | null;
      isFromMe?: boolean;
      error?: number;
      chats?: Sent[];
    }[];
    if (!Array.isArray(messages)) continue;
    const found = messages.find(
      ({ guid, isFromMe, error, chats, ...other }) =>
        guid !== undefined &&
        isFromMe &&
        !error &&
        !sender.sent.has(guid) &&
        other.text?.trim() === text.trim() &&
        chats?.some((one) => one.guid === chat || one.guid?.endsWith(`;-;${chat}`)),
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
