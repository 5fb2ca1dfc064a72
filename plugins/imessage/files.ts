import { createFetchFile, openDownload, toEarlierMessage, type HeardFile } from "#channel-kit";
import type { Channel } from "#plugin";
import { VENDOR, type Message, type Server } from "./server.ts";

export const readFiles = (attachments: Message["attachments"]): HeardFile[] =>
  (attachments ?? []).map(
    ({ guid: ref, mimeType: mime, transferName: name, totalBytes: bytes }) => ({
      name,
      mime,
      bytes,
      ref,
    }),
  );

/** Opens files, and finds messages that were quoted: a message has only their guid. */
export function createContentReader({
  call,
  fetch,
  toUrl,
}: Server): Required<Pick<Channel, "fetchFile" | "findQuoted">> {
  return {
    fetchFile: createFetchFile(VENDOR, async ({ ref }, signal) => {
      const url = toUrl(`attachment/${encodeURIComponent(ref)}/download`);
      return (await openDownload(url, { fetch, vendor: VENDOR, signal })).body;
    }),
    async findQuoted({ id }, signal) {
      const data = (await call<{ data?: Message }>(`message/${encodeURIComponent(id)}`, signal))
        ?.data;
      if (!data) return undefined;
      return toEarlierMessage(data.isFromMe === true ? "you" : data.handle?.address, [
        { kind: "own", text: data.text?.replaceAll("\uFFFC", "") },
        { kind: "file", files: readFiles(data.attachments) },
      ]);
    },
  };
}
