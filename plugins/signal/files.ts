import { ChannelError, createFetchFile, toEarlierMessage, type HeardFile } from "#channel-kit";
import type { Channel, EarlierMessage } from "#plugin";
import { toTarget, VENDOR, type createRpc } from "./send.ts";

/** A file, as the daemon tells of it. */
export interface SignalFile {
  id?: string;
  contentType?: string | null;
  filename?: string | null;
  size?: number | null;
}

/** What a message quotes. */
export interface SignalQuote {
  id?: number;
  authorNumber?: string | null;
  authorUuid?: string | null;
  text?: string | null;
  attachments?: readonly {
    contentType?: string | null;
    filename?: string | null;
    thumbnail?: SignalFile | null;
  }[];
}

/** The files of a message. The daemon wants to know for each from which conversation it is. */
export const readFiles = (files: readonly SignalFile[] = [], to: string): HeardFile[] =>
  files.map(({ id, contentType: mime, filename: name, size: bytes }) => ({
    name,
    mime,
    bytes,
    ref: id === undefined ? undefined : `${to} ${id}`,
  }));

/**
 * The message that a message quotes. Of its files Signal sends a thumbnail at most, which is an image; the others are only
 * named.
 */
export function readQuoted(quote: SignalQuote | undefined, to: string): EarlierMessage | undefined {
  if (!quote) return undefined;
  const { attachments = [] } = quote;
  const hasImage = (one: (typeof attachments)[number]): boolean =>
    one.contentType?.startsWith("image/") === true && one.thumbnail?.id !== undefined;
  const shown = attachments
    .filter(hasImage)
    .map(({ filename, thumbnail }) => ({ ...thumbnail, filename: filename ?? null }));
  const named = attachments
    .filter((one) => !hasImage(one))
    .map(({ filename, contentType }) => `[file: ${filename || contentType || "without a name"}]`);
  const text = [quote.text ?? "", ...named].filter(Boolean).join(" ");
  return toEarlierMessage(
    quote.authorNumber ?? quote.authorUuid ?? undefined,
    text,
    readFiles(shown, to),
  );
}

/** Gets files from the daemon, which has fetched them already. */
export function createFileFetcher(
  call: ReturnType<typeof createRpc>,
): NonNullable<Channel["fetchFile"]> {
  return createFetchFile(VENDOR, async ({ ref }, signal) => {
    const [to = "", id = ""] = ref.split(" ");
    const { recipient, groupId } = toTarget(to);
    const given = groupId === undefined ? { id, recipient: recipient?.[0] } : { id, groupId };
    const { result } = await call("file", "getAttachment", given, signal);
    const data = typeof result?.data === "string" ? result.data : undefined;
    if (data === undefined)
      throw new ChannelError({ status: "failed", reason: "the daemon no longer has the file" });
    return new Blob([Buffer.from(data, "base64")]).stream();
  });
}
