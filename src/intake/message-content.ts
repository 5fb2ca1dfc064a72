import {
  PART_KINDS,
  type Attachment,
  type IncomingMessage,
  type MessagePart,
} from "../contract/channel.ts";
import type { UnreadContent } from "../store/attachments.ts";

const MAX_PARTS = 200;
const MAX_ATTACHMENTS = 100;
const MAX_REF = 4000;
const MAX_TEXT = 1000;

const isShort = (value: unknown): boolean =>
  value === undefined || (typeof value === "string" && value.length <= MAX_TEXT);
const isId = (value: unknown): boolean =>
  typeof value === "string" && value !== "" && value.length <= MAX_TEXT;

function isAttachment(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { kind, name, mime, bytes, ref } = value as Record<string, unknown>;
  const isKind = kind === "image" || kind === "audio" || kind === "video" || kind === "document";
  const hasSize = bytes === undefined || (typeof bytes === "number" && bytes >= 0);
  return (
    isKind &&
    hasSize &&
    isShort(name) &&
    isShort(mime) &&
    typeof ref === "string" &&
    ref !== "" &&
    ref.length <= MAX_REF
  );
}

const areAttachments = (value: unknown): boolean =>
  Array.isArray(value) && value.length <= MAX_ATTACHMENTS && value.every(isAttachment);

function isPart(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { kind, author, place, text, attachments = [], id } = value as Record<string, unknown>;
  return (
    PART_KINDS.some((one) => one === kind) &&
    typeof text === "string" &&
    isShort(author) &&
    isShort(place) &&
    areAttachments(attachments) &&
    (id === undefined || (kind === "quoted" && isId(id)))
  );
}

const getAttachments = (parts: readonly MessagePart[]): Attachment[] =>
  parts.flatMap(({ attachments = [] }) => attachments);

/** Returns the problem of what a message holds, or undefined. */
export function findContentProblem({ parts, edits, album }: IncomingMessage): string | undefined {
  if (
    !Array.isArray(parts) ||
    parts.length > MAX_PARTS ||
    !parts.every(isPart) ||
    getAttachments(parts).length > MAX_ATTACHMENTS
  )
    return "the channel gave no usable `parts`";
  if (edits !== undefined && !isId(edits)) return "the channel gave no usable `edits`";
  if (album !== undefined && !isId(album)) return "the channel gave no usable `album`";
  const isEmpty = ({ text, attachments = [], id }: MessagePart): boolean =>
    text.trim() === "" && attachments.length === 0 && id === undefined;
  return parts.every(isEmpty) ? "the message has no text" : undefined;
}

/** Returns what the turn of a message has to get from the channel; undefined if the message holds everything itself. */
export function getUnread({ parts, direct, thread }: IncomingMessage): UnreadContent | undefined {
  const attachments = getAttachments(parts);
  const quotedIds = parts.flatMap(({ id }) => id ?? []);
  const unread: UnreadContent = {
    ...(attachments.length > 0 && { attachments: attachments.map(pickAttachment) }),
    ...(quotedIds.length > 0 && { quotedIds }),
    ...(!direct && thread !== undefined && { hasThread: true as const }),
  };
  return Object.keys(unread).length === 0 ? undefined : unread;
}

const pickAttachment = ({ kind, name, mime, bytes, ref }: Attachment): Attachment => ({
  kind,
  ref,
  ...(name !== undefined && { name }),
  ...(mime !== undefined && { mime }),
  ...(bytes !== undefined && { bytes }),
});
