import { setTimeout as sleep } from "node:timers/promises";
import type { Update } from "grammy/types";
import { bytesAnswer, createShelf, type Shelf } from "./shelf.ts";
import { createTypingLog, keepSign, type TypingLog } from "./typing-log.ts";
import { serve, type Answer, type Call } from "./wire.ts";

/** The ends of the next calls of a method. */
export type TelegramFault =
  | "429"
  | "502"
  | "hang"
  | "cut"
  | "401"
  | "parse"
  | "chat not found"
  | "blocked"
  | "deleted"
  | "too long";

/** A message as it arrived. */
export interface TelegramMessage {
  chat: string;
  message_id: number;
  /** As it was sent, and as a reader sees it. */
  raw: string;
  text: string;
  request: Record<string, unknown>;
  /** Its inline keyboard, and the one that it was sent with. */
  buttons: { text: string; callback_data: string }[];
  asked: { text: string; callback_data: string }[];
}

export interface TelegramServer {
  url: string;
  token: string;
  messages: TelegramMessage[];
  /** Methods called, oldest first. */
  calls: { method: string; body: Record<string, unknown> }[];
  fail(fault: TelegramFault, options?: { times?: number; method?: string }): void;
  /** Puts an update into the bot's queue. */
  push(update: Omit<Update, "update_id">): number;
  /** Somebody presses a button of a message, as it was sent; by default of the last one, as it is. */
  press(label: string, from: number, message?: TelegramMessage, language?: string): void;
  /** Called when a method has done its work. The answer is held back until what it returns is done. */
  watch: (method: string) => Promise<void> | undefined;
  /** The texts that people see after they press a button. */
  notices: string[];
  /** The `allowed_updates` of the last `setWebhook`. */
  allowed?: string[];
  /** The number of updates that the bot has not confirmed yet. */
  pending(): number;
  /** Files that the bot has sent. */
  files: {
    method: string;
    chat: string;
    name: string;
    type: string;
    bytes: Buffer;
    fields: Record<string, unknown>;
  }[];
  /** Files that people have sent. */
  shelf: Shelf;
  typing: TypingLog;
  /** Chats that the bot can write to. */
  chats: Set<string>;
  /** Groups that have become supergroups. */
  moved: Map<string, number>;
  close(): Promise<void>;
}

