import type { Channel, OutgoingMessage, SendResult } from "../contract/channel.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { DeliveryRecord, Store } from "../store/types.ts";

/** The number of messages that a delivery consists of: its chunks, then its files. */
export const countPieces = ({ chunks, files = [] }: DeliveryRecord): number =>
  chunks.length + files.length;

const MAX_REASON = 300;

/** What sends a file: `warning` is set if a sentence was sent in the place of the file. */
interface FileSend {
  warning?: string;
  send(signal: AbortSignal): Promise<SendResult>;
}

/** Makes what sends the file whose turn it is; undefined if it is a chunk's turn. `message` is what a text would be sent with. */
export function createFileSend(
  { chunks, files = [], nextChunk }: DeliveryRecord,
  message: OutgoingMessage,
  { channel, store }: { channel: Channel; store: Pick<Store, "get"> },
): FileSend | undefined {
  const file = files[nextChunk - chunks.length];
  if (!file) return undefined;
  const { id, name, mediaType } = file;
  const sending: FileSend = {
    async send(signal) {
      const content = channel.sendFile && (await store.get("toolResult", id))?.text;
      const { text: _text, ...place } = message;
      const data =
        content === undefined ? undefined : new Uint8Array(Buffer.from(content, "base64"));
      const missing = channel.sendFile
        ? "its content is no longer kept"
        : "this channel sends no files";
      const result =
        data && channel.sendFile
          ? await channel.sendFile({ ...place, name, mediaType, data }, signal)
          : undefined;
      if (result && result.status !== "unsupported") return result;
      const reason = cutText(oneLine(result?.reason ?? missing), MAX_REASON).text;
      sending.warning = `the file "${name}" could not be sent, and a sentence was sent in its place: ${reason}`;
      return channel.send(
        { ...message, text: `(The file "${name}" could not be sent: ${reason}.)` },
        signal,
      );
    },
  };
  return sending;
}
