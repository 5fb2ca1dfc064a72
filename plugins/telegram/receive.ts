import type { Api } from "grammy";
import type { CallbackQuery, Message, Update, UserFromGetMe } from "grammy/types";
import {
  backOff,
  classifyError,
  cutText,
  nativeCommands,
  once,
  parseDecision,
  parseWebhook,
  reconnectLoop,
  sameSecret,
  sleep,
  textResponse,
  toEdit,
  toIncomingMessage,
  watch,
} from "#channel-kit";
import type { Channel, ChannelHost, ReceivedMessage } from "#plugin";
import { readParts, toName } from "./content.ts";
import { getRefusal, VENDOR, type createClient } from "./send.ts";

type Client = ReturnType<typeof createClient>;

const POLL_SECONDS = 30;
/** Past this a poll hangs: the connection is dead without a word. */
const POLL_TIMEOUT_MS = (POLL_SECONDS + 15) * 1000;
const UPDATES = ["message", "edited_message", "callback_query"] as const;
/** The longest answer to a press. */
const MAX_NOTICE = 200;
/** Commands that are for this bot without its name: Telegram gives a bot those of a group that it wrote in last. */
const COMMANDS = new Set(["/start", ...nativeCommands().map(({ name }) => `/${name}`)]);
/** So many albums are remembered that address the bot. */
const MAX_ALBUMS = 100;

/** Posts of a channel, and those of administrators who stay anonymous. */
const NO_PERSON = "the message was written in the name of a group or channel, not of a person";

/**
 * Returns `bot` for a message of a group that names the bot or answers it, and `other` for a command for another bot.
 * What a message that was passed on names does not count.
 */
function findAddressee(message: Message, me: UserFromGetMe): "bot" | "other" | undefined {
  const { reply_to_message: answered, forward_origin, entities, caption_entities } = message;
  // A message of a topic that the bot has opened answers that notice.
  if (answered?.from?.id === me.id && !answered.forum_topic_created) return "bot";
  const text = message.text ?? message.caption ?? "";
  const name = `@${me.username.toLowerCase()}`;
  const found = (forward_origin ? [] : (entities ?? caption_entities ?? [])).map((entity) => {
    if (entity.type === "text_mention") return entity.user.id === me.id && "bot";
    const part = text.slice(entity.offset, entity.offset + entity.length).toLowerCase();
    if (entity.type === "mention") return part === name && "bot";
    if (entity.type !== "bot_command") return false;
    if (part.includes("@")) return part.endsWith(name) ? "bot" : "other";
    return entity.offset === 0 && COMMANDS.has(part) && "bot";
  });
  return found.includes("bot") ? "bot" : found.includes("other") ? "other" : undefined;
}

const toAlbum = ({ chat, media_group_id: id }: Message): string | undefined =>
  id === undefined ? undefined : `${chat.id}:${id}`;

/**
 * Remembers the albums of which one message addresses the bot: the others are for it, too. Those that came before it are
 * kept until then.
 */
function createAlbums(me: UserFromGetMe) {
  const called = new Set<string>();
  const waiting = new Map<string, Message[]>();
  const forget = (albums: Pick<Map<string, unknown>, "keys" | "size" | "delete">): void => {
    for (const oldest of albums.keys()) if (albums.size > MAX_ALBUMS) albums.delete(oldest);
  };
  return {
    note(updates: readonly Partial<Update>[]): void {
      for (const { message } of updates) {
        const album = message && toAlbum(message);
        if (album !== undefined && findAddressee(message as Message, me) === "bot")
          called.add(album);
      }
      forget(called);
    },
    /** Gives the messages of a message's album that came before; none as long as the album is not for the bot. */
    takeEarlier(message: Message): readonly Message[] {
      const album = toAlbum(message);
      if (album === undefined || message.chat.type === "private") return [];
      const earlier = waiting.get(album) ?? [];
      // Given with each later message, since one may not be written down: a repeat makes no second turn.
      if (called.has(album)) return earlier;
      waiting.set(album, [...earlier, message]);
      forget(waiting);
      return [];
    },
    has: (album: string | undefined): boolean => album !== undefined && called.has(album),
  };
}

/** The bot, and what it knows of albums. */
interface Self {
  me: UserFromGetMe;
  albums: ReturnType<typeof createAlbums>;
}

const createSelf = (client: Client, until: () => AbortSignal): (() => Promise<Self>) =>
  once(async () => {
    const me = await (await client(until())).getMe();
    return { me, albums: createAlbums(me) };
  });

/** An update as a message for the agent, or why it is not for it; undefined if it is no message at all. */
function toMessage(update: Update, self: Self): ReceivedMessage | undefined {
  const {
    message,
    edited_message: edited,
    channel_post: post,
    edited_channel_post: editedPost,
  } = update;
  if (post ?? editedPost) return { id: `update ${update.update_id}`, skipped: NO_PERSON };
  if (!edited) return message && readMessage(message, self);
  // A place that is shared live is edited with each movement.
  if (edited.location?.live_period !== undefined) return undefined;
  const read = readMessage(edited, self);
  const id = `${read.id} ${edited.edit_date ?? update.update_id}`;
  return toEdit(read, id, edited.date * 1000);
}

