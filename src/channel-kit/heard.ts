import type {
  Attachment,
  EarlierMessage,
  IncomingMessage,
  ReceivedMessage,
} from "../contract/channel.ts";

/** A file of a message, as its vendor tells of it. One without `ref` is named only. */
export interface HeardFile {
  kind?: Attachment["kind"] | undefined;
  name?: string | null | undefined;
  mime?: string | null | undefined;
  bytes?: number | null | undefined;
  ref?: string | null | undefined;
}

/** What somebody wrote, before it is known whether it is for the agent. */
export interface Heard extends Omit<IncomingMessage, "files" | "attachments" | "addressed"> {
  /** Whether a message of a group calls the agent, or answers it. */
  mentioned: boolean;
  /** Whether it is in a thread that the agent may take part in: then the gateway decides whether it is for the agent. */
  inThread?: boolean | undefined;
  files?: readonly HeardFile[] | undefined;
  /** What stands for a message of which nothing can be read, as a bare mention; without it that is none. */
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

/** The files of a message that the agent gets the content of. */
export const toAttachments = (files: readonly HeardFile[]): Attachment[] =>
  files.flatMap(toAttachment);

/** A message that was written before, with its files; undefined if it has neither text nor files. */
export function toEarlierMessage(
  author: string | undefined,
  text: string | null | undefined,
  files: readonly HeardFile[],
): EarlierMessage | undefined {
  const attachments = toAttachments(files);
  if (!text?.trim() && attachments.length === 0) return undefined;
  return { author, text: text ?? "", ...(attachments.length > 0 && { attachments }) };
}

/** A message for the agent, or the reason why it is skipped: not addressed to the agent, or without text. */
export function toIncomingMessage({
  mentioned,
  inThread,
  files = [],
  noText = "",
  ...heard
}: Heard): ReceivedMessage {
  const { id, text, thread, quoted, edits, ...message } = heard;
  const attachments = toAttachments(files);
  const lines = files
    .filter(({ ref }) => !ref)
    .map(({ name }) => `[file: ${name || "without a name"}]`);
  const hasFiles = attachments.length + lines.length > 0;
  const said = text.trim() || (hasFiles ? "" : noText);
  const addressed = message.direct || mentioned;
  if (!addressed && !inThread) return { id, skipped: "the message is not addressed to the agent" };
  if (said === "" && !hasFiles) return { id, skipped: "the message has no text" };
  return {
    id,
    ...message,
    text: said,
    ...(thread !== undefined && { thread }),
    ...(quoted !== undefined && { quoted }),
    ...(edits !== undefined && { edits }),
    ...(!addressed && { addressed: false }),
    ...(lines.length > 0 && { files: lines }),
    ...(attachments.length > 0 && { attachments }),
  };
}
