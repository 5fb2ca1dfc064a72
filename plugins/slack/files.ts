import type { ConversationsRepliesResponse } from "@slack/web-api";
import {
  ChannelError,
  checkFileUrl,
  createFetchFile,
  openDownload,
  toEarlierMessage,
} from "#channel-kit";
import type { Channel, ThreadMessage } from "#plugin";
import { readParts, type SlackContent } from "./content.ts";
import { createMembers } from "./members.ts";
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
/** The reference of a file whose address has to be asked for. */
const BY_ID = /^id:(F\w{2,40})$/;

/** Opens files, and lists the messages of threads. */
export function createContentReader(
  context: SlackContext,
): Required<Pick<Channel, "fetchFile" | "listThread">> {
  const { config, fetch } = context;
  const connect = createClient(context);
  const members = createMembers(context);
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
      const wanted = messages.slice(-limit - 1).filter(({ ts }) => ts !== latest);
      return Promise.all(
        wanted.map(async (message): Promise<ThreadMessage> => {
          const { ts = "", user, bot_id: app, bot_profile } = message;
          // An app may write under a name of its own, which the client's types lack.
          const { username, ...content } = message as SlackContent & { username?: string };
          const parts = await members.name(readParts(content));
          const name = user === undefined ? undefined : (await members.find(user))?.name;
          return {
            text: "",
            ...toEarlierMessage(username ?? bot_profile?.name ?? name ?? user ?? app, parts),
            id: messageId(to, ts),
            at: Number(ts) * 1000,
            idempotencyKey: readMessageKey(message),
          };
        }),
      );
    },
  };
}