/** The bot of the test server. */
export const BOT = {
  id: 777000111,
  is_bot: true as const,
  first_name: "Rouse",
  username: "rouse_test_bot",
};
export const RETRY_AFTER = 2;
const TAGS = new Set(["b", "i", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"]);

const ok = (result: unknown): Answer => ({ status: 200, json: { ok: true, result } });
const error = (status: number, description: string, parameters?: object): Answer => ({
  status,
  json: { ok: false, error_code: status, description, ...(parameters ? { parameters } : {}) },
});

/** The buttons of a request, or what is wrong with them. */
function readKeyboard(body: Call["body"]): TelegramMessage["buttons"] | string {
  const keyboard =
    (body["reply_markup"] as { inline_keyboard?: TelegramMessage["buttons"][] } | undefined)
      ?.inline_keyboard ?? [];
  const buttons = keyboard.flat();
  const fits = ({ text, callback_data }: TelegramMessage["buttons"][number]): boolean => {
    const bytes = Buffer.byteLength(callback_data);
    return text !== "" && bytes >= 1 && bytes <= 64;
  };
  return buttons.every(fits) ? buttons : "Bad Request: BUTTON_DATA_INVALID";
}

/** Telegram's reading of HTML: the text, or why it is refused. */
export function parseHtml(html: string): { text: string } | { problem: string } {
  const open: string[] = [];
  let text = "";
  let rest = html;
  while (rest !== "") {
    const at = rest.search(/[<&]/);
    if (at !== 0) {
      text += at < 0 ? rest : rest.slice(0, at);
      rest = at < 0 ? "" : rest.slice(at);
      continue;
    }
    const entity = /^&(lt|gt|amp|quot);/.exec(rest);
    if (rest.startsWith("&")) {
      text += entity ? { lt: "<", gt: ">", amp: "&", quot: '"' }[entity[1] as "lt"] : "&";
      rest = rest.slice(entity ? entity[0].length : 1);
      continue;
    }
    const tag = /^<(\/?)([a-z-]+)((?: [a-z]+="[^"<>]*")*)>/.exec(rest);
    if (!tag || !TAGS.has(tag[2] as string))
      return { problem: `Unsupported start tag "${rest.slice(1, 6)}" at byte offset 0` };
    if (tag[1] === "") open.push(tag[2] as string);
    else if (open.pop() !== tag[2])
      return { problem: `Unexpected end tag at byte offset ${html.length - rest.length}` };
    rest = rest.slice(tag[0].length);
  }
  return open.length === 0
    ? { text }
    : { problem: `Can't find end tag corresponding to start tag "${open.at(-1)}"` };
}

/** A Bot API server of Telegram, as far as a bot that reads and writes messages needs it. */
export async function startTelegram(): Promise<TelegramServer> {
  const token = "777000111:AAtest-token_of_the_bot-0123456789";
  const messages: TelegramMessage[] = [];
  const shelf = createShelf();
  const calls: TelegramServer["calls"] = [];
  const updates: Update[] = [];
  const chats = new Set(["42", "-1001234567890", "-1009876543210", "@somewhere"]);
  const moved = new Map<string, number>();
  const faults: { fault: TelegramFault; method: string }[] = [];
  const presses = new Set<string>();
  let nextUpdate = 9000;
  let sent = 0;
  let webhook = "";
  let poll: AbortController | undefined;

  const sendMessage = (body: Call["body"]): Answer => {
    const chat = String(body.chat_id);
    const raw = typeof body.text === "string" ? body.text : "";
    const next = moved.get(chat);
    if (next !== undefined)
      return error(400, "Bad Request: group chat was upgraded to a supergroup chat", {
        migrate_to_chat_id: next,
      });
    if (!chats.has(chat) && ![...moved.values()].includes(Number(chat)))
      return error(400, "Bad Request: chat not found");
    const parsed = body.parse_mode === "HTML" ? parseHtml(raw) : { text: raw };
    if ("problem" in parsed)
      return error(400, `Bad Request: can't parse entities: ${parsed.problem}`);
    const text = parsed.text.trim();
    if (text === "") return error(400, "Bad Request: message text is empty");
    if (text.length > 4096) return error(400, "Bad Request: message is too long");
    const message_id = ++sent;
    const buttons = readKeyboard(body);
    if (typeof buttons === "string") return error(400, buttons);
    messages.push({ chat, message_id, raw, text, request: body, buttons, asked: buttons });
    return ok({
      message_id,
      date: 1_700_000_000,
      chat: { id: Number(chat) || 1, type: "private", first_name: "A" },
      from: BOT,
      text,
    });
  };

  const deleteMessage = (body: Call["body"]): Answer => {
    const at = messages.findIndex(
      (one) => one.message_id === body["message_id"] && one.chat === String(body["chat_id"]),
    );
    if (at < 0) return error(400, "Bad Request: message to delete not found");
    messages.splice(at, 1);
    return ok(true);
  };

  const readText = ({ text }: Call["body"]): string => (typeof text === "string" ? text : "");
  const editMessageText = (body: Call["body"]): Answer => {
    const message = messages.find(
      (one) => one.message_id === body["message_id"] && one.chat === String(body["chat_id"]),
    );
    if (!message) return error(400, "Bad Request: message to edit not found");
    const raw = readText(body);
    const parsed = body["parse_mode"] === "HTML" ? parseHtml(raw) : { text: raw };
    if ("problem" in parsed)
      return error(400, `Bad Request: can't parse entities: ${parsed.problem}`);
    if (parsed.text.trim() === "") return error(400, "Bad Request: message text is empty");
    if (parsed.text.length > 4096) return error(400, "Bad Request: MESSAGE_TOO_LONG");
    const buttons = readKeyboard(body);
    if (typeof buttons === "string") return error(400, buttons);
    if (message.raw === raw && buttons.length === message.buttons.length)
      return error(400, "Bad Request: message is not modified");
    Object.assign(message, { raw, text: parsed.text.trim(), buttons });
    return ok(true);
  };

  const answerPress = (body: Call["body"]): Answer => {
    if (!presses.delete(String(body["callback_query_id"])))
      return error(400, "Bad Request: query is too old or query ID is invalid");
    if (readText(body).length > 200) return error(400, "Bad Request: MESSAGE_TOO_LONG");
    self.notices.push(readText(body));
    return ok(true);
  };

  const sendChatAction = ({ chat_id, action, message_thread_id }: Call["body"]): Answer => {
    if (!chats.has(String(chat_id))) return error(400, "Bad Request: chat not found");
    if (action !== "typing") return error(400, "Bad Request: wrong parameter action in request");
    const mode = keepSign(
      self.typing,
      String(chat_id),
      message_thread_id === undefined ? undefined : JSON.stringify(message_thread_id),
    );
    return mode === "ok"
      ? ok(true)
      : injected(mode === "hang" ? "hang" : "502", "sendChatAction", {});
  };

  const setMyCommands = ({ commands }: Call["body"]): Answer => {
    const list = commands as { command: string; description: string }[];
    const isWrong = list.some(
      ({ command, description }) =>
        !/^[a-z0-9_]{1,32}$/.test(command) || description.length < 1 || description.length > 256,
    );
    return isWrong ? error(400, "Bad Request: BOT_COMMAND_INVALID") : ok(true);
  };

  const getUpdates = async (
    { offset, timeout, limit }: Call["body"],
    gone: AbortSignal,
  ): Promise<Answer> => {
    if (webhook !== "")
      return error(
        409,
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
      );
    poll?.abort();
    const mine = (poll = new AbortController());
    while ((updates[0]?.update_id ?? Infinity) < Number(offset ?? 0)) updates.shift();
    for (
      const end = Date.now() + Number(timeout ?? 0) * 1000;
      updates.length === 0 && Date.now() < end && !gone.aborted;
    ) {
      await sleep(10);
      if (mine.signal.aborted)
        return error(
          409,
          "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
        );
    }
    return ok(updates.slice(0, Number(limit ?? 100)));
  };

  const injected = (fault: TelegramFault, method: string, body: Call["body"]): Answer => {
    if (fault === "429")
      return error(429, `Too Many Requests: retry after ${RETRY_AFTER}`, {
        retry_after: RETRY_AFTER,
      });
    if (fault === "502")
      return {
        status: 502,
        text: "<html>Bad Gateway</html>",
        headers: { "content-type": "text/html" },
      };
    if (fault === "401") return error(401, "Unauthorized");
    if (fault === "parse")
      return error(
        400,
        `Bad Request: can't parse entities: Unsupported start tag "${String(body.text).slice(0, 30)}"`,
      );
    if (fault === "chat not found") return error(400, "Bad Request: chat not found");
    if (fault === "too long") return error(400, "Bad Request: message is too long");
    if (fault === "deleted") return error(403, "Forbidden: the group chat was deleted");
    if (fault === "blocked") return error(403, "Forbidden: bot was blocked by the user");
    // A connection that is cut has carried its request: the message has arrived.
    if (fault === "cut" && method === "sendMessage") sendMessage(body);
    return fault === "cut" ? "cut" : "hang";
  };

  const { url, close } = await serve(async (call, gone) => {
    const file = /^\/file\/bot([^/]+)\/documents\/(\w+)$/.exec(call.path);
    if (file?.[1] === token && shelf.isStuck) return "hang";
    if (file?.[1] === token)
      return bytesAnswer(shelf, file[2] ?? "", call.path, call.headers.authorization);
    const answer = await answerCall(call, gone);
    await self.watch(call.path.split("/")[2] ?? "");
    return answer;
  });
  const sendFormFile = async (method: string, form: FormData | undefined): Promise<Answer> => {
    const file = form?.get(method === "sendPhoto" ? "photo" : "document");
    if (!(file instanceof File))
      return error(400, "Bad Request: there is no document in the request");
    if (
      method === "sendPhoto" &&
      (!/^image\/(?:png|jpeg)$/.test(file.type) || file.size > 10_000_000)
    )
      return error(400, "Bad Request: IMAGE_PROCESS_FAILED");
    const chat = JSON.stringify(form?.get("chat_id")).replaceAll('"', "");
    if (!chats.has(chat)) return error(400, "Bad Request: chat not found");
    const bytes = Buffer.from(await file.arrayBuffer());
    const fields = Object.fromEntries(
      [...(form ?? [])].filter(([, value]) => typeof value === "string"),
    );
    self.files.push({ method, chat, name: file.name, type: file.type, bytes, fields });
    return ok({
      message_id: 5000 + self.files.length,
      date: 1_700_000_000,
      chat: { id: Number(chat), type: "private", first_name: "A" },
    });
  };
  const others: Record<string, (body: Call["body"]) => Answer> = {
    editMessageText,
    deleteMessage,
    sendChatAction,
    answerCallbackQuery: answerPress,
    setMyCommands,
  };
  const refuseBot = (bot = ""): Answer =>
    bot.includes(":") ? error(401, "Unauthorized") : error(404, "Not Found");
  async function answerCall(
    { method: verb, path, query, body, form }: Call,
    gone: AbortSignal,
  ): Promise<Answer> {
    const [, bot, method = ""] = path.split("/");
    const given = verb === "GET" ? Object.fromEntries(query) : body;
    calls.push({ method, body: given });
    if (bot !== `bot${token}`) return refuseBot(bot);
    const index = faults.findIndex((entry) => entry.method === "" || entry.method === method);
    const [fault] = index < 0 ? [] : faults.splice(index, 1);
    if (fault) return injected(fault.fault, method, given);
    switch (method) {
      case "getMe":
        return ok({
          ...BOT,
          can_join_groups: true,
          can_read_all_group_messages: false,
          supports_inline_queries: false,
        });
      case "getFile":
        return ok({
          file_id: given["file_id"],
          file_unique_id: "u",
          file_path: `documents/${String(given["file_id"])}`,
        });
      case "sendMessage":
        return sendMessage(given);
      case "sendDocument":
      case "sendPhoto":
        return sendFormFile(method, form);
      case "getWebhookInfo":
        return ok({
          url: webhook,
          has_custom_certificate: false,
          pending_update_count: 0,
          allowed_updates: self.allowed,
        });
      case "getUpdates":
        return getUpdates(given, gone);
      case "setWebhook":
      case "deleteWebhook":
        webhook = method === "setWebhook" ? String(given.url) : "";
        return ok(true);
      default:
        return others[method]?.(given) ?? error(404, "Not Found: method not found");
    }
  }

  const self: TelegramServer = {
    url,
    token,
    notices: [],
    typing: createTypingLog(),
    files: [],
    watch: () => undefined,
    press(label, from, sent, language) {
      const message = sent ?? messages.at(-1);
      const buttons = sent ? sent.asked : message?.buttons;
      const data = buttons?.find(({ text }) => text === label)?.callback_data ?? "";
      const id = `press-${nextUpdate}`;
      presses.add(id);
      const user = {
        id: from,
        is_bot: false,
        first_name: "A",
        ...(language !== undefined && { language_code: language }),
      };
      const chat = { id: Number(message?.chat), type: "private" as const, first_name: "A" };
      const pressed = {
        message_id: message?.message_id ?? 0,
        date: 1_760_000_000,
        chat,
        text: message?.text ?? "",
      };
      self.push({ callback_query: { id, from: user, message: pressed, chat_instance: "1", data } });
    },
    messages,
    shelf,
    calls,
    chats,
    moved,
    fail: (fault, { times = 1, method = "" } = {}) =>
      void faults.push(...Array.from({ length: times }, () => ({ fault, method }))),
    push(update) {
      updates.push({ ...update, update_id: nextUpdate });
      return nextUpdate++;
    },
    pending: () => updates.length,
    close,
  };
  return self;
}
