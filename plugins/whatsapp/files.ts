import {
  ChannelError,
  checkFileUrl,
  createFetchFile,
  openDownload,
  parseText,
  type HeardFile,
} from "#channel-kit";
import type { Channel, PluginContext } from "#plugin";
import type { WhatsAppConfig } from "./config.ts";
import { createCall, VENDOR } from "./send.ts";

/** The host that keeps files for five minutes after their address was asked for: the token goes there. */
const FILE_HOSTS = ["lookaside.fbsbx.com"];
const KINDS = {
  image: "image",
  sticker: "image",
  audio: "audio",
  voice: "audio",
  video: "video",
  document: "document",
} as const;

/** The file of a message of this type. */
export function readFiles(type: string, value: unknown): HeardFile[] {
  if (!Object.hasOwn(KINDS, type) || typeof value !== "object" || value === null) return [];
  const { id, mime_type: mime, filename: name } = value as Record<string, unknown>;
  return [
    {
      kind: KINDS[type as keyof typeof KINDS],
      name: parseText(name),
      mime: parseText(mime),
      ref: parseText(id),
    },
  ];
}

/** Opens files: the API tells the address of a media id. */
export function createFileFetcher(
  context: Pick<PluginContext<WhatsAppConfig>, "config" | "fetch">,
): NonNullable<Channel["fetchFile"]> {
  const { config, fetch } = context;
  const call = createCall(context);
  return createFetchFile(VENDOR, async ({ ref }, signal) => {
    const media = await call<{ url?: unknown }>(encodeURIComponent(ref), signal);
    if (typeof media?.url !== "string")
      throw new ChannelError({ status: "failed", reason: "WhatsApp gave no address of the file" });
    const url = checkFileUrl(media.url, { api: config.apiUrl, hosts: FILE_HOSTS });
    const headers = { authorization: `Bearer ${config.accessToken}` };
    return (await openDownload(url, { fetch, vendor: VENDOR, headers, signal })).body;
  });
}
