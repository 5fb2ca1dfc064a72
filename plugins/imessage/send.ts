import {
  ChannelError,
  PLAIN,
  renderMarkdown,
  sendOrReconcile,
  sentResult,
  vendorChannel,
} from "#channel-kit";
import type { Channel, SendResult, TypingPlace, FileSendResult, OutgoingFile } from "#plugin";
import { CHAT, VENDOR, type Message, type Server } from "./server.ts";

/** Sends a file by the server, which takes files only into a chat that is there. */
async function sendFile(
  { call }: Pick<Server, "call">,
  { name, mediaType, data, replyTo, idempotencyKey }: OutgoingFile,
  { chatGuid, privateApi }: { chatGuid: string | undefined; privateApi: boolean },
  signal: AbortSignal,
): Promise<FileSendResult> {
  if (chatGuid === undefined)
    return { status: "unsupported", reason: "there is no chat with this person yet" };
  const form = new FormData();
  form.append("chatGuid", chatGuid);
  form.append("tempGuid", idempotencyKey);
  form.append("name", name);
  form.append("method", privateApi ? "private-api" : "apple-script");
  if (privateApi && replyTo !== undefined) form.append("selectedMessageGuid", replyTo);
  form.append("attachment", new Blob([data], { type: mediaType }), name);
  const answer = await call<{ data?: Message }>("message/attachment", signal, form);
  return sentResult(answer?.data?.guid);
}

/** Services under which the chat with one person may stand; newer systems write `any`. */
const SERVICES = ["iMessage", "any", "SMS"];
/** The server waits up to two minutes for Messages to show what it took, and on some systems in vain: then it is looked for. */
const POST_MS = 20_000;
const LOOKS = 3;
const LOOK_WAIT_MS = 700;
/** Messages shows for a minute that somebody types, unless it is told that they have stopped. */
const TYPING_MS = 30_000;
/** By how much the clocks of the server and of this machine may differ. */
const SKEW_MS = 60_000;

/** Renders markdown as plain text whose structure can still be read; iMessage knows no marks. */
export function render(markdown: string): string {
  return renderMarkdown(markdown, { ...PLAIN, code: (code) => `\`${code}\`` });
}

/** Returns whether a message is one that was sent from here with this text, in this chat or to this person. */
function isSent(
  { isFromMe, error, text, chats }: Message,
  markdown: string,
  chat: string,
): boolean {
  const isThere = ({ guid }: { guid?: string }): boolean =>
    guid === chat || guid?.endsWith(`;-;${chat}`) === true;
  return (
    isFromMe === true &&
    !error &&
    text?.trim() === render(markdown).trim() &&
    chats?.some(isThere) === true
  );
}

/** Shows that the agent types; Messages shows it in chats with one person alone. */
function createTyping(call: Server["call"]) {
  const set =
    (method: "POST" | "DELETE") =>
    async (_: TypingPlace, chat: string | undefined, signal: AbortSignal): Promise<unknown> =>
      chat?.includes(";-;")
        ? call(`chat/${encodeURIComponent(chat)}/typing`, signal, {}, {}, method)
        : undefined;
  return { everyMs: TYPING_MS, show: set("POST"), hide: set("DELETE") };
}

/** Sends by the server. Only its Private API can quote, and show that somebody types. */
export function createChannel({ call, query, now }: Server, privateApi: boolean): Channel {
  /** The chats of people, as they were found. */
  const chats = new Map<string, string>();
  /** Guids of what was sent, so that an older message with the same text is not taken for a new one. */
  const known = new Set<string>();
  const taken = (guid: string | undefined): SendResult => {
    if (guid !== undefined) known.add(guid);
    if (known.size > 200) for (const first of known.values().take(100)) known.delete(first);
    return sentResult(guid);
  };
  const method = privateApi ? "private-api" : "apple-script";
  const posting = sendOrReconcile<string | undefined>(VENDOR, {
    postMs: POST_MS,
    looks: LOOKS,
    pauseMs: LOOK_WAIT_MS,
    now,
    async post({ to, text, replyTo, idempotencyKey }, chatGuid, signal) {
      // The server refuses a `tempGuid` that it is still at.
      const base = { tempGuid: idempotencyKey, message: render(text), method };
      const quote = privateApi && replyTo !== undefined ? { selectedMessageGuid: replyTo } : {};
      const answer =
        chatGuid === undefined
          ? await call<{ data?: Message }>("chat/new", signal, {
              ...base,
              addresses: [to],
              service: "iMessage",
            })
          : await call<{ data?: Message }>("message/text", signal, { ...base, chatGuid, ...quote });
      const { guid, messages } = answer?.data ?? {};
      if (messages && guid !== undefined) chats.set(to, guid);
      return taken(messages ? messages[0]?.guid : guid);
    },
    /** Finds a message that was sent although the server did not report it: Messages itself has it. */
    async find({ to, text }, chat, since, signal) {
      const found = await query(
        { after: Math.max(since - SKEW_MS, 1), sort: "DESC", limit: 100 },
        signal,
      );
      const guid = found.find(
        (one) => one.guid !== undefined && !known.has(one.guid) && isSent(one, text, chat ?? to),
      )?.guid;
      return guid === undefined ? undefined : taken(guid);
    },
  });
  return vendorChannel({
    vendor: VENDOR,
    /** The guid of a chat; undefined where none was begun with a person. */
    async find({ to }, signal) {
      const kept = CHAT.exec(to)?.[1] ?? chats.get(to);
      if (kept !== undefined) return kept;
      for (const service of SERVICES) {
        const guid = `${service};-;${to}`;
        const found = await call<{ data?: Message[] }>("chat/query", signal, { guid, limit: 1 });
        if (!found?.data?.some((chat) => chat.guid === guid)) continue;
        chats.set(to, guid);
        return guid;
      }
      return undefined;
    },
    post: posting,
    repost: (message, chat, since, signal) => posting(message, chat, signal, since),
    postFile: (file, chatGuid, signal) =>
      sendFile({ call }, file, { chatGuid, privateApi }, signal),
    ...(privateApi && { typing: createTyping(call) }),
    async check(signal) {
      if (!(await call("ping", signal)))
        throw new ChannelError("the address is not that of a BlueBubbles server");
    },
  });
}