function readMessage(message: Message, { me, albums }: Self): ReceivedMessage {
  const { from, chat, sender_chat } = message;
  const id = `${chat.id}:${message.message_id}`;
  if (!from || sender_chat) return { id, skipped: NO_PERSON };
  if (from.is_bot) return { id, skipped: "the message was written by a bot" };
  const direct = chat.type === "private";
  const addressee = findAddressee(message, me);
  const album = toAlbum(message);
  return toIncomingMessage({
    id,
    from: String(from.id),
    name: toName(from),
    language: from.language_code,
    to: String(chat.id),
    thread: message.is_topic_message ? message.message_thread_id?.toString() : undefined,
    direct,
    ...(!direct && { room: { kind: "group", name: chat.title } }),
    mentioned: addressee === "bot" || albums.has(album),
    album,
    // Each message of a forum is in a topic; one of General does not say so. Elsewhere a thread's id is that of a chain of answers.
    inThread: chat.is_forum === true && addressee === undefined,
    parts: readParts(message),
  });
}

/** Returns whether a webhook gets presses of buttons: `setWebhook` may have left them out. */
export async function takesPresses(api: Api): Promise<boolean> {
  const { allowed_updates: allowed = [] } = await api.getWebhookInfo();
  return allowed.length === 0 || allowed.includes("callback_query");
}

/** Passes a press on, and shows the answer to the person. An answer that comes too late for Telegram is not shown. */
async function takePress(
  { id, from, data = "" }: CallbackQuery,
  api: Api,
  host: ChannelHost,
): Promise<void> {
  const decision = parseDecision(data);
  const { text } = decision
    ? await host.decide({ id, from: String(from.id), language: from.language_code, ...decision })
    : { text: "" };
  const notice = cutText(text, MAX_NOTICE).text;
  await api.answerCallbackQuery(id, { text: notice }).catch(() => undefined);
}

/** Hands over what an update holds. */
async function take(update: Update, self: Self, api: Api, host: ChannelHost): Promise<void> {
  if (update.callback_query) return takePress(update.callback_query, api, host);
  const message = toMessage(update, self);
  for (const earlier of update.message ? self.albums.takeEarlier(update.message) : [])
    await host.receive(readMessage(earlier, self));
  if (message) await host.receive(message);
}

/** Shows the commands in Telegram's apps. Tries again until Telegram has them, or refuses them. */
async function registerCommands(client: Client, signal: AbortSignal): Promise<void> {
  const commands = nativeCommands().map(({ name, description }) => ({
    command: name,
    description,
  }));
  for (let failures = 1; !signal.aborted; failures++) {
    try {
      await (await client(signal)).setMyCommands(commands);
      return;
    } catch (error) {
      const failure = classifyError(VENDOR, error);
      if (failure.status === "failed") return;
      const asked = failure.status === "retry" ? (failure.afterMs ?? 0) : 0;
      await sleep(Math.max(backOff(failures), asked), signal);
    }
  }
}

/** Long polling. Telegram forgets updates once a later offset is asked for, which is after they were received. */
export async function poll(client: Client, signal: AbortSignal, host: ChannelHost): Promise<void> {
  const self = createSelf(client, () => signal);
  const register = once(() => registerCommands(client, signal));
  let connected = false;
  const connect = async (watched: ChannelHost): Promise<number> => {
    const known = await self();
    const offset = Number(await watched.cursor()) || 0;
    const api = await client(AbortSignal.any([signal, AbortSignal.timeout(POLL_TIMEOUT_MS)]));
    // The first answer comes at once, so that a good connection is told as soon as there is one.
    const timeout = connected ? POLL_SECONDS : 0;
    connected = false;
    const updates = await api
      .getUpdates({ offset, timeout, allowed_updates: UPDATES })
      .catch(async (error: unknown) => {
        const refusal = getRefusal(error);
        // Left from `mode: "webhook"`: while it is set nothing can be polled. What waits there is kept.
        if (refusal?.error_code === 409 && refusal.description.includes("webhook is active"))
          await api.deleteWebhook().catch(() => undefined);
        throw error;
      });
    watched.report({ ok: true, message: `receiving as @${known.me.username}` });
    void register();
    known.albums.note(updates);
    for (const update of updates) {
      await take(update, known, api, watched);
      await watched.saveCursor(String(update.update_id + 1));
    }
    connected = true;
    return 0;
  };
  await reconnectLoop(signal, host, {
    connect,
    vendor: VENDOR,
    say: (reason) => `not receiving: ${reason}`,
  });
}

/** Registers the commands in place of `poll`. Messages come by requests, of which there may be none for long. */
export async function registerForWebhook(
  client: Client,
  signal: AbortSignal,
  host: ChannelHost,
): Promise<void> {
  const ended = new Promise<void>((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true }),
  );
  host.report({ ok: true, message: "waits for requests" });
  await registerCommands(client, signal);
  if (!signal.aborted) await ended;
}

/** Answers Telegram's webhook. A status that is no success makes Telegram send the update again. */
export function createWebhook(client: Client, secret: string): NonNullable<Channel["request"]> {
  const self = createSelf(client, () => AbortSignal.timeout(POLL_TIMEOUT_MS));
  const admits = (headers: Headers): boolean =>
    sameSecret(headers.get("x-telegram-bot-api-secret-token") ?? "", secret);
  return async (request, host) => {
    const read = await parseWebhook<Update>(request, { admits });
    if (!read.ok) return read.response;
    if (typeof read.body.update_id !== "number") return textResponse(400, "not an update");
    try {
      const known = await self();
      known.albums.note([read.body]);
      await take(
        read.body as Update,
        known,
        await client(AbortSignal.timeout(POLL_TIMEOUT_MS)),
        watch(host),
      );
    } catch (error) {
      host.report({ ok: false, message: `not receiving: ${classifyError(VENDOR, error).reason}` });
      return textResponse(503, "try again");
    }
    host.report({ ok: true, message: "receiving by webhook" });
    return textResponse(200, "ok");
  };
}
