import {
  findNumber,
  normalForm,
  parseWebhook,
  pollSince,
  sameSecret,
  toIncomingMessage,
} from "#channel-kit";
import type { Channel, ReceivedMessage } from "#plugin";
import { readFiles } from "./files.ts";
import { parsePerson, VENDOR, type Message, type Server } from "./server.ts";

/** With a webhook, polling only finds the messages that it lost: the server sends each just once. */
const ASK_MS = { withWebhook: 60_000, without: 3_000 };
const OVERLAP_MS = 300_000;
const PAGE = 200;
/** A webhook waits so long for what its message answers. */
const ANSWERED_MS = 5_000;

/** The words by which a group calls the agent, and who may. */
interface Receiving {
  mentions: readonly string[];
  allowFrom: readonly string[];
}

const isDirect = (guid: string): boolean => guid.includes(";-;");

/** The facts by which a message is judged. */
interface Called extends Receiving {
  /** True if the message answers one of the agent's. */
  isAnswer: boolean;
}

/** A message for the agent, or why it is not for it; undefined for its own, for reactions and for changes of a group. */
function toMessage(
  data: Message,
  { mentions, allowFrom, isAnswer }: Called,
): ReceivedMessage | undefined {
  const { guid: id, handle, isFromMe, itemType, associatedMessageGuid } = data;
  const chat = data.chats?.[0];
  const address = handle?.address;
  if (!id || isFromMe !== false || itemType || associatedMessageGuid) return undefined;
  if (!chat?.guid || !address) return { id, skipped: "the message names no sender or no chat" };
  // An object character stands for each attachment.
  const text = [data.subject, data.text].filter(Boolean).join("\n").replaceAll("\uFFFC", "");
  const name = mentions.find((word) => text.toLowerCase().includes(word.toLowerCase()));
  const from = normalForm(parsePerson, address) ?? address;
  const direct = isDirect(chat.guid);
  return toIncomingMessage({
    id,
    from: findNumber(from, allowFrom) ?? from,
    to: `chat:${chat.guid}`,
    direct,
    ...(!direct && { room: { kind: "group", name: chat.displayName || undefined } }),
    mentioned: name !== undefined || isAnswer,
    parts: [
      { kind: "own", text: withoutName(text, name) },
      { kind: "file", files: readFiles(data.attachments) },
      { kind: "quoted", id: data.threadOriginatorGuid },
    ],
  });
}

/** The text without the name by which a group calls the agent, if a command follows it: a command stands alone. */
function withoutName(text: string, name = ""): string {
  const said = text.trimStart();
  const rest = said.toLowerCase().startsWith(name.toLowerCase())
    ? said.slice(name.length).replace(/^[\s,:]+/, "")
    : "";
  return /^[/!]/.test(rest) ? rest : text;
}

/** An edit, of which the server tells by changes of the message; other changes are receipts. */
function toEdit(message: Message, called: Called): ReceivedMessage | undefined {
  const { guid: edits, dateEdited } = message;
  const read = edits && dateEdited ? toMessage(message, called) : undefined;
  const id = `${edits} ${dateEdited}`;
  return !read || "skipped" in read ? read && { ...read, id } : { ...read, id, edits };
}

/** Both ways to receive, for a group that calls the agent by one of these words. */
export function createReceiver(
  { query, now, call }: Server,
  secret: string | undefined,
  receiving: Receiving,
): Pick<Channel, "request" | "listen"> {
  /** Asks the server for what a message of a group answers: the message has only its guid. */
  const findCalled = async (data: Message, signal: AbortSignal): Promise<Called> => {
    const { threadOriginatorGuid: guid, isFromMe, chats } = data;
    const isInGroup = isFromMe === false && !isDirect(chats?.[0]?.guid ?? "");
    const answered =
      guid && isInGroup
        ? await call<{ data?: Message }>(`message/${encodeURIComponent(guid)}`, signal).catch(
            () => undefined,
          )
        : undefined;
    return { ...receiving, isAnswer: answered?.data?.isFromMe === true };
  };
  return {
    /** Takes the server's webhook, which is not signed: the secret in the path is what says who calls. Strangers learn nothing. */
    async request(request, host) {
      const given = new URL(request.url).pathname.split("/").at(-1) ?? "";
      if (secret === undefined || !sameSecret(given, secret))
        return new Response(null, { status: 404 });
      const read = await parseWebhook<{ type?: unknown; data?: Message }>(request, {});
      if (!read.ok)
        return new Response(null, { status: read.response.status, headers: { allow: "POST" } });
      const { type, data } = read.body;
      if (type === undefined) return new Response(null, { status: 400 });
      const convert =
        type === "updated-message" ? toEdit : type === "new-message" ? toMessage : undefined;
      const message =
        data && convert?.(data, await findCalled(data, AbortSignal.timeout(ANSWERED_MS)));
      if (message) await host.receive(message);
      return new Response(null, { status: 204 });
    },
    listen(signal, host) {
      async function* read(after: number) {
        for (let offset = 0, length = PAGE; length === PAGE; offset += PAGE) {
          const page = await query({ after, sort: "ASC", limit: PAGE, offset }, signal);
          ({ length } = page);
          for (const data of page)
            if (data.guid !== undefined)
              yield {
                id: data.guid,
                at: data.dateCreated ?? 0,
                message: toMessage(data, await findCalled(data, signal)),
              };
        }
      }
      const everyMs = secret === undefined ? ASK_MS.without : ASK_MS.withWebhook;
      return pollSince(signal, host, { vendor: VENDOR, now, everyMs, overlapMs: OVERLAP_MS, read });
    },
  };
}
