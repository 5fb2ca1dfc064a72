import {
  checkFileUrl,
  createFetchFile,
  objectsIn,
  openDownload,
  parseText,
  type HeardFile,
} from "#channel-kit";
import type { Channel, PluginContext } from "#plugin";
import type { TeamsConfig } from "./config.ts";
import { trusted } from "./references.ts";
import { VENDOR, type createTokens } from "./send.ts";

/** The hosts of files in chats. Their addresses are signed: the bot's token does not go there. */
const SHARE_HOSTS = ["*.sharepoint.com", "*.sharepoint.us", "*.sharepoint-mil.us"];
const SIGNED = "signed ";
const DOWNLOAD_INFO = "application/vnd.microsoft.teams.file.download.info";

/** An attachment of an activity. */
export interface TeamsAttachment {
  contentType?: unknown;
  contentUrl?: unknown;
  name?: unknown;
  content?: unknown;
}
const isKind = ({ contentType }: TeamsAttachment, kind: string): boolean =>
  parseText(contentType)?.startsWith(kind) ?? false;

/** Endings of names by which Teams tells pictures and recordings; others are documents. */
const MEDIA: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  mp3: "audio/mpeg",
  m4a: "audio/mp4",
  ogg: "audio/ogg",
  wav: "audio/wav",
  mp4: "video/mp4",
};

/** The files of an activity: pictures in its text are at the service, others in a share. */
export function readFiles(attachments: readonly TeamsAttachment[] | undefined): HeardFile[] {
  return objectsIn(attachments).flatMap((attachment): HeardFile[] => {
    const { contentUrl, content } = attachment;
    const name = parseText(attachment.name);
    const contentType = parseText(attachment.contentType);
    if (contentType === DOWNLOAD_INFO) {
      const { downloadUrl, fileType } = (content ?? {}) as {
        downloadUrl?: unknown;
        fileType?: unknown;
      };
      const mime = MEDIA[(parseText(fileType) ?? name?.split(".").at(-1) ?? "").toLowerCase()];
      return [{ name, mime, ref: parseText(downloadUrl) && `${SIGNED}${parseText(downloadUrl)}` }];
    }
    const isMedia = ["image/", "audio/", "video/"].some((kind) => isKind(attachment, kind));
    if (!isMedia || parseText(contentUrl) === undefined) return [];
    const mime = contentType?.endsWith("/*") ? undefined : contentType;
    return [
      {
        kind: contentType?.startsWith("image/") ? "image" : undefined,
        name,
        mime,
        ref: parseText(contentUrl),
      },
    ];
  });
}

/** Opens files. The bot's token goes to services of Teams alone. */
export function createFileFetcher(
  { config, fetch }: Pick<PluginContext<TeamsConfig>, "config" | "fetch">,
  tokens: ReturnType<typeof createTokens>,
): NonNullable<Channel["fetchFile"]> {
  return createFetchFile(VENDOR, async ({ ref }, signal) => {
    const open = async (url: URL, headers: Record<string, string> = {}) =>
      (await openDownload(url, { fetch, vendor: VENDOR, headers, signal })).body;
    if (!ref.startsWith(SIGNED) && trusted(ref, config))
      return tokens.use((headers) => open(new URL(ref), headers), signal);
    return open(
      checkFileUrl(ref.replace(SIGNED, ""), { api: config.serviceUrl, hosts: SHARE_HOSTS }),
    );
  });
}
