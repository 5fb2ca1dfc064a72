/** How people write on the three channels of the office, and what they see of the gateway: the vendors' servers. */
import type { Message, MessageEntity } from "grammy/types";
import { startMattermost, TOKEN, type MattermostPost } from "../../channels/mattermost-server.ts";
import {
  BOT_TOKEN,
  BOT_USER,
  eventCallback,
  signedRequest,
  SIGNING_SECRET,
  startSlack,
} from "../../channels/slack-server.ts";
import { BOT, startTelegram } from "../../channels/telegram-server.ts";
import type { SentFile } from "../../channels/vendors.ts";
import type { Arrived } from "./ledger.ts";
import type { Account, ChannelId, Office } from "./people.ts";

/** What somebody writes. */
export interface Words {
  from: Account;
  /** The conversation of the author alone, or a room. */
  to: string;
  text: string;
  /** Calls the agent by its name. */
  mention?: boolean;
  thread?: string;
  file?: SentFile;
  quote?: { author: string; text: string };
  /** The author is a bot. */
  byBot?: boolean;
}

/** A message that was written. */
export interface Written {
  /** Where its answer has to arrive. */
  place: string;
  /** Its own id, which is the thread that it begins. */
  id: string;
  edit(text: string): Promise<void>;
}

export interface Desk {
  section: object;
  write(words: Words): Promise<Written>;
  arrived(): Arrived[];
  close(): Promise<void>;
}

/** Hands a vendor's request over until the gateway says that it has it, as vendors do. */
export type Post = (make: () => Request) => Promise<void>;

const placeOf = (channel: ChannelId, to: string, thread?: string): string =>
  [channel, to, ...(thread === undefined ? [] : [thread])].join(" ");

async function openTelegram({ accounts, rooms }: Office, now: () => number): Promise<Desk> {
  const server = await startTelegram();
  for (const { channel, direct } of accounts) if (channel === "telegram") server.chats.add(direct);
  for (const { channel, id } of rooms) if (channel === "telegram") server.chats.add(id);
  const forums = new Set(rooms.filter(({ topics }) => topics.length > 0).map(({ id }) => id));
  let count = 0;
  const contentOf = ({ file, text, quote }: Words, entities: MessageEntity[]): Partial<Message> => {
    const chat = { id: 1, type: "private" as const, first_name: "A" };
    const author = { id: 5, is_bot: false, first_name: quote?.author ?? "" };
    const quoted = quote && {
      reply_to_message: {
        message_id: 1,
        date: 1_760_000_000,
        chat,
        from: author,
        text: quote.text,
      },
    };
    if (!file) return { text, entities, ...(quoted as object) };
    const { id: file_id, bytes } = server.shelf.put(file);
    const about = { file_id, file_unique_id: `u${file_id}`, file_size: bytes.length };
    if (file.kind === "image")
      return { caption: text, photo: [{ ...about, width: 64, height: 48 }] };
    if (file.kind === "voice")
      return { caption: text, voice: { ...about, mime_type: file.mime, duration: 3 } };
    return { caption: text, document: { ...about, mime_type: file.mime, file_name: file.name } };
  };
  return {
    section: { token: server.token, apiUrl: server.url },
    async write(words) {
      const { from, to, mention = false, thread, byBot = false } = words;
      const isDirect = to === from.direct;
      const name = `@${BOT.username}`;
      const text = mention && !isDirect ? `${name} ${words.text}` : words.text;
      const message = {
        message_id: 100_000 + ++count,
        date: Math.floor(now() / 1000),
        from: { id: Number(from.id), is_bot: byBot, first_name: from.name },
        chat: isDirect
          ? { id: Number(to), type: "private", first_name: from.name }
          : {
              id: Number(to),
              type: "supergroup",
              title: `Group ${to}`,
              ...(forums.has(to) && { is_forum: true }),
            },
        ...contentOf(
          { ...words, text },
          mention && !isDirect ? [{ type: "mention", offset: 0, length: name.length }] : [],
        ),
        ...(thread !== undefined && { is_topic_message: true, message_thread_id: Number(thread) }),
      };
      server.push({ message: message as never });
      return {
        place: placeOf("telegram", to, thread),
        id: String(message.message_id),
        edit: async (changed) =>
          void server.push({
            edited_message: { ...message, text: changed, edit_date: message.date + count } as never,
          }),
      };
    },
    arrived: () =>
      server.messages.map(({ chat, text, request }) => {
        const thread = request["message_thread_id"];
        return {
          place: placeOf("telegram", chat, typeof thread === "number" ? String(thread) : undefined),
          text,
        };
      }),
    close: server.close,
  };
}

