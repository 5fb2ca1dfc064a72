import type { ConversationsRepliesResponse } from "@slack/web-api";
import {
  ChannelError,
  checkFileUrl,
  createFetchFile,
  openDownload,
  toAttachments,
  toEarlierMessage,
  type HeardFile,
} from "#channel-kit";
import type { Channel, EarlierMessage, ThreadMessage } from "#plugin";
import {
  createClient,
  messageId,
  readMessageKey,
  readPages,
  VENDOR,
  type SlackContext,
} from "./send.ts";

/** The only host of files, besides the API of the config: the bot's token goes there. */
const FILE_HOSTS = ["files.slack.com"];
const NO_SCOPE =
  "slack sent its sign-in page and no file: give the app the scope files:read and install it again";
/** How a file is known whose address has to be asked for. */
const BY_ID = /^id:(F\w{2,40})$/;

/** A file, as events carry it. */
export interface SlackFile {
  id?: string;
  name?: string;
  mimetype?: string;
  size?: number;
  mode?: string;
  url_private?: string;
  url_private_download?: string;
}

/** A message that was shared into another. */
export interface SlackShare {
  is_msg_unfurl?: boolean;
  is_share?: boolean;
  author_name?: string;
  author_id?: string;
  text?: string;
  files?: readonly SlackFile[];
}

/** The files of a message. Of one in a shared channel only the id is there. */
export const readFiles = (files: readonly SlackFile[] = []): HeardFile[] =>
  files
    .filter(({ mode }) => mode !== "tombstone" && mode !== "hidden_by_limit")
    .map(
      ({
        id,
        name,
        mimetype: mime,
        size: bytes,
        url_private_download: download,
        url_private: address,
      }) => ({
        name,
        mime,
        bytes,
        ref: download ?? address ?? (id === undefined ? undefined : `id:${id}`),
      }),
    );

/** The message that was shared with a message. */
export function readQuoted(shares: readonly SlackShare[] = []): EarlierMessage | undefined {
  const share = shares.find(
    ({ is_msg_unfurl: unfurled, is_share: shared }) => unfurled === true || shared === true,
  );
  return (
    share &&
    toEarlierMessage(share.author_name ?? share.author_id, share.text, readFiles(share.files))
  );
}

/** Opens files, and lists the messages of threads. */
export function createContentReader(
  context: SlackContext,
): Required<Pick<Channel, "fetchFile" | "listThread">> {
  const { config, fetch } = context;
  const connect = createClient(context);
  const findAddress = async (ref: string, signal: AbortSignal): Promise<string> => {
    const id = BY_ID.exec(ref)?.[1];
    if (id === undefined) return ref;
    const { file } = await (await connect(signal)).files.info({ file: id });
    return file?.url_private_download ?? file?.url_private ?? "";
  };
  return {
    fetchFile: createFetchFile(VENDOR, async ({ ref, mime }, signal) => {
      const url = checkFileUrl(await findAddress(ref, signal), {
        api: config.apiUrl,
        hosts: FILE_HOSTS,
      });
      const headers = { authorization: `Bearer ${config.botToken}` };
      const { body, type } = await openDownload(url, { fetch, vendor: VENDOR, headers, signal });
      if (!type.startsWith("text/html") || mime === "text/html") return body;
      await body.cancel();
      throw new ChannelError({ status: "failed", reason: NO_SCOPE });
    }),
    async listThread({ to, thread, before, limit }, signal) {
      const latest = before.split(":").at(-1) ?? "";
      const api = (await connect(signal)).conversations;
      const messages: NonNullable<ConversationsRepliesResponse["messages"]> = [];
      // Oldest first: the newest are on the last page.
      const about = { channel: to, ts: thread, latest, include_all_metadata: true };
      for await (const page of readPages((part) => api.replies({ ...about, ...part })))
        messages.push(...page.messages);
      return messages.slice(-limit - 1).flatMap((message): ThreadMessage[] => {
        const { ts, user, text = "", bot_id: bot, files } = message;
        if (ts === undefined || ts === latest) return [];
        const about = {
          id: messageId(to, ts),
          at: Number(ts) * 1000,
          idempotencyKey: readMessageKey(message),
        };
        return [
          { ...about, author: user ?? bot, text, attachments: toAttachments(readFiles(files)) },
        ];
      });
    },
  };
}
