import {
  findNumber,
  normalForm,
  parseWebhook,
  pollSince,
  sameSecret,
  toEdit,
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
/** The server may tell of a message so long before it knows the message's files. */
const FILES_MS = 60_000;
/** Stands in the text of a message for each of its files. */
const FILE_MARK = "\uFFFC";

/** The words by which a group calls the agent, and who may. */
interface Receiving {
  mentions: readonly string[];
  allowFrom: readonly string[];
}

const isDirect = (guid: string): boolean => guid.includes(";-;");

/** True if a message stands for more files than the server knows, or for nothing at all. */
function lacksFiles({ subject, text, attachments }: Message): boolean {
  const marked = (text ?? "").split(FILE_MARK).length - 1;
  const known = attachments?.length ?? 0;
  return known < marked || (known === 0 && !subject && !text?.trim());
}

/** The facts by which a message is judged. */
interface Called extends Receiving {
  /** True if the message answers one of the agent's. */
  isAnswer: boolean;
  /** True while the server may not know the files of the message yet. */
  isNew: boolean;
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
  const text = [data.subject, data.text].filter(Boolean).join("\n").replaceAll(FILE_MARK, "");
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

/** A change of a message: an edit, the files that a new message was without, or a receipt, which is nothing. */
function readChange(message: Message, called: Called): ReceivedMessage | undefined {
  const { guid, dateEdited, dateCreated, attachments } = message;
  if (!guid || (!dateEdited && !(called.isNew && attachments?.length))) return undefined;
  const read = toMessage(message, called);
  return read && dateEdited
    ? toEdit(read, `${guid} ${dateEdited}`, dateCreated ?? undefined)
    : read;
}

/** Both ways to receive, for a group that calls the agent by one of these words. */
export function createReceiver(
  { query, now, call }: Server,
  secret: string | undefined,
  receiving: Receiving,
): Pick<Channel, "request" | "listen"> {
  const isNew = ({ dateCreated }: Message): boolean =>
    Math.abs(now() - (dateCreated ?? 0)) < FILES_MS;
  /** A message that is not heard yet: the server tells of it again, by a change or when it is asked. */
  const isForLater = (data: Message): boolean => isNew(data) && lacksFiles(data);
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
    return { ...receiving, isAnswer: answered?.data?.isFromMe === true, isNew: isNew(data) };
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
        type === "updated-message" ? readChange : type === "new-message" ? toMessage : undefined;
      const message =
        data &&
        !isForLater(data) &&
        convert?.(data, await findCalled(data, AbortSignal.timeout(ANSWERED_MS)));
      if (message) await host.receive(message);
      return new Response(null, { status: 204 });
    },
    listen(signal, host) {
      async function* read(after: number) {
        for (let offset = 0, length = PAGE; length === PAGE; offset += PAGE) {
          const page = await query({ after, sort: "ASC", limit: PAGE, offset }, signal);
          ({ length } = page);
          for (const data of page) {
            if (data.guid === undefined || isForLater(data)) continue;
            const message = toMessage(data, await findCalled(data, signal));
            yield { id: data.guid, at: data.dateCreated ?? 0, message };
          }
        }
      }
      const everyMs = secret === undefined ? ASK_MS.without : ASK_MS.withWebhook;
      return pollSince(signal, host, { vendor: VENDOR, now, everyMs, overlapMs: OVERLAP_MS, read });
    },
  };
}
