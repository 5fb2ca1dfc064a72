import { ChannelError, createFetchFile, type HeardFile } from "#channel-kit";
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
