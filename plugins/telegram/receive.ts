import { setTimeout as sleep } from "node:timers/promises";
import type { Api } from "grammy";
import type { Message, Update } from "grammy/types";
import { readBody, sameSecret, type ChannelHost, type IncomingMessage } from "#plugin";
import { asSdkSignal, describeError, refusalOf, waitOf } from "./send.ts";

/** More than an update can be. */
const MAX_BODY = 1_048_576;
const POLL_SECONDS = 30;
/** Past this a poll hangs: the connection is dead without a word. */
const POLL_TIMEOUT_MS = (POLL_SECONDS + 15) * 1000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
const UPDATES = ["message"] as const;
/** What a message may hold besides text. */
const KINDS = [
  "photo",
  "video",
  "voice",
  "audio",
  "document",
  "animation",
  "video_note",
  "sticker",
  "location",
  "contact",
  "poll",
] as const;

/** The bot itself. */
export interface Me {
  id: number;
  username: string;
}

/** Whether a message of a group names the bot, or answers it. */
function isForBot(message: Message, text: string, me: Me): boolean {
  if (message.reply_to_message?.from?.id === me.id) return true;
  return (message.entities ?? message.caption_entities ?? []).some((entity) => {
    if (entity.type === "text_mention") return entity.user.id === me.id;
    const part = text.slice(entity.offset, entity.offset + entity.length).toLowerCase();
    const name = `@${me.username.toLowerCase()}`;
    return entity.type === "mention" ? part === name : entity.type === "bot_command" && part.endsWith(name);
  });
}

/** An update as a message for the agent; undefined where it is none: of a bot, not to this one, or without content. */
export function toMessage(update: Update, me: Me): IncomingMessage | undefined {
  const { message } = update;
  if (!message?.from || message.from.is_bot || message.sender_chat) return undefined;
  const written = message.text ?? message.caption ?? "";
  const kind = KINDS.find((key) => message[key] !== undefined);
  const text = [kind === undefined ? "" : `[${kind.replace("_", " ")}]`, written].filter((part) => part !== "").join(" ");
  if (text.trim() === "") return undefined;
  const direct = message.chat.type === "private";
  if (!direct && !isForBot(message, written, me)) return undefined;
  return {
    id: `${message.chat.id}:${message.message_id}`,
    from: String(message.from.id),
    to: String(message.chat.id),
    ...(message.is_topic_message && message.message_thread_id !== undefined ? { thread: String(message.message_thread_id) } : {}),
    direct,
    text,
  };
}

async function whoAmI(api: Api, signal?: AbortSignal): Promise<Me> {
  const { id, username } = await api.getMe(signal && asSdkSignal(signal));
  return { id, username };
}

/** A message that the gateway could not write down, which is no fault of Telegram's. */
class NotKept extends Error {}

async function keep(host: ChannelHost, message: IncomingMessage): Promise<void> {
  await host.receive(message).catch((cause: unknown) => {
    throw new NotKept("a message could not be written down", { cause });
  });
}

const describe = (error: unknown): string => (error instanceof NotKept ? error.message : describeError(error));

/** Long polling. Telegram forgets updates once a later offset is asked for, which is after they were received. */
export async function poll(client: () => Promise<Api>, signal: AbortSignal, host: ChannelHost): Promise<void> {
  const saved = Number((await host.cursor()) ?? 0);
  let offset = Number.isSafeInteger(saved) ? saved : 0;
  let me: Me | undefined;
  let failures = 0;
  let connected = false;
  while (!signal.aborted) {
    try {
      const api = await client();
      me ??= await whoAmI(api, signal);
      const patience = asSdkSignal(AbortSignal.any([signal, AbortSignal.timeout(POLL_TIMEOUT_MS)]));
      // The first answer comes at once, so that a good connection is told as soon as there is one.
      const timeout = connected ? POLL_SECONDS : 0;
      const updates = await api.getUpdates({ offset, timeout, allowed_updates: UPDATES }, patience);
      if (!connected) host.report({ ok: true, message: `receiving as @${me.username}` });
      connected = true;
      for (const update of updates) {
        const message = toMessage(update, me);
        if (message) await keep(host, message);
        offset = update.update_id + 1;
        await host.saveCursor(String(offset));
      }
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      connected = false;
      const refusal = refusalOf(error);
      if (refusal?.error_code === 409 && refusal.description.includes("webhook is active")) {
        // Left from `mode: "webhook"`: while it is set nothing can be polled. What waits there is kept.
        await (await client()).deleteWebhook({}, asSdkSignal(signal)).catch(() => undefined);
      }
      host.report({ ok: false, message: `not receiving: ${describe(error)}` });
      const wait = waitOf(error) ?? Math.min(FIRST_WAIT_MS * 2 ** failures, LONGEST_WAIT_MS);
      failures++;
      await sleep(wait, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Answers Telegram's webhook. A status that is no success makes Telegram send the update again. */
export function createWebhook(client: () => Promise<Api>, secret: string): (request: Request, host: ChannelHost) => Promise<Response> {
  let me: Promise<Me> | undefined;
  const self = (): Promise<Me> => {
    me ??= client()
      .then((api) => whoAmI(api))
      .catch((error: unknown) => {
        me = undefined;
        throw error;
      });
    return me;
  };
  return async (request, host) => {
    if (request.method !== "POST") return new Response("telegram posts here\n", { status: 405, headers: { allow: "POST" } });
    const given = request.headers.get("x-telegram-bot-api-secret-token") ?? "";
    if (!sameSecret(given, secret)) return new Response("the secret token is missing or wrong\n", { status: 401 });
    const raw = await readBody(request, MAX_BODY);
    if (!raw) return new Response("too long\n", { status: 413 });
    let update: Update;
    try {
      update = JSON.parse(raw.toString("utf8")) as Update;
    } catch {
      return new Response("not JSON\n", { status: 400 });
    }
    if (typeof update?.update_id !== "number") return new Response("not an update\n", { status: 400 });
    try {
      const message = toMessage(update, await self());
      if (message) await keep(host, message);
    } catch (error) {
      host.report({ ok: false, message: `not receiving: ${describe(error)}` });
      return new Response("try again\n", { status: 503 });
    }
    host.report({ ok: true, message: "receiving by webhook" });
    return new Response("ok\n");
  };
}
