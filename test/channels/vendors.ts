import type { Message } from "grammy/types";
import { expect, vi } from "vitest";
import { quoteBy } from "./samples.ts";
import type { Shelf } from "./shelf.ts";
import type { Fault } from "../../src/testing/channel.ts";
import { blueBubblesServer, PASSWORD, type ServerMessage } from "./bluebubbles-server.ts";
import {
  BOT_ID as DISCORD_BOT,
  CHANNEL as DISCORD_CHANNEL,
  DIRECT as DISCORD_DIRECT,
  startDiscord,
  THREAD as DISCORD_THREAD,
  USER as DISCORD_USER,
} from "./discord-server.ts";
import { DIRECT, OTHER_BOT, ROSA, startMattermost, TOKEN, TOWN } from "./mattermost-server.ts";
import { ACCOUNT, signalServer } from "./signal-server.ts";
import {
  BOT_TOKEN,
  BOT_USER as SLACK_BOT,
  eventCallback,
  signedRequest,
  SIGNING_SECRET,
  startSlack,
} from "./slack-server.ts";
import { BOT as TELEGRAM_BOT, startTelegram } from "./telegram-server.ts";
import { section as teamsSection } from "./teams-world.ts";
import {
  activityRequest,
  CHANNEL,
  channelMessage,
  directMessage,
  PERSONAL,
  teamsServer,
} from "./teams-server.ts";
import type { TypingLog } from "./typing-log.ts";
import {
  ACCESS_TOKEN,
  notification,
  textMessage,
  valueOf,
  whatsappServer,
} from "./whatsapp-server.ts";
import { section as whatsappSection } from "./whatsapp-world.ts";

/** Writes a message: a request that the vendor sends to the gateway, or what its stream says. */
type Say = (text: string) => Promise<Request | undefined>;

/** Messages of people, other than direct messages. Every channel has all of them, or states that its vendor has no groups. */
export interface Writes {
  /** A group as recipients write it; null if the channel has none. */
  group: string | null;
  /** For the agent, in the group and in a thread of it; null if there are none. */
  mention: Say | null;
  thread: Say | null;
  /** In a group and not for the agent, of a person who is not in allowFrom, of a kind that no turn can be made of. */
  chatter: Say;
  stranger: Say;
  unreadable: Say;
  /** The reasons why `chatter` and `unreadable` are skipped. */
  reasons: { chatter: RegExp; unreadable: RegExp };
}

const NOT_ADDRESSED = /not addressed to the agent/;
const EDIT = /an edit of an earlier/;
const BOT = /written by a bot/;

/** A file that somebody sends. */
export interface SentFile {
  kind: "image" | "voice" | "document";
  name: string;
  mime: string;
  bytes: Buffer;
  /** The address in the message, on channels that name addresses. Default: the file's own address. */
  url?: string;
}

/** Direct messages to the agent, other than plain text. */
export interface Sends {
  shelf: Shelf;
  /** Writes a message to the agent alone, with these members of the vendor's beside the text or in place of others. */
  raw(text: string, more: object): ReturnType<Say>;
  file(file: SentFile, text: string): ReturnType<Say>;
  /** A message that quotes another one, which its author wrote. */
  quote(text: string, quoted: { author: string; text: string }): ReturnType<Say>;
  /** Changes the text of the message that was spoken last. */
  edit: Say;
  /** In the thread of `writes.thread`, without a mention: of the same person, and before of somebody else. Null if none is followed. */
  inThread: Say | null;
  before: ((text: string) => void) | null;
  /** Names a person of the workspace, where only ids are sent. */
  name?: (id: string, name: string) => void;
  /** Writes what a program posts into that thread, as the vendor has it; where threads are listed. */
  alert?: (post: object) => void;
  /** Takes the next post, and does not answer it; where threads are followed. */
  loseAnswer?: () => void;
  /** The credential of requests for files; undefined if they have none. */
  authorization: string | undefined;
}

