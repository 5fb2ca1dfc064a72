import type { Message } from "grammy/types";
import { ChannelError, createFetchFile, openDownload, type HeardFile } from "#channel-kit";
import type { Channel } from "#plugin";
import { VENDOR, type BotContext, type createClient } from "./send.ts";

/**
 * The form of a file's path. A Bot API server of the operator's own may give a path of its disk, which is not fetched.
 */
const PATH = /^[\w-][\w./-]{0,500}$/;

/** Opens files by `getFile`. The address holds the token, so only the API of the config is asked. */
export function createFileFetcher(
  client: ReturnType<typeof createClient>,
  { config, fetch }: Pick<BotContext, "config" | "fetch">,
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

/** Sources of files: a message, the message that it answers in another chat, and paid media. */
type Media = Pick<Message, (typeof MEDIA)[number] | "paid_media">;

/** The files of a message. Of a photo there are several sizes: the last is the largest. */
export function readFiles(message: Media): HeardFile[] {
  const { photo, voice, audio, document, animation, video, video_note, paid_media } = message;
  if (paid_media) return paid_media.paid_media.flatMap((media) => readFiles(media as Media));
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
