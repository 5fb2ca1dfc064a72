import type { REST } from "@discordjs/rest";
import {
  checkFileUrl,
  createFetchFile,
  openDownload,
  toEarlierMessage,
  type HeardFile,
} from "#channel-kit";
import type { Channel, EarlierMessage, PluginContext } from "#plugin";
import { VENDOR } from "./send.ts";

/** Where files are. Their addresses are signed: no token goes there. */
const FILE_HOSTS = ["cdn.discordapp.com", "media.discordapp.net"];

/** A message as the gateway gives it, as far as it is read here. */
export interface GatewayMessage {
  id: string;
  channel_id: string;
  guild_id?: string;
  /** The kind of the channel. */
  channel_type?: number;
  type: number;
  content: string;
  author: { id: string; username?: string; global_name?: string | null; bot?: boolean };
  member?: { nick?: string | null };
  webhook_id?: string;
  edited_timestamp?: string | null;
  mentions: { id: string }[];
  attachments?: { filename: string; url: string; content_type?: string; size?: number }[];
  /** What it answers: Discord sends one level. */
  referenced_message?: GatewayMessage | null;
  message_reference?: { message_id?: string };
}

export const readFiles = (attachments: GatewayMessage["attachments"] = []): HeardFile[] =>
  attachments.map(({ filename: name, content_type: mime, size: bytes, url: ref }) => ({
    name,
    mime,
    bytes,
    ref,
  }));

/** The message that a message answers. */
export function readQuoted({
  referenced_message: answered,
}: Pick<GatewayMessage, "referenced_message">): EarlierMessage | undefined {
  if (!answered) return undefined;
  const { author, content, attachments } = answered;
  return toEarlierMessage(
    author.global_name ?? author.username ?? author.id,
    content,
    readFiles(attachments),
  );
}

/** Opens files, and finds messages that were quoted by their id. */
export function createContentReader(
  { config, fetch }: Pick<PluginContext<{ apiUrl: string }>, "config" | "fetch">,
  client: () => Promise<REST>,
): Required<Pick<Channel, "fetchFile" | "findQuoted">> {
  return {
    fetchFile: createFetchFile(VENDOR, async ({ ref }, signal) => {
      const url = checkFileUrl(ref, { api: config.apiUrl, hosts: FILE_HOSTS });
      return (await openDownload(url, { fetch, vendor: VENDOR, signal })).body;
    }),
    async findQuoted({ id, to }, signal) {
      const found = (await (
        await client()
      ).get(`/channels/${to}/messages/${encodeURIComponent(id)}`, { signal })) as GatewayMessage;
      return readQuoted({ referenced_message: found });
    },
  };
}