/** The far side of a channel, as tests of all channels see it. */
export interface FarSide {
  sends: Sends;
  url: string;
  /** Recipients that exist. */
  to: string[];
  arrived(): { to: string; text: string }[];
  /** The next requests fail in this way. */
  fail(fault: Fault, times: number): void;
  /** The owner writes to the agent. */
  speak: Say;
  writes: Writes;
  /** The ids of what the agent has sent, where an answer names them. */
  ownIds?: () => string[];
  /** The recipient of the answer to `speak`. */
  answersTo: string;
  /** The signs that the agent is typing; undefined if the channel shows none. */
  typing?: TypingLog;
  /** Files that have arrived, where the server takes them. */
  files?: { name: string; bytes: Buffer }[];
  /** The labels of the buttons that the last message has now, and a person who presses one; on channels that ask. */
  buttons?(): string[];
  press?(label: string, by: "approver" | "stranger"): Promise<Request | undefined>;
  /** The bodies that arrived at the vendor. */
  bodies?: Record<string, unknown>[];
  close(): Promise<void> | void;
}

/** A channel with a local server that speaks its vendor's wire format. */
export interface Vendor {
  id: string;
  /** The section of the config, in which the owner may speak. */
  section(url: string): Record<string, unknown>;
  /** The plugin's own client keeps the vendor's waits: a test cannot make them pass quicker. */
  realTime?: true;
  start(): Promise<FarSide>;
}

let spoken = 0;
const OWNER = "+15551234567";
const OWNER_ID = "11111111-2222-4333-8444-555555555555";
const SIGNAL_GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI=";
const WEBHOOK_SECRET = "0123456789abcdef-secret";

const TELEGRAM_TOKEN = "777000111:AAtest-token_of_the_bot-0123456789";
const DISCORD_TOKEN = "NzAwMDAw.test-token.of-the-bot_0123456789";
const NUMBERS = ["+15551234567", "+15551234568", "+15551234569"];

