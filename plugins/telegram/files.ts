import type { Message } from "grammy/types";
import {
  ChannelError,
  createFetchFile,
  openDownload,
  toEarlierMessage,
  type HeardFile,
} from "#channel-kit";
import type { Channel, EarlierMessage, PluginContext } from "#plugin";
import { VENDOR, type createClient } from "./send.ts";

/** What may be in a path of a file; a Bot API server of one's own may give a path of its disk, which is not fetched. */
const PATH = /^[\w-][\w./-]{0,500}$/;

/** Opens files by `getFile`. The address holds the token, so only the API of the config is asked. */
export function createFileFetcher(
  client: ReturnType<typeof createClient>,
  { config, fetch }: Pick<PluginContext<{ token: string; apiUrl: string }>, "config" | "fetch">,
): NonNullable<Channel["fetchFile"]> {
  return createFetchFile(VENDOR, async ({ ref }, signal) => {
    const { file_path: path = "" } = await (await client(signal)).getFile(ref);
    if (!PATH.test(path) || path.includes(".."))
      throw new ChannelError({ status: "failed", reason: "telegram gave no address of the file" });
    const url = new URL(`${config.apiUrl}/file/bot${config.token}/${path}`);
    return (await openDownload(url, { fetch, vendor: VENDOR, signal })).body;
  });
}

const MEDIA = ["photo", "voice", "audio", "document", "animation", "video", "video_note"] as const;

/** The files of a message. Of a photo there are several sizes: the last is the largest. */
export function readFiles(message: Pick<Message, (typeof MEDIA)[number]>): HeardFile[] {
  const { photo, voice, audio, document, animation, video, video_note } = message;
  const largest = photo?.at(-1);
  if (largest)
    return [{ kind: "image", mime: "image/jpeg", bytes: largest.file_size, ref: largest.file_id }];
  // An animation is sent as a document, too.
  const file = voice ?? audio ?? animation ?? video ?? video_note ?? document;
  if (!file) return [];
  const { file_id: ref, file_size: bytes } = file;
  const { mime_type: mime, file_name: name } = file as { mime_type?: string; file_name?: string };
  const kind =
    voice || audio
      ? ("audio" as const)
      : animation || video || video_note
        ? ("video" as const)
        : undefined;
  return [{ kind, name, mime: mime ?? (voice ? "audio/ogg" : undefined), bytes, ref }];
}

/** The message that a message answers, or the part of it that was quoted, with its files. The root of a topic has neither. */
export function readQuoted({
  quote,
  reply_to_message: answered,
  external_reply: other,
}: Message): EarlierMessage | undefined {
  const text = quote?.text ?? answered?.text ?? answered?.caption;
  const user =
    answered?.from ?? (other?.origin.type === "user" ? other.origin.sender_user : undefined);
  const name = user && [user.first_name, user.last_name].filter(Boolean).join(" ");
  // A quote from another chat brings its files along, in the same members.
  const files = answered ? readFiles(answered) : other ? readFiles(other) : [];
  return toEarlierMessage(name || answered?.sender_chat?.title, text, files);
}
