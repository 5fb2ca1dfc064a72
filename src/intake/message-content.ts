import type { Attachment, IncomingMessage } from "../contract/channel.ts";
import type { UnreadContent } from "../store/attachments.ts";

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

function isQuoted(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { id, author, text, attachments } = value as Record<string, unknown>;
  return text === undefined
    ? isId(id)
    : typeof text === "string" && isShort(author) && areAttachments(attachments ?? []);
}

/** Returns the problem of what comes with a message besides its text, or undefined. */
export function findContentProblem({
  files = [],
  attachments = [],
  quoted,
  edits,
}: IncomingMessage): string | undefined {
  if (!Array.isArray(files) || files.some((file) => typeof file !== "string"))
    return "the channel gave no usable `files`";
  if (!areAttachments(attachments)) return "the channel gave no usable `attachments`";
  if (quoted !== undefined && !isQuoted(quoted)) return "the channel gave no usable `quoted`";
  return edits === undefined || isId(edits) ? undefined : "the channel gave no usable `edits`";
}

/** Returns what the turn of a message has to get from the channel; undefined if the message holds everything itself. */
export function getUnread({
  attachments: own = [],
  quoted,
  direct,
  thread,
}: IncomingMessage): UnreadContent | undefined {
  const attachments = [...own, ...((quoted && "text" in quoted && quoted.attachments) || [])];
  const unread: UnreadContent = {
    ...(attachments.length > 0 && { attachments: attachments.map(pickAttachment) }),
    ...(quoted && !("text" in quoted) && { quotedIds: [quoted.id] }),
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