/** Every channel that has a vendor. */
export const VENDORS: Vendor[] = [
  {
    id: "whatsapp",
    section: whatsappSection,
    async start() {
      const server = await whatsappServer();
      const arrived = () => server.arrived;
      const write = async (text: string, more: object = {}, from?: string) =>
        notification([[valueOf([{ ...textMessage(`wamid.${++spoken}`, text, from), ...more }])]]);
      const writes: Writes = {
        group: null,
        mention: null,
        thread: null,
        chatter: (text) => write(text, { group_id: "Y2FwaV9ncm91cA" }),
        stranger: (text) => write(text, {}, "4915112345678"),
        unreadable: (text) => write(text, { from: undefined }),
        reasons: { chatter: /in a group/, unreadable: /without a phone number/ },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, more) => write(text, text === "" ? { text: undefined, ...more } : more),
        edit(body) {
          const message = { type: "text", text: { body } };
          const edit = { original_message_id: `wamid.${spoken}`, message };
          return write("", { text: undefined, type: "edit", edit });
        },
        inThread: null,
        before: null,
        authorization: `Bearer ${ACCESS_TOKEN}`,
        file({ kind, name, ...given }, text) {
          const { id, mime } = server.shelf.put({ name, ...given });
          const about = { id, mime_type: mime, sha256: "AA==" };
          if (kind === "voice")
            return write("", {
              type: "audio",
              text: undefined,
              audio: { ...about, mime_type: `${mime}; codecs=opus`, voice: true },
            });
          const caption = { ...about, caption: text };
          const content =
            kind === "image" ? { image: caption } : { document: { ...caption, filename: name } };
          return write("", { type: kind, text: undefined, ...content });
        },
        // Only the id of what is quoted comes: here the last message that the number has sent.
        quote: (text) =>
          write(text, {
            context: {
              from: "15550001111",
              id: `wamid.${String(server.arrived.length).padStart(8, "0")}`,
            },
          }),
      };
      const speak: Say = (text) => write(text);
      const answersTo = "+15557654321";
      const buttons = () => server.arrived.at(-1)?.buttons.map(({ title }) => title) ?? [];
      const press: FarSide["press"] = (label, by) => {
        const button_reply = server.arrived.at(-1)?.buttons.find(({ title }) => title === label);
        const interactive = { type: "button_reply", button_reply };
        const pressed = { type: "interactive", text: undefined, interactive };
        return write("", pressed, by === "approver" ? undefined : "4915112345678");
      };
      const to = [answersTo, ...NUMBERS];
      return { ...server, sends, to, arrived, speak, writes, answersTo, buttons, press };
    },
  },
  {
    id: "msteams",
    section: teamsSection,
    async start() {
      const server = await teamsServer();
      const to = [PERSONAL, CHANNEL];
      const write = async (make: typeof directMessage, more: Record<string, unknown>) =>
        activityRequest(make(server.url, { id: String(++spoken), ...more }), await server.sign());
      const speak: Say = (text) => write(directMessage, { text });
      const inGroup = {
        conversation: { isGroup: true, conversationType: "groupChat", id: CHANNEL },
      };
      const writes: Writes = {
        group: CHANNEL,
        mention: (text) => write(channelMessage, { text: `<at>Rouse</at> ${text}`, ...inGroup }),
        thread: (text) => write(channelMessage, { text: `<at>Rouse</at> ${text}` }),
        chatter: (text) => write(channelMessage, { text, entities: [] }),
        stranger: (text) => write(directMessage, { text, from: { id: "29:1-Eve" } }),
        unreadable: (text) => write(directMessage, { text, type: "messageUpdate" }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: EDIT },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, more) => write(directMessage, { text, ...more }),
        edit: (text) => write(directMessage, { text, type: "messageUpdate", id: String(spoken) }),
        inThread: null,
        before: null,
        authorization: "Bearer connector-token-1",
        file({ kind, name, ...given }, text) {
          const { id } = server.shelf.put({ name, ...given });
          const picture = {
            contentType: "image/*",
            contentUrl: `${server.url}/v3/attachments/${id}/views/original`,
          };
          const [fileType] = name.split(".").slice(-1);
          const downloadUrl = `${server.url}/personal/${id}`;
          const content = { downloadUrl, uniqueId: id, fileType };
          const shared = {
            contentType: "application/vnd.microsoft.teams.file.download.info",
            contentUrl: downloadUrl,
            name,
            content,
          };
          const html = { contentType: "text/html", content: `<p>${text}</p>` };
          return write(directMessage, {
            text,
            attachments: [kind === "image" ? picture : shared, html],
          });
        },
        quote: (text, quoted) => quoteBy("msteams", sends.raw)(text, quoted),
      };
      const arrived = () => server.arrived;
      const buttons = () => server.arrived.at(-1)?.buttons.map(({ title }) => title) ?? [];
      const press: FarSide["press"] = (label, by) => {
        const value = server.arrived.at(-1)?.buttons.find(({ title }) => title === label)?.data;
        const from = by === "approver" ? {} : { from: { id: "29:1-Eve", name: "Eve" } };
        return write(directMessage, { text: undefined, value, replyToId: "1", ...from });
      };
      const answersTo = PERSONAL;
      return { ...server, sends, to, arrived, speak, writes, answersTo, buttons, press };
    },
  },
  {
    id: "signal",
    section: (url) => ({ url, account: ACCOUNT, allowFrom: [OWNER] }),
    async start() {
      const server = await signalServer();
      const arrived = () =>
        server.sent.map(({ recipient, groupId, message }) => ({
          to: recipient?.[0] ?? groupId ?? "",
          text: message ?? "",
        }));
      const owner = {
        sourceNumber: OWNER,
        sourceUuid: OWNER_ID,
        sourceName: "Ada",
        sourceDevice: 1,
      };
      const write = async (
        message: string | null,
        more: object = {},
        from: object = owner,
      ): Promise<undefined> => {
        const timestamp = 1_760_000_000_000 + ++spoken;
        const dataMessage = { timestamp, message, expiresInSeconds: 0, viewOnce: false, ...more };
        server.emit({
          envelope: { timestamp, serverReceivedTimestamp: timestamp, dataMessage, ...from },
        });
      };
      const speak: Say = (text) => write(text);
      const groupInfo = { groupId: SIGNAL_GROUP, groupName: "Friday", type: "DELIVER" };
      const mentions = [{ name: ACCOUNT, number: ACCOUNT, start: 0, length: 1 }];
      const writes: Writes = {
        group: `group:${SIGNAL_GROUP}`,
        mention: (text) => write(`\uFFFC ${text}`, { groupInfo, mentions }),
        thread: null,
        chatter: (text) => write(text, { groupInfo }),
        stranger: (text) =>
          write(
            text,
            {},
            { ...owner, sourceNumber: null, sourceUuid: OWNER_ID.replaceAll("1", "9") },
          ),
        unreadable: () => write(""),
        reasons: { chatter: NOT_ADDRESSED, unreadable: /no text/ },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, { envelope, ...more }: { envelope?: object }) =>
          write(text, more, { ...owner, ...envelope }),
        async edit(message) {
          const target = 1_760_000_000_000 + spoken;
          const timestamp = 1_760_000_000_000 + ++spoken;
          const editMessage = { targetSentTimestamp: target, dataMessage: { timestamp, message } };
          server.emit({
            envelope: { ...owner, timestamp, serverReceivedTimestamp: timestamp, editMessage },
          });
          return undefined;
        },
        inThread: null,
        before: null,
        authorization: undefined,
        file({ name, kind: _kind, ...given }, text) {
          const { id, mime, bytes } = server.shelf.put({ name, ...given });
          return write(text, {
            attachments: [
              {
                contentType: mime,
                filename: name,
                id,
                size: bytes.length,
                width: null,
                height: null,
                caption: null,
              },
            ],
          });
        },
        quote: (text, quoted) => quoteBy("signal", sends.raw)(text, quoted),
      };
      return { ...server, sends, to: NUMBERS, arrived, speak, writes, answersTo: OWNER_ID };
    },
  },
  {
    id: "imessage",
    section: (url) => ({
      url,
      password: PASSWORD,
      webhookSecret: WEBHOOK_SECRET,
      allowFrom: [OWNER],
      mentions: ["rouse"],
    }),
    async start() {
      const server = await blueBubblesServer(() => Date.now());
      const arrived = () =>
        server.sent.map(({ chatGuid, text }) => ({ to: chatGuid.replace(/^.*;-;/, ""), text }));
      const post = (event: object) =>
        new Request(`http://rouse.test/channels/imessage/${WEBHOOK_SECRET}`, {
          method: "POST",
          body: JSON.stringify(event),
        });
      const write = async (
        text: string | null,
        { type = "new-message", ...more }: { type?: string } & Partial<ServerMessage> = {},
      ) => post({ ...server.arrive(text, more), type });
      const speak: Say = (text) => write(text);
      const chats = [{ guid: "iMessage;+;chat123456", displayName: "Friday" }];
      const writes: Writes = {
        group: "chat:iMessage;+;chat123456",
        mention: (text) => write(`Rouse, ${text}`, { chats }),
        thread: null,
        chatter: (text) => write(text, { chats }),
        stranger: (text) => write(text, { handle: { address: "eve@a.example" } }),
        // A newer one may have files that the server does not know yet.
        unreadable: () => write(null, { dateCreated: Date.now() - 2 * 60_000 }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: /no text/ },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: write,
        async edit(text) {
          const data = {
            ...server.messages.findLast(({ isFromMe }) => !isFromMe),
            text,
            dateEdited: Date.now(),
          };
          return post({ type: "updated-message", data });
        },
        inThread: null,
        before: null,
        authorization: undefined,
        file({ name, kind: _kind, ...given }, text) {
          const { id: guid, mime: mimeType, bytes } = server.shelf.put({ name, ...given });
          return write(`\uFFFC${text}`, {
            attachments: [{ guid, mimeType, transferName: name, totalBytes: bytes.length }],
          });
        },
        quote(text, { author, text: before }) {
          const { guid } = server.arrive(before, { handle: { address: author } }).data;
          return write(text, { threadOriginatorGuid: guid });
        },
      };
      const ownIds = () =>
        server.messages.flatMap(({ isFromMe, guid }) => (isFromMe ? [guid] : []));
      return { ...server, sends, to: NUMBERS, arrived, speak, writes, ownIds, answersTo: OWNER };
    },
  },
  {
    id: "slack",
    section: (apiUrl) => ({
      botToken: BOT_TOKEN,
      signingSecret: SIGNING_SECRET,
      apiUrl,
      allowFrom: ["U0ANN00001"],
    }),
    async start() {
      const server = await startSlack();
      const arrived = () => server.posts.map(({ channel, text }) => ({ to: channel, text }));
      const to = ["C0123ABC", "C0123ABD", "C0123ABE"];
      let last = "";
      const write = async (event: object) => {
        const at = Math.floor(Date.now() / 1000);
        const ts = `${at}.${++spoken}`;
        const posted = { type: "message", user: "U0ANN00001", ts, ...event };
        if (!("message" in event)) last = ts;
        return signedRequest(eventCallback(posted, `Ev${spoken}`), { at });
      };
      const direct = { channel_type: "im", channel: "D0ANN00001" };
      const speak: Say = (text) => write({ ...direct, text });
      const mention = { type: "app_mention", channel: "C0123ABC" };
      const writes: Writes = {
        group: "C0123ABC",
        mention: (text) => write({ ...mention, text: `<@${SLACK_BOT}> ${text}` }),
        async thread(text) {
          const thread_ts = "1760000000.000001";
          const request = await write({ ...mention, text: `<@${SLACK_BOT}> ${text}`, thread_ts });
          server.written.push({ ts: last, thread_ts, user: "U0ANN00001", text });
          return request;
        },
        chatter: (text) => write({ channel_type: "channel", channel: "C0123ABC", text }),
        stranger: (text) => write({ ...direct, user: "U0EVE00001", text }),
        unreadable: (text) =>
          write({
            ...direct,
            user: undefined,
            subtype: "message_changed",
            message: { user: "U0ANN00001", text },
          }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: EDIT },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, more) => write({ ...direct, text, ...more }),
        edit(text) {
          const message = {
            type: "message",
            user: "U0ANN00001",
            text,
            ts: last,
            edited: { user: "U0ANN00001", ts: `${last}9` },
          };
          return write({ ...direct, user: undefined, subtype: "message_changed", message });
        },
        inThread: (text) =>
          write({
            channel_type: "channel",
            channel: "C0123ABC",
            text,
            thread_ts: "1760000000.000001",
          }),
        before: (text) =>
          void server.written.push({
            ts: "1760000000.000002",
            thread_ts: "1760000000.000001",
            user: "U0VERA0001",
            text,
          }),
        name(id, name) {
          server.locales = { ...server.locales, [id]: "en-US" };
          server.names[id] = name;
        },
        alert: (post) => void server.written.push(post as (typeof server.written)[number]),
        loseAnswer: () => server.fail("hang-after-taking", 1),
        authorization: `Bearer ${BOT_TOKEN}`,
        file({ name, kind: _kind, url: elsewhere, ...given }, text) {
          const { id, mime: mimetype, bytes } = server.shelf.put({ name, ...given });
          const url = elsewhere ?? `${server.url.replace(/api\/$/, "")}files-pri/T1-${id}`;
          const about = {
            id,
            name,
            mimetype,
            size: bytes.length,
            mode: "hosted",
            file_access: "visible",
          };
          const file = {
            ...about,
            url_private: `${url}/${name}`,
            url_private_download: `${url}/download/${name}`,
          };
          return write({ ...direct, subtype: "file_share", text, files: [file] });
        },
        quote: (text, quoted) => quoteBy("slack", sends.raw)(text, quoted),
      };
      const buttons = () => server.posts.at(-1)?.buttons.map(({ label }) => label) ?? [];
      const press: FarSide["press"] = async (label, by) =>
        server.press(label, by === "approver" ? "U0ANN00001" : "U0EVE00001");
      const answersTo = "D0ANN00001";
      return { ...server, sends, to, arrived, speak, writes, answersTo, buttons, press };
    },
  },
  {
    id: "mattermost",
    section: (url) => ({ url, token: TOKEN, allowFrom: [ROSA] }),
    async start() {
      const server = await startMattermost();
      const arrived = () =>
        server.posts.map(({ channel_id, message }) => ({ to: channel_id, text: message }));
      let last: ReturnType<typeof server.write> | undefined;
      const write = async (
        message: string,
        more: Parameters<typeof server.write>[0] | object = {},
      ): Promise<undefined> =>
        void (last = server.write({ message, channel_id: TOWN, user_id: ROSA, ...more }));
      const speak: Say = (text) => write(text, { channel_id: DIRECT });
      const root = { id: "root".padEnd(26, "0"), message: "What about this?" };
      // Before anybody listens: it leaves no event of its own.
      await write(root.message, { id: root.id, type: "system_header_change" });
      const writes: Writes = {
        group: TOWN,
        mention: (text) => write(`@rouse.bot ${text}`),
        thread: (text) => write(`@rouse.bot ${text}`, { root_id: root.id }),
        chatter: (text) => write(text),
        stranger: (text) => write(text, { channel_id: DIRECT, user_id: OTHER_BOT }),
        unreadable: (text) =>
          write(text, { channel_id: DIRECT, user_id: OTHER_BOT, props: { from_bot: "true" } }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: BOT },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, more) => write(text, { channel_id: DIRECT, ...more }),
        edit: async (text) => (last && server.edit(last, text), undefined),
        inThread: (text) => write(text, { root_id: "root".padEnd(26, "0") }),
        before: (text) =>
          void server.write({
            message: text,
            channel_id: TOWN,
            user_id: OTHER_BOT,
            root_id: "root".padEnd(26, "0"),
          }),
        alert: (post) =>
          void server.write({
            message: "",
            channel_id: TOWN,
            user_id: OTHER_BOT,
            root_id: root.id,
            ...post,
          }),
        loseAnswer: () => server.fail("hang-after-taking", 1),
        authorization: `Bearer ${TOKEN}`,
        file({ name, kind: _kind, ...given }, text) {
          const { id, mime: mime_type, bytes } = server.shelf.put({ name, ...given });
          return write(text, {
            channel_id: DIRECT,
            metadata: { files: [{ id, name, mime_type, size: bytes.length }] },
          });
        },
        quote: (text, quoted) => quoteBy("mattermost", sends.raw)(text, quoted),
      };
      const to = [TOWN, DIRECT];
      return { ...server, sends, to, arrived, speak, writes, answersTo: DIRECT };
    },
  },
  {
    id: "telegram",
    section: (url) => ({ token: TELEGRAM_TOKEN, apiUrl: `${url}/`, allowFrom: ["42"] }),
    async start() {
      const server = await startTelegram();
      // As people read a link: its text, then where it leads.
      const read = (html: string): string =>
        html.replaceAll(/<a href="([^"]*)">(.*?)<\/a>/gs, "$2 ($1)");
      const arrived = () => server.messages.map(({ chat, raw }) => ({ to: chat, text: read(raw) }));
      const fail = (fault: Fault, times: number) => {
        // Telegram takes what it is told before a connection ends.
        const its = fault === "cut-connection" ? "cut-after-taking" : fault;
        for (const method of ["sendMessage", "editMessageText", "sendChatAction", "getMe"])
          server.fail(its, { times, method });
      };
      let last = 0;
      const write = async (text: string, more?: object, id?: number): Promise<undefined> =>
        void (last = server.write(text, more, id));
      const speak: Say = (text) => write(text);
      const group = { chat: { id: -1001234567890, type: "supergroup", title: "Friday" } };
      const name = `@${TELEGRAM_BOT.username}`;
      const entities = [{ type: "mention", offset: 0, length: name.length }];
      const mention = { ...group, entities };
      const topic = {
        chat: { ...group.chat, id: -1009876543210, is_forum: true },
        is_topic_message: true,
        message_thread_id: 7,
      };
      const writes: Writes = {
        group: "-1001234567890",
        mention: (text) => write(`${name} ${text}`, mention),
        thread: (text) => write(`${name} ${text}`, { ...topic, entities }),
        chatter: (text) => write(text, group),
        stranger: (text) => write(text, {}, 43),
        unreadable: (text) => write(text, { from: { id: 5, is_bot: true, first_name: "B" } }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: BOT },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: (text, more) => write(text, text === "" ? { text: undefined, ...more } : more),
        async edit(text) {
          const from = { id: 42, is_bot: false, first_name: "Ann" };
          const chat = { id: 42, type: "private" as const, first_name: "Ann" };
          server.push({
            edited_message: {
              message_id: last,
              date: 1_760_000_000,
              edit_date: 1_760_000_001,
              from,
              chat,
              text,
            },
          });
          return undefined;
        },
        inThread: (text) => write(text, topic),
        before: null,
        authorization: undefined,
        file({ kind, name: file_name, ...given }, caption) {
          const {
            id: file_id,
            mime: mime_type,
            bytes,
          } = server.shelf.put({ name: file_name, ...given });
          const about = { file_id, file_unique_id: `u${file_id}`, file_size: bytes.length };
          const size = { ...about, width: 800, height: 600 };
          const small = { ...size, file_id: "small", file_unique_id: "us", width: 90, height: 60 };
          const content: Partial<Message> =
            kind === "image"
              ? { photo: [small, size] }
              : kind === "voice"
                ? { voice: { ...about, mime_type, duration: 3 } }
                : { document: { ...about, mime_type, file_name } };
          return write("", { text: undefined, caption, ...content });
        },
        quote: (text, quoted) => quoteBy("telegram", sends.raw)(text, quoted),
      };
      const to = ["42", "-1001234567890"];
      const buttons = () => server.messages.at(-1)?.buttons.map((button) => button.text) ?? [];
      const press: FarSide["press"] = async (label, by) => {
        server.press(label, by === "approver" ? 42 : 43);
        return undefined;
      };
      const answersTo = "42";
      return { ...server, sends, to, arrived, fail, speak, writes, answersTo, buttons, press };
    },
  },
  {
    id: "discord",
    realTime: true,
    section: (url) => ({ token: DISCORD_TOKEN, apiUrl: `${url}/`, allowFrom: [DISCORD_USER] }),
    async start() {
      const server = await startDiscord();
      server.givesContent = true;
      const arrived = () =>
        server.messages.map(({ channel, content }) => ({ to: channel, text: content }));
      const fail = (fault: Fault, times: number) => server.fail(fault, { times });
      let last: object = {};
      const write = async (content: string, more: object = {}): Promise<undefined> => {
        last = {
          id: `1100000000000${++spoken}`,
          channel_id: DISCORD_DIRECT,
          type: 0,
          content,
          author: { id: DISCORD_USER },
          mentions: [],
          attachments: [],
          ...more,
        };
        server.push(last);
      };
      const speak: Say = (text) => write(text);
      const inGuild = { guild_id: "1", channel_id: DISCORD_CHANNEL };
      const mentions = [{ id: DISCORD_BOT }];
      const writes: Writes = {
        group: DISCORD_CHANNEL,
        mention: (text) => write(`<@${DISCORD_BOT}> ${text}`, { ...inGuild, mentions }),
        // A thread is a channel of its own.
        thread: (text) =>
          write(`<@${DISCORD_BOT}> ${text}`, { ...inGuild, channel_id: DISCORD_THREAD, mentions }),
        chatter: (text) => write(text, inGuild),
        stranger: (text) => write(text, { author: { id: "600000000000000002" } }),
        unreadable: (text) => write(text, { author: { id: "5", bot: true } }),
        reasons: { chatter: NOT_ADDRESSED, unreadable: BOT },
      };
      const sends: Sends = {
        shelf: server.shelf,
        raw: write,
        async edit(content) {
          server.push(
            { ...last, content, edited_timestamp: "2026-10-09T10:00:00+00:00" },
            "MESSAGE_UPDATE",
          );
          return undefined;
        },
        inThread: (text) => write(text, { ...inGuild, channel_id: DISCORD_THREAD }),
        before: null,
        authorization: undefined,
        file({ name: filename, kind: _kind, ...given }, text) {
          const { id, mime: content_type, bytes } = server.shelf.put({ name: filename, ...given });
          const url = `${server.url.replace(/api$/, "")}attachments/1/2/${id}?ex=1&is=1&hm=a`;
          const attachment = {
            id,
            filename,
            content_type,
            size: bytes.length,
            url,
            proxy_url: url,
          };
          return write(text, { attachments: [attachment] });
        },
        quote: (text, quoted) => quoteBy("discord", sends.raw)(text, quoted),
      };
      const to = [DISCORD_CHANNEL, DISCORD_DIRECT];
      const buttons = () => server.messages.at(-1)?.buttons.map(({ label }) => label) ?? [];
      const press: FarSide["press"] = async (label, by) => {
        await vi.waitFor(() => expect(server.gateway.length).toBeGreaterThan(0));
        if (by === "approver") server.press(label, DISCORD_USER);
        else server.press(label, "600000000000000002", "guild");
        return undefined;
      };
      const answersTo = DISCORD_DIRECT;
      return { ...server, sends, to, arrived, fail, speak, writes, answersTo, buttons, press };
    },
  },
];
