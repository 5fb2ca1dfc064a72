import { ChannelError, createFetchFile, objectsIn, type HeardFile } from "#channel-kit";
import type { Channel } from "#plugin";
import { toTarget, VENDOR, type createRpc } from "./send.ts";

/** A file, as the daemon tells of it. */
export interface SignalFile {
  id?: string;
  contentType?: string | null;
  filename?: string | null;
  size?: number | null;
}

/** The files of a message. The daemon wants to know for each from which conversation it is. */
export const readFiles = (files: readonly SignalFile[] = [], to: string): HeardFile[] =>
  files.map(({ id, contentType: mime, filename: name, size: bytes }) => ({
    name,
    mime,
    bytes,
    ref: id === undefined ? undefined : `${to} ${id}`,
  }));

/** The type of the file that has the whole of a text of more than 2 KiB; its message has the beginning. */
const LONG_TEXT = "text/x-signal-plain";
/** A message waits so long for it. */
const LONG_TEXT_MS = 10_000;

interface LongContent {
  message?: string | null;
  attachments?: readonly SignalFile[];
}

/** A message with the whole of its text. A file that the daemon no longer has stays a file of the message. */
export async function withWholeText<C extends LongContent>(
  content: C,
  to: string,
  fetchFile: NonNullable<Channel["fetchFile"]>,
): Promise<C> {
  const files = objectsIn(content.attachments);
  const whole = files.find(({ contentType }) => contentType === LONG_TEXT);
  if (whole?.id === undefined) return content;
  const file = { kind: "document" as const, ref: `${to} ${whole.id}` };
  const fetched = await fetchFile(file, AbortSignal.timeout(LONG_TEXT_MS));
  if (fetched.status !== "found") return content;
  const message = await new Response(fetched.body).text();
  return { ...content, message, attachments: files.filter((one) => one !== whole) };
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