async function openSlack(now: () => number, post: Post): Promise<Desk> {
  const server = await startSlack();
  let count = 0;
  const publish = async (event: object): Promise<void> => {
    const id = `Ev${++count}`;
    const make = (): Request =>
      signedRequest(eventCallback(event, id), { at: Math.floor(now() / 1000) });
    await post(make);
    // What was late to be acknowledged comes once more.
    if (count % 5 === 0) await post(make);
  };
  const contentOf = ({ file, quote }: Words): object => {
    const share = {
      is_msg_unfurl: true,
      is_share: true,
      author_name: quote?.author,
      text: quote?.text,
      ts: "1.1",
      channel_id: "C1",
    };
    if (!file) return quote ? { attachments: [share] } : {};
    const { id, bytes } = server.shelf.put(file);
    const url = `${server.url.replace(/api\/$/, "")}files-pri/T1-${id}`;
    const about = {
      id,
      name: file.name,
      mimetype: file.mime,
      size: bytes.length,
      mode: "hosted",
      file_access: "visible",
    };
    return {
      subtype: "file_share",
      files: [
        {
          ...about,
          url_private: `${url}/${file.name}`,
          url_private_download: `${url}/download/${file.name}`,
        },
      ],
    };
  };
  return {
    section: { botToken: BOT_TOKEN, signingSecret: SIGNING_SECRET, apiUrl: server.url },
    async write(words) {
      const { from, to, mention = false, thread, byBot = false } = words;
      const isDirect = to === from.direct;
      const ts = `${Math.floor(now() / 1000)}.${String(++count).padStart(6, "0")}`;
      const text = mention && !isDirect ? `<@${BOT_USER}> ${words.text}` : words.text;
      const where = { channel: to, channel_type: isDirect ? "im" : "channel" };
      const message = {
        user: from.id,
        ts,
        text,
        ...contentOf(words),
        ...(thread !== undefined && { thread_ts: thread }),
        ...(byBot && { bot_id: "B1" }),
      };
      if (!isDirect)
        server.written.push({ ts, thread_ts: thread ?? ts, user: from.id, text, channel: to });
      // An app that is subscribed to a channel's messages gets a mention twice.
      if (mention && !isDirect) await publish({ type: "app_mention", channel: to, ...message });
      await publish({ type: "message", ...where, ...message });
      return {
        place: placeOf("slack", to, isDirect ? undefined : (thread ?? ts)),
        id: ts,
        edit: (changed) =>
          publish({
            type: "message",
            subtype: "message_changed",
            ...where,
            ts: `${Math.floor(now() / 1000)}.${String(++count).padStart(6, "0")}`,
            message: {
              type: "message",
              ...message,
              text: changed,
              edited: { user: from.id, ts: `${ts}9` },
            },
          }),
      };
    },
    arrived: () =>
      server.posts.map(({ channel, thread_ts, text }) => ({
        place: placeOf("slack", channel, thread_ts),
        text,
      })),
    close: server.close,
  };
}

async function openMattermost({ accounts, rooms }: Office, now: () => number): Promise<Desk> {
  const server = await startMattermost(now);
  const directs = new Set<string>();
  for (const { channel, id, name, direct } of accounts) {
    if (channel !== "mattermost") continue;
    server.addMember(id, name.toLowerCase().replace(" ", "."), direct);
    directs.add(direct);
  }
  for (const { channel, id } of rooms) if (channel === "mattermost") server.addRoom(id);
  return {
    section: { url: server.url, token: TOKEN },
    async write({ from, to, text, mention = false, thread, file, quote, byBot = false }) {
      const isDirect = to === from.direct;
      const given: Partial<MattermostPost> & { message: string } = {
        message: mention && !isDirect ? `@rouse.bot ${text}` : text,
        channel_id: to,
        user_id: from.id,
        ...(thread !== undefined && { root_id: thread }),
        ...(byBot && { props: { from_bot: "true" } }),
      };
      if (quote) {
        const data = {
          post_id: "p",
          post: { user_id: from.id, message: quote.text },
          team_name: "t",
          channel_display_name: "c",
        };
        given.metadata = { embeds: [{ type: "permalink", url: "", data }] };
      }
      if (file) {
        const { id, bytes } = server.shelf.put(file);
        given.metadata = {
          files: [{ id, name: file.name, mime_type: file.mime, size: bytes.length }],
        };
      }
      const post = server.write(given);
      return {
        place: placeOf("mattermost", to, isDirect ? undefined : (thread ?? post.id)),
        id: post.id,
        edit: async (changed) => server.edit(post, changed),
      };
    },
    arrived: () =>
      server.posts.map(({ channel_id: room, root_id, message: text }) => ({
        place: placeOf("mattermost", room, directs.has(room) ? undefined : root_id),
        text,
      })),
    close: server.close,
  };
}

/** Opens the servers of the three vendors, with the people and rooms of the office on them. */
export async function openDesks(
  office: Office,
  now: () => number,
  post: Post,
): Promise<Record<ChannelId, Desk>> {
  const [telegram, slack, mattermost] = await Promise.all([
    openTelegram(office, now),
    openSlack(now, post),
    openMattermost(office, now),
  ]);
  return { telegram, slack, mattermost };
}
