import { setTimeout as sleep } from "node:timers/promises";
import type { Update } from "grammy/types";
import type { Fault } from "../../src/testing/channel.ts";
import { bytesAnswer, createShelf } from "./shelf.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";
import { failing, serve, type Answer, type Call } from "./wire.ts";

/** Ways to fail beyond those that all channels know. */
type TelegramFault = Fault | "cut-after-taking" | "parse" | "blocked" | "deleted" | "too long";

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

/** A file that the bot has sent. */
interface SentFile {
  method: string;
  chat: string;
  name: string;
  type: string;
  bytes: Buffer;
  fields: Record<string, unknown>;
}

export type TelegramServer = Awaited<ReturnType<typeof startTelegram>>;

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

/** The answer of a fault that is the vendor's own. */
function injected(fault: TelegramFault | undefined, body: Call["body"]): Answer | undefined {
  switch (fault) {
    case "rate-limited":
      return error(429, `Too Many Requests: retry after ${RETRY_AFTER}`, {
        retry_after: RETRY_AFTER,
      });
    case "bad-credential":
      return error(401, "Unauthorized");
    case "parse":
      return error(
        400,
        `Bad Request: can't parse entities: Unsupported start tag "${String(body.text).slice(0, 30)}"`,
      );
    case "no-such-recipient":
      return error(400, "Bad Request: chat not found");
    case "too long":
      return error(400, "Bad Request: message is too long");
    case "deleted":
      return error(403, "Forbidden: the group chat was deleted");
    case "blocked":
      return error(403, "Forbidden: bot was blocked by the user");
    default:
      return undefined;
  }
}

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
export async function startTelegram() {
  const token = "777000111:AAtest-token_of_the_bot-0123456789";
  const messages: TelegramMessage[] = [];
  const shelf = createShelf();
  const calls: { method: string; body: Record<string, unknown> }[] = [];
  const files: SentFile[] = [];
  const notices: string[] = [];
  const typing = createTypingLog();
  const updates: Update[] = [];
  const chats = new Set(["42", "-1001234567890", "-1009876543210", "@somewhere"]);
  const moved = new Map<string, number>();
  const faults: { fault: TelegramFault; method: string }[] = [];
  const presses = new Set<string>();
  let nextUpdate = 9000;
  let sent = 0;
  let written = 7_000;
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
    notices.push(readText(body));
    return ok(true);
  };

  const sendChatAction = ({ chat_id, action, message_thread_id }: Call["body"]): Answer => {
    if (!chats.has(String(chat_id))) return error(400, "Bad Request: chat not found");
    if (action !== "typing") return error(400, "Bad Request: wrong parameter action in request");
    const thread = message_thread_id === undefined ? undefined : JSON.stringify(message_thread_id);
    return keepSign(typing, String(chat_id), thread) ?? ok(true);
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

  const { url, close } = await serve(async (call, gone): Promise<Answer> => {
    const file = /^\/file\/bot([^/]+)\/documents\/(\w+)$/.exec(call.path);
    if (file?.[1] === token) return bytesAnswer(shelf, file[2] ?? "", call);
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
    files.push({ method, chat, name: file.name, type: file.type, bytes, fields });
    return ok({
      message_id: 5000 + files.length,
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
    return failing(
      fault?.fault,
      () => injected(fault?.fault, given) ?? run(method, given, form, gone),
    );
  }
  function run(
    method: string,
    given: Call["body"],
    form: FormData | undefined,
    gone: AbortSignal,
  ): Answer | Promise<Answer> {
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

  const push = (update: Omit<Update, "update_id">): number => {
    updates.push({ ...update, update_id: nextUpdate });
    return nextUpdate++;
  };
  const self = {
    url,
    token,
    messages,
    /** Methods called, oldest first. */
    calls,
    fail: (
      fault: TelegramFault,
      { times = 1, method = "" }: { times?: number; method?: string } = {},
    ) => void faults.push(...Array.from({ length: times }, () => ({ fault, method }))),
    /** Puts an update into the bot's queue. */
    push,
    /** Somebody writes to the bot alone, with these members beside the text or in place of others. Returns the message's id. */
    write(text: string, more: object = {}, id = 42): number {
      const person = { id, first_name: "Ann" };
      push({
        message: {
          message_id: ++written,
          date: 1_760_000_000,
          from: { ...person, is_bot: false },
          chat: { ...person, type: "private" as const },
          text,
          ...more,
        },
      });
      return written;
    },
    /** Somebody presses a button of a message, as it was sent; by default of the last one, as it is. */
    press(label: string, from: number, sent?: TelegramMessage, language?: string): void {
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
      push({ callback_query: { id, from: user, message: pressed, chat_instance: "1", data } });
    },
    /** Called when a method has done its work. The answer is held back until what it returns is done. */
    watch: (_method: string): Promise<void> | undefined => undefined,
    /** The texts that people see after they press a button. */
    notices,
    /** The `allowed_updates` of the last `setWebhook`. */
    allowed: undefined as string[] | undefined,
    /** The number of updates that the bot has not confirmed yet. */
    pending: () => updates.length,
    files,
    /** Files that people have sent. */
    shelf,
    typing,
    /** Chats that the bot can write to. */
    chats,
    /** Groups that have become supergroups. */
    moved,
    close,
  };
  return self;
}
