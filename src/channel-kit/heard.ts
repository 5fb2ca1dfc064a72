import type {
  Attachment,
  EarlierMessage,
  IncomingMessage,
  MessagePart,
  PartKind,
  ReceivedMessage,
} from "../contract/channel.ts";
import { cutText } from "../core/text.ts";
import { HELPED, renderPhrase } from "../vocabulary/phrases.ts";

/** A command as vendors show it in their apps. */
export interface NativeCommand {
  name: string;
  /** At most 100 characters. */
  description: string;
  /** The name of the word behind it, and whether it has to be there. */
  argument?: { name: string; required: boolean };
}

const ARGUMENTS: Partial<Record<string, NativeCommand["argument"]>> = {
  agent: { name: "id", required: false },
  approve: { name: "code", required: true },
  deny: { name: "code", required: true },
  link: { name: "code", required: false },
};

/** The commands of the gateway, for vendors that list commands in their apps. */
export function nativeCommands(): NativeCommand[] {
  return HELPED.map((name) => ({
    name,
    description: renderPhrase(undefined, `help.${name}`),
    ...(ARGUMENTS[name] && { argument: ARGUMENTS[name] }),
  }));
}

/** A file of a message, as its vendor tells of it. One without `ref` is named only. */
export interface HeardFile {
  kind?: Attachment["kind"] | undefined;
  name?: string | null | undefined;
  mime?: string | null | undefined;
  bytes?: number | null | undefined;
  ref?: string | null | undefined;
}

/** A part of a message, as its vendor tells of it. One without text, files and id is none. */
export interface HeardPart {
  kind: PartKind;
  author?: string | null | undefined;
  place?: string | null | undefined;
  text?: string | null | undefined;
  files?: readonly HeardFile[] | undefined;
  id?: string | null | undefined;
}

/** A message of a person, before it is known whether it is for the agent. */
interface Heard extends Omit<IncomingMessage, "parts" | "addressed"> {
  /** True if a message of a group calls the agent, or answers it. */
  mentioned: boolean;
  /**
   * True if it is in a thread that the agent may take part in: then the gateway decides whether it is for the agent.
   */
  inThread?: boolean | undefined;
  parts: readonly HeardPart[];
  /** The text of a message of which nothing can be read, such as a bare mention; without it there is no message. */
  noText?: string;
}

/** Returns the kind of a file by its media type. */
function getKind(mime: string): Attachment["kind"] {
  const kind = mime.split("/")[0];
  return kind === "image" || kind === "audio" || kind === "video" ? kind : "document";
}

function toAttachment({ kind, name, mime, bytes, ref }: HeardFile): Attachment[] {
  if (typeof ref !== "string" || ref === "") return [];
  const stated = typeof mime === "string" ? (mime.split(";")[0] ?? "").trim().toLowerCase() : "";
  return [
    {
      kind: kind ?? getKind(stated),
      ...(typeof name === "string" && name !== "" && { name }),
      ...(stated !== "" && { mime: stated }),
      ...(typeof bytes === "number" && { bytes }),
      ref,
    },
  ];
}

/** The longest name of a person or a place. */
const MAX_NAME = 200;

const given = (text: string | null | undefined): text is string =>
  typeof text === "string" && text.trim() !== "";

/** A message of several parts as one part, with the marks of what in it is of others again. */
export function nestParts(
  about: Pick<HeardPart, "kind" | "author" | "place">,
  parts: readonly HeardPart[],
): HeardPart {
  const texts = parts.map(({ kind, author, text }) => {
    const isPlain = kind === "own" || kind === "embedded" || kind === "file";
    return isPlain || !given(text)
      ? text
      : `[${kind}${given(author) ? ` by ${author}` : ""}] ${text}`;
  });
  return {
    ...about,
    text: texts.filter(given).join("\n"),
    files: parts.flatMap(({ files = [] }) => files),
  };
}

function toMessagePart({ kind, author, place, text, files = [], id }: HeardPart): MessagePart[] {
  const attachments = files.flatMap(toAttachment);
  const named = files
    .filter(({ ref }) => !ref)
    .map(({ name }) => `[file: ${name || "without a name"}]`);
  const said = [text?.trim() ?? "", ...named].filter(Boolean).join("\n");
  if (said === "" && attachments.length === 0 && !given(id)) return [];
  return [
    {
      kind,
      ...(given(author) && { author: cutText(author, MAX_NAME).text }),
      ...(given(place) && { place: cutText(place, MAX_NAME).text }),
      text: said,
      ...(attachments.length > 0 && { attachments }),
      ...(given(id) && { id }),
    },
  ];
}

/** A message that was written before, of its parts; undefined if it has neither text nor files. */
export function toEarlierMessage(
  author: string | null | undefined,
  parts: readonly HeardPart[],
): EarlierMessage | undefined {
  const [part] = toMessagePart(nestParts({ kind: "quoted", author }, parts));
  if (!part) return undefined;
  const { kind: _kind, ...message } = part;
  return message;
}

/** A message for the agent, or the reason why it is skipped: not addressed to the agent, or without text. */
export function toIncomingMessage({
  mentioned,
  inThread,
  noText = "",
  parts,
  ...heard
}: Heard): ReceivedMessage {
  const { id, thread, album, ...message } = heard;
  const said = parts.flatMap(toMessagePart);
  if (said.length === 0) said.push(...toMessagePart({ kind: "own", text: noText }));
  const addressed = message.direct || mentioned;
  if (!addressed && !inThread) return { id, skipped: "the message is not addressed to the agent" };
  if (said.length === 0) return { id, skipped: "the message has no text" };
  return {
    id,
    ...message,
    parts: said,
    ...(thread !== undefined && { thread }),
    ...(album !== undefined && { album }),
    ...(!addressed && { addressed: false }),
  };
}

/** The edit of a message: `read` is that message as it is now, `id` the edit's own. `writtenAt`: when the message was written. */
export function toEdit(read: ReceivedMessage, id: string, writtenAt?: number): ReceivedMessage {
  if ("skipped" in read) return { ...read, id };
  const edit = { ...read, id, edits: read.id };
  return Number.isFinite(writtenAt) ? { ...edit, writtenAt: Math.floor(Number(writtenAt)) } : edit;
}
